// Reads and writes memory row by row, like a CPU: an access to unmapped memory
// faults here too.
//
// SPDX-License-Identifier: Apache-2.0
#include "Tiles.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>

using namespace mpc::emulator;

namespace {

constexpr unsigned kTiles = 8, kRows = 16, kRowBytes = 64;

struct Tile {
  unsigned rows, rowBytes;
  alignas(64) uint8_t data[kRows][kRowBytes];
};

/// The bytes that LDTILECFG reads and STTILECFG writes.
struct Configuration {
  uint8_t palette;
  uint8_t startRow;
  uint8_t reserved[14];
  uint16_t rowBytes[16];
  uint8_t rows[16];
};
static_assert(sizeof(Configuration) == 64);

struct ThreadTiles {
  Configuration configuration;
  Tile tiles[kTiles];
};

// A signal handler must not allocate, so the storage is static TLS.
__attribute__((tls_model("initial-exec"))) thread_local ThreadTiles state;

} // namespace

static bool configure(const Configuration &wanted) {
  if (wanted.palette > 1)
    return false;
  for (unsigned i = 0; i < 16; ++i) {
    bool used = wanted.rows[i] || wanted.rowBytes[i];
    bool whole = wanted.rows[i] && wanted.rowBytes[i];
    if (wanted.palette == 1 &&
        (used != whole || wanted.rows[i] > kRows ||
         wanted.rowBytes[i] > kRowBytes || (used && i >= kTiles)))
      return false;
  }
  std::memset(static_cast<void *>(&state), 0, sizeof state);
  if (wanted.palette == 0)
    return true;
  state.configuration = wanted;
  for (unsigned i = 0; i < kTiles; ++i) {
    state.tiles[i].rows = wanted.rows[i];
    state.tiles[i].rowBytes = wanted.rowBytes[i];
  }
  return true;
}

static void zeroFrom(Tile &tile, unsigned row) {
  for (; row < kRows; ++row)
    std::memset(tile.data[row], 0, kRowBytes);
}

static void load(Tile &tile, const Instruction &instruction) {
  uint64_t address = instruction.firstRow();
  for (unsigned row = 0; row < tile.rows; ++row) {
    std::memcpy(tile.data[row], reinterpret_cast<const void *>(address),
                tile.rowBytes);
    std::memset(tile.data[row] + tile.rowBytes, 0, kRowBytes - tile.rowBytes);
    address += instruction.rowDistance();
  }
  zeroFrom(tile, tile.rows);
}

static void store(const Tile &tile, const Instruction &instruction) {
  uint64_t address = instruction.firstRow();
  for (unsigned row = 0; row < tile.rows; ++row) {
    std::memcpy(reinterpret_cast<void *>(address), tile.data[row],
                tile.rowBytes);
    address += instruction.rowDistance();
  }
}

// sum[m][n] += a[m][2k] b[k][2n] + a[m][2k+1] b[k][2n+1]. Even and odd products
// are summed separately, without intermediate rounding, and then added. Rounds
// to nearest, and flushes denormal numbers to zero.
__attribute__((target("avx512f"))) static void
multiplyBF16(Tile &sum, const Tile &a, const Tile &b) {
  constexpr unsigned kFlushAndIgnoreDenormals = 0x8040, kNoExceptions = 0x1f80;
  const unsigned before = _mm_getcsr();
  _mm_setcsr(kFlushAndIgnoreDenormals | kNoExceptions);
  const __m512i high = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  __m512 evens[kRows], odds[kRows];
  for (unsigned k = 0; k < b.rows; ++k) {
    __m512i pairs = _mm512_load_si512(b.data[k]);
    evens[k] = _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
    odds[k] = _mm512_castsi512_ps(_mm512_and_si512(pairs, high));
  }
  const auto columns = static_cast<__mmask16>((1u << sum.rowBytes / 4) - 1);
  for (unsigned m = 0; m < sum.rows; ++m) {
    __m512 even = _mm512_setzero_ps(), odd = _mm512_setzero_ps();
    for (unsigned k = 0; k < b.rows; ++k) {
      uint32_t pair;
      std::memcpy(&pair, a.data[m] + 4 * k, 4);
      auto low = static_cast<int>(pair << 16);
      auto up = static_cast<int>(pair & 0xffff0000);
      even = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_set1_epi32(low)),
                             evens[k], even);
      odd = _mm512_fmadd_ps(_mm512_castsi512_ps(_mm512_set1_epi32(up)), odds[k],
                            odd);
    }
    __m512 old = _mm512_load_ps(sum.data[m]);
    __m512 total = _mm512_add_ps(old, _mm512_add_ps(even, odd));
    _mm512_store_ps(sum.data[m], _mm512_maskz_mov_ps(columns, total));
  }
  _mm_setcsr(before);
}

static int32_t extended(uint8_t byte, bool isSigned) {
  return isSigned ? static_cast<int8_t>(byte) : byte;
}

static void multiplyInt8(Tile &sum, const Tile &a, bool signedA, const Tile &b,
                         bool signedB) {
  for (unsigned m = 0; m < sum.rows; ++m)
    for (unsigned n = 0; n < sum.rowBytes / 4; ++n) {
      uint32_t total;
      std::memcpy(&total, sum.data[m] + 4 * n, 4);
      for (unsigned k = 0; k < b.rows; ++k)
        for (unsigned i = 0; i < 4; ++i)
          total +=
              static_cast<uint32_t>(extended(a.data[m][4 * k + i], signedA) *
                                    extended(b.data[k][4 * n + i], signedB));
      std::memcpy(sum.data[m] + 4 * n, &total, 4);
    }
}

static bool multiply(const Instruction &instruction) {
  if (instruction.reg >= kTiles || instruction.rm >= kTiles ||
      instruction.vvvv >= kTiles)
    return false;
  Tile &sum = state.tiles[instruction.reg];
  const Tile &a = state.tiles[instruction.rm];
  const Tile &b = state.tiles[instruction.vvvv];
  if (!sum.rows || !a.rows || !b.rows || sum.rows != a.rows ||
      sum.rowBytes != b.rowBytes || a.rowBytes != 4 * b.rows || &sum == &a ||
      &sum == &b || &a == &b)
    return false;
  if (instruction.opcode == 0x5c) {
    if (instruction.prefix != Prefix::PF3)
      return false;
    multiplyBF16(sum, a, b);
    return true;
  }
  // The prefix of opcode 5E selects the signs: none for uu, 66 for us, F3 for
  // su, F2 for ss.
  bool signedA =
      instruction.prefix == Prefix::PF3 || instruction.prefix == Prefix::PF2;
  bool signedB =
      instruction.prefix == Prefix::P66 || instruction.prefix == Prefix::PF2;
  multiplyInt8(sum, a, signedA, b, signedB);
  return true;
}

static bool runConfiguration(const Instruction &instruction) {
  switch (instruction.prefix) {
  case Prefix::None:
    if (instruction.inMemory) {
      Configuration wanted;
      std::memcpy(&wanted,
                  reinterpret_cast<const void *>(instruction.address(1)), 64);
      return configure(wanted);
    }
    std::memset(static_cast<void *>(&state), 0, sizeof state);
    return true;
  case Prefix::P66:
    if (!instruction.inMemory)
      return false;
    std::memcpy(reinterpret_cast<void *>(instruction.address(1)),
                &state.configuration, 64);
    return true;
  case Prefix::PF2:
    if (instruction.inMemory || instruction.reg >= kTiles)
      return false;
    zeroFrom(state.tiles[instruction.reg], 0);
    return state.configuration.palette == 1;
  case Prefix::PF3:
    return false;
  }
  return false;
}

bool mpc::emulator::runTileInstruction(const Instruction &instruction) {
  if (instruction.evex || instruction.map != 2 || instruction.w ||
      instruction.vectorBytes != 16)
    return false;
  switch (instruction.opcode) {
  case 0x49:
    return runConfiguration(instruction);
  case 0x4b: {
    if (!instruction.inMemory || instruction.reg >= kTiles)
      return false;
    Tile &tile = state.tiles[instruction.reg];
    if (!tile.rows || instruction.prefix == Prefix::None)
      return false;
    if (instruction.prefix == Prefix::PF3)
      store(tile, instruction);
    else
      load(tile, instruction);
    return true;
  }
  case 0x5c:
  case 0x5e:
    return !instruction.inMemory && multiply(instruction);
  default:
    return false;
  }
}
