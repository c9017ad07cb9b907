// Computes in wider types and rounds once. A float16 sum, difference, product,
// quotient or root that was first rounded to float32 rounds to the same
// float16.
//
// SPDX-License-Identifier: Apache-2.0
#include "Half.h"

#include "runtime/FloatBits.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace mpc::emulator;
using mpc::runtime::doubleToFloatRoundToOdd;
using mpc::runtime::f16ToFloat;
using mpc::runtime::floatToF16;

namespace {

/// The type of an operand's elements.
enum class Kind { F16, F32, F64, I16, U16, I32, U32, I64, U64 };

unsigned sizeOf(Kind kind) {
  switch (kind) {
  case Kind::F16:
  case Kind::I16:
  case Kind::U16:
    return 2;
  case Kind::F32:
  case Kind::I32:
  case Kind::U32:
    return 4;
  case Kind::F64:
  case Kind::I64:
  case Kind::U64:
    return 8;
  }
  return 0;
}

template <class T>
T get(const uint8_t *element) {
  T value;
  std::memcpy(&value, element, sizeof(T));
  return value;
}

template <class T>
void put(uint8_t *element, T value) {
  std::memcpy(element, &value, sizeof(T));
}

/// Exact, except for integers beyond 2^53, which are infinite in float16
/// anyway.
double read(Kind kind, const uint8_t *element) {
  switch (kind) {
  case Kind::F16:
    return f16ToFloat(get<uint16_t>(element));
  case Kind::F32:
    return get<float>(element);
  case Kind::F64:
    return get<double>(element);
  case Kind::I16:
    return get<int16_t>(element);
  case Kind::U16:
    return get<uint16_t>(element);
  case Kind::I32:
    return get<int32_t>(element);
  case Kind::U32:
    return get<uint32_t>(element);
  case Kind::I64:
    return static_cast<double>(get<int64_t>(element));
  case Kind::U64:
    return static_cast<double>(get<uint64_t>(element));
  }
  return 0;
}

/// Converts `value` like a CPU. Conversions to integers truncate towards zero.
/// Values out of range give the smallest signed or the largest unsigned
/// integer.
void write(Kind kind, uint8_t *element, double value) {
  switch (kind) {
  case Kind::F16:
    return put(element, floatToF16(doubleToFloatRoundToOdd(value)));
  case Kind::F32:
    return put(element, static_cast<float>(value));
  case Kind::F64:
    return put(element, value);
  case Kind::I16:
    return put(element, std::fabs(value) < 32768 ? static_cast<int16_t>(value)
                                                 : int16_t{INT16_MIN});
  case Kind::U16:
    return put(element, value > -1 && value < 65536
                            ? static_cast<uint16_t>(value)
                            : uint16_t{UINT16_MAX});
  case Kind::I32:
    return put(element, std::fabs(value) < 0x1p31 ? static_cast<int32_t>(value)
                                                  : INT32_MIN);
  case Kind::U32:
    return put(element, value > -1 && value < 0x1p32
                            ? static_cast<uint32_t>(value)
                            : UINT32_MAX);
  case Kind::I64:
    return put(element, std::fabs(value) < 0x1p63 ? static_cast<int64_t>(value)
                                                  : INT64_MIN);
  case Kind::U64:
    return put(element, value > -1 && value < 0x1p64
                            ? static_cast<uint64_t>(value)
                            : UINT64_MAX);
  }
}

/// Executes one instruction, element by element.
class HalfExecutor {
public:
  HalfExecutor(const Instruction &instruction, SavedRegisters &registers)
      : in(instruction), registers(registers) {}

  bool run();

private:
  bool runMap3();
  bool runMap5();
  bool runMap6();

  bool moveScalar(bool toRM);
  bool moveWord(bool toRM);
  bool arithmetic(bool scalar);
  bool multiplyAdd();
  bool compare(bool scalar);
  bool compareToFlags();
  bool roundToScale(bool scalar);
  bool convert(Kind to, Kind from);
  bool convertScalar(Kind to, Kind from);
  bool convertFromGeneral(bool isSigned);
  bool convertToGeneral(bool isSigned, bool cut);

  /// The last source: `lanes` elements of `size` bytes from a register or from
  /// memory, which the instruction may broadcast. Masked elements are not read.
  Vector source(unsigned lanes, unsigned size) const;
  bool active(unsigned lane) const {
    return !in.maskNumber || (registers.mask(in.maskNumber) >> lane & 1);
  }
  /// Writes elements under the mask, and zeros behind them.
  void finish(Vector &result, unsigned lanes, unsigned size);
  /// Writes element 0 under the mask, and the rest of vvvv's xmm behind it.
  void finishScalar(Vector &result, unsigned size);

  const Instruction &in;
  SavedRegisters &registers;
};

} // namespace

Vector HalfExecutor::source(unsigned lanes, unsigned size) const {
  if (!in.inMemory)
    return registers.vector(in.rm);
  Vector value = {};
  bool one = in.broadcast || lanes == 1;
  const auto *memory =
      reinterpret_cast<const uint8_t *>(in.address(one ? size : lanes * size));
  for (unsigned lane = 0; lane < lanes; ++lane)
    if (active(lane))
      std::memcpy(&value.bytes[lane * size], memory + (one ? 0 : lane * size),
                  size);
  return value;
}

void HalfExecutor::finish(Vector &result, unsigned lanes, unsigned size) {
  Vector old = registers.vector(in.reg);
  for (unsigned lane = 0; lane < lanes; ++lane) {
    if (active(lane))
      continue;
    if (in.zeroing)
      std::memset(&result.bytes[lane * size], 0, size);
    else
      std::memcpy(&result.bytes[lane * size], &old.bytes[lane * size], size);
  }
  std::fill(result.bytes.begin() + lanes * size, result.bytes.end(), 0);
  registers.setVector(in.reg, result);
}

void HalfExecutor::finishScalar(Vector &result, unsigned size) {
  if (!active(0)) {
    Vector old = registers.vector(in.reg);
    if (in.zeroing)
      std::memset(&result.bytes[0], 0, size);
    else
      std::memcpy(&result.bytes[0], &old.bytes[0], size);
  }
  Vector upper = registers.vector(in.vvvv);
  std::copy(upper.bytes.begin() + size, upper.bytes.begin() + 16,
            result.bytes.begin() + size);
  std::fill(result.bytes.begin() + 16, result.bytes.end(), 0);
  registers.setVector(in.reg, result);
}

bool HalfExecutor::moveScalar(bool toRM) {
  if (!in.inMemory) {
    // Both directions are the same move in two encodings.
    unsigned from = toRM ? in.reg : in.rm, to = toRM ? in.rm : in.reg;
    Instruction move = in;
    move.reg = to;
    Vector value = registers.vector(from);
    HalfExecutor(move, registers).finishScalar(value, 2);
    return true;
  }
  if (!toRM) {
    Vector value = source(1, 2);
    finish(value, 1, 2);
  } else if (active(0)) {
    Vector value = registers.vector(in.reg);
    std::memcpy(reinterpret_cast<void *>(in.address(2)), &value.bytes[0], 2);
  }
  return true;
}

bool HalfExecutor::moveWord(bool toRM) {
  if (toRM) {
    Vector value = registers.vector(in.reg);
    if (in.inMemory)
      std::memcpy(reinterpret_cast<void *>(in.address(2)), &value.bytes[0], 2);
    else
      registers.setGeneral(in.rm & 15, get<uint16_t>(&value.bytes[0]));
    return true;
  }
  Vector value = {};
  if (in.inMemory)
    value = source(1, 2);
  else
    put(&value.bytes[0], static_cast<uint16_t>(registers.general(in.rm & 15)));
  finish(value, 1, 2);
  return true;
}

static float compute(uint8_t opcode, float a, float b) {
  switch (opcode) {
  case 0x51:
    return std::sqrt(b);
  case 0x58:
    return a + b;
  case 0x59:
    return a * b;
  case 0x5c:
    return a - b;
  case 0x5d:
    return a < b ? a : b; // also b if one is NaN or both are zeros
  case 0x5e:
    return a / b;
  default: // 5F
    return a > b ? a : b;
  }
}

bool HalfExecutor::arithmetic(bool scalar) {
  unsigned lanes = scalar ? 1 : in.vectorBytes / 2;
  Vector a = registers.vector(in.vvvv), b = source(lanes, 2), result = {};
  for (unsigned lane = 0; lane < lanes; ++lane)
    write(
        Kind::F16, &result.bytes[lane * 2],
        static_cast<double>(compute(
            in.opcode, static_cast<float>(read(Kind::F16, &a.bytes[lane * 2])),
            static_cast<float>(read(Kind::F16, &b.bytes[lane * 2])))));
  if (scalar)
    finishScalar(result, 2);
  else
    finish(result, lanes, 2);
  return true;
}

// The forms 132, 213 and 231 give the positions of factors and addend.
bool HalfExecutor::multiplyAdd() {
  const bool scalar = in.opcode & 1;
  const bool negateProduct = (in.opcode & 0xf) >= 0xc;
  const bool negateAddend = in.opcode & 2;
  const unsigned lanes = scalar ? 1 : in.vectorBytes / 2;
  Vector first = registers.vector(in.reg), second = registers.vector(in.vvvv),
         third = source(lanes, 2), result = first;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    double x = read(Kind::F16, &first.bytes[lane * 2]);
    double y = read(Kind::F16, &second.bytes[lane * 2]);
    double z = read(Kind::F16, &third.bytes[lane * 2]);
    if (in.opcode >> 4 == 0x9)
      std::swap(y, z);
    else if (in.opcode >> 4 == 0xb)
      std::swap(x, z);
    double product = negateProduct ? -(x * y) : x * y;
    write(Kind::F16, &result.bytes[lane * 2],
          product + (negateAddend ? -z : z));
  }
  if (!scalar) {
    finish(result, lanes, 2);
    return true;
  }
  // The other elements keep the destination's values.
  Instruction own = in;
  own.vvvv = in.reg;
  HalfExecutor(own, registers).finishScalar(result, 2);
  return true;
}

bool HalfExecutor::compare(bool scalar) {
  // Per predicate, from 8 on in two halves: 1 for less, 2 for equal, 4 for
  // greater, 8 for unordered.
  static constexpr uint8_t holds[16] = {2,  1, 3,  8, 13, 14, 12, 7,
                                        10, 9, 11, 0, 5,  6,  4,  15};
  unsigned lanes = scalar ? 1 : in.vectorBytes / 2;
  Vector a = registers.vector(in.vvvv), b = source(lanes, 2);
  uint64_t result = 0;
  for (unsigned lane = 0; lane < lanes; ++lane) {
    double x = read(Kind::F16, &a.bytes[lane * 2]);
    double y = read(Kind::F16, &b.bytes[lane * 2]);
    unsigned order = x < y ? 1 : x == y ? 2 : x > y ? 4 : 8;
    if (active(lane) && (holds[in.immediate & 15] & order))
      result |= uint64_t{1} << lane;
  }
  registers.setMask(in.reg & 7, result);
  return true;
}

bool HalfExecutor::compareToFlags() {
  Vector a = registers.vector(in.reg), b = source(1, 2);
  double x = read(Kind::F16, &a.bytes[0]), y = read(Kind::F16, &b.bytes[0]);
  bool unordered = std::isnan(x) || std::isnan(y);
  registers.setComparison(unordered || x < y, unordered || x == y, unordered);
  return true;
}

bool HalfExecutor::roundToScale(bool scalar) {
  if (in.immediate >> 4)
    return false; // to fractions
  unsigned lanes = scalar ? 1 : in.vectorBytes / 2;
  Vector b = source(lanes, 2), result = {};
  for (unsigned lane = 0; lane < lanes; ++lane) {
    double value = read(Kind::F16, &b.bytes[lane * 2]);
    switch (in.immediate & 3) {
    case 0:
      value = std::nearbyint(value);
      break;
    case 1:
      value = std::floor(value);
      break;
    case 2:
      value = std::ceil(value);
      break;
    case 3:
      value = std::trunc(value);
      break;
    }
    write(Kind::F16, &result.bytes[lane * 2], value);
  }
  if (scalar)
    finishScalar(result, 2);
  else
    finish(result, lanes, 2);
  return true;
}

// The wider type fills the vector.
bool HalfExecutor::convert(Kind to, Kind from) {
  unsigned lanes = in.vectorBytes / std::max(sizeOf(to), sizeOf(from));
  Vector value = source(lanes, sizeOf(from)), result = {};
  for (unsigned lane = 0; lane < lanes; ++lane)
    write(to, &result.bytes[lane * sizeOf(to)],
          read(from, &value.bytes[lane * sizeOf(from)]));
  finish(result, lanes, sizeOf(to));
  return true;
}

bool HalfExecutor::convertScalar(Kind to, Kind from) {
  Vector value = source(1, sizeOf(from)), result = {};
  write(to, &result.bytes[0], read(from, &value.bytes[0]));
  finishScalar(result, sizeOf(to));
  return true;
}

bool HalfExecutor::convertFromGeneral(bool isSigned) {
  unsigned size = in.w ? 8 : 4;
  uint64_t bits = 0;
  if (in.inMemory)
    std::memcpy(&bits, reinterpret_cast<const void *>(in.address(size)), size);
  else
    bits = registers.general(in.rm & 15);
  Kind kind = in.w ? (isSigned ? Kind::I64 : Kind::U64)
                   : (isSigned ? Kind::I32 : Kind::U32);
  uint8_t element[8];
  std::memcpy(element, &bits, 8);
  Vector result = {};
  write(Kind::F16, &result.bytes[0], read(kind, element));
  finishScalar(result, 2);
  return true;
}

bool HalfExecutor::convertToGeneral(bool isSigned, bool cut) {
  Vector value = source(1, 2);
  double number = read(Kind::F16, &value.bytes[0]);
  Kind kind = in.w ? (isSigned ? Kind::I64 : Kind::U64)
                   : (isSigned ? Kind::I32 : Kind::U32);
  uint8_t element[8] = {};
  write(kind, element, cut ? number : std::nearbyint(number));
  registers.setGeneral(in.reg & 15, get<uint64_t>(element));
  return true;
}

bool HalfExecutor::run() {
  // For registers, this bit means embedded rounding or suppressed exceptions.
  if (in.broadcast && !in.inMemory)
    return false;
  switch (in.map) {
  case 3:
    return runMap3();
  case 5:
    return runMap5();
  case 6:
    return runMap6();
  default:
    return false;
  }
}

bool HalfExecutor::runMap3() {
  if (in.w)
    return false;
  bool scalar = in.prefix == Prefix::PF3;
  if (in.opcode == 0xc2 && (scalar || in.prefix == Prefix::None))
    return compare(scalar);
  if ((in.opcode == 0x08 || in.opcode == 0x0a) && in.prefix == Prefix::None)
    return roundToScale(in.opcode == 0x0a);
  return false;
}

bool HalfExecutor::runMap5() {
  const Prefix prefix = in.prefix;
  switch (in.opcode) {
  case 0x10:
  case 0x11:
    return prefix == Prefix::PF3 && moveScalar(in.opcode == 0x11);
  case 0x6e:
  case 0x7e:
    return prefix == Prefix::P66 && moveWord(in.opcode == 0x7e);
  case 0x51:
  case 0x58:
  case 0x59:
  case 0x5c:
  case 0x5d:
  case 0x5e:
  case 0x5f:
    return (prefix == Prefix::None || prefix == Prefix::PF3) &&
           arithmetic(prefix == Prefix::PF3);
  case 0x1d:
    if (prefix == Prefix::None)
      return convertScalar(Kind::F16, Kind::F32);
    return prefix == Prefix::P66 && convert(Kind::F16, Kind::F32);
  case 0x2a:
  case 0x7b:
    if (prefix == Prefix::PF3)
      return convertFromGeneral(in.opcode == 0x2a);
    return false;
  case 0x2c:
  case 0x2d:
  case 0x78:
  case 0x79:
    return prefix == Prefix::PF3 &&
           convertToGeneral(in.opcode < 0x78, !(in.opcode & 1));
  case 0x2e:
  case 0x2f:
    return prefix == Prefix::None && compareToFlags();
  case 0x5a:
    switch (prefix) {
    case Prefix::None:
      return convert(Kind::F64, Kind::F16);
    case Prefix::P66:
      return convert(Kind::F16, Kind::F64);
    case Prefix::PF3:
      return convertScalar(Kind::F64, Kind::F16);
    case Prefix::PF2:
      return convertScalar(Kind::F16, Kind::F64);
    }
    return false;
  case 0x5b:
    if (prefix == Prefix::None)
      return convert(Kind::F16, in.w ? Kind::I64 : Kind::I32);
    return prefix == Prefix::PF3 && convert(Kind::I32, Kind::F16);
  case 0x7a:
    if (prefix == Prefix::PF2)
      return convert(Kind::F16, in.w ? Kind::U64 : Kind::U32);
    return prefix == Prefix::P66 && convert(Kind::I64, Kind::F16);
  case 0x7c:
    if (prefix == Prefix::P66)
      return convert(Kind::I16, Kind::F16);
    return prefix == Prefix::None && convert(Kind::U16, Kind::F16);
  case 0x7d:
    if (prefix == Prefix::PF3)
      return convert(Kind::F16, Kind::I16);
    return prefix == Prefix::PF2 && convert(Kind::F16, Kind::U16);
  default:
    return false;
  }
}

bool HalfExecutor::runMap6() {
  if (in.w)
    return false;
  if (in.opcode == 0x13) {
    if (in.prefix == Prefix::None)
      return convertScalar(Kind::F32, Kind::F16);
    return in.prefix == Prefix::P66 && convert(Kind::F32, Kind::F16);
  }
  unsigned form = in.opcode >> 4, kind = in.opcode & 0xf;
  return in.prefix == Prefix::P66 && form >= 0x9 && form <= 0xb && kind >= 8 &&
         multiplyAdd();
}

bool mpc::emulator::runHalfInstruction(const Instruction &instruction,
                                       SavedRegisters &registers) {
  return instruction.evex && HalfExecutor(instruction, registers).run();
}
