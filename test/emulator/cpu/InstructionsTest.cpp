// Tests emulated instructions on hand-made registers, with an assembler's
// encodings.
//
// SPDX-License-Identifier: Apache-2.0
#include "Half.h"
#include "Tiles.h"

#include "runtime/FloatBits.h"

#include <cstring>
#include <gtest/gtest.h>
#include <vector>

using namespace mpc::emulator;
using mpc::runtime::f16ToFloat;
using mpc::runtime::floatToBF16;
using mpc::runtime::floatToF16;

// CODE(name, text): the bytes of an instruction.
#define CODE(name, text)                                                       \
  extern "C" const uint8_t name[];                                             \
  __asm__(".pushsection .rodata\n" #name ": " text "\n.popsection\n")

CODE(addMasked, "vaddph %zmm3, %zmm2, %zmm17{%k1}");
CODE(addZeroing, "vaddph %ymm3, %ymm2, %ymm1{%k1}{z}");
CODE(subBroadcast, "vsubph 4(%rdi){1to8}, %xmm2, %xmm1");
CODE(minScalar, "vminsh %xmm3, %xmm2, %xmm1");
CODE(multiplyAdd, "vfmadd213ph %xmm3, %xmm2, %xmm1");
CODE(narrow, "vcvtps2phx 64(%rdi), %ymm1");
CODE(widen, "vcvtph2psx -32(%rdi,%rcx,2), %zmm1");
CODE(widenScalar, "vcvtsh2ss %xmm3, %xmm2, %xmm1");
CODE(less, "vcmpltph %zmm3, %zmm2, %k3{%k1}");
CODE(unordered, "vcmpunordph %xmm3, %xmm2, %k3");
CODE(loadScalar, "vmovsh 6(%rdi), %xmm1");
CODE(mergeScalar, "vmovsh %xmm3, %xmm2, %xmm1");
CODE(wordToGeneral, "vmovw %xmm3, %r9d");
CODE(wordFromGeneral, "vmovw %r9d, %xmm20");
CODE(compareScalar, "vucomish %xmm3, %xmm2");
CODE(fromInteger, "vcvtsi2sh %rcx, %xmm2, %xmm1");
CODE(toInteger, "vcvttsh2si %xmm3, %ecx");
CODE(floorScaled, "vrndscaleph $1, %xmm3, %xmm1");
CODE(roundedUp, "vaddph {ru-sae}, %zmm3, %zmm2, %zmm1");
CODE(ofAVX512, "vaddps %zmm3, %zmm2, %zmm1");

CODE(configure, "ldtilecfg (%rdi)");
CODE(release, "tilerelease");
CODE(load0, "tileloadd (%rsi,%rcx,1), %tmm0");
CODE(load1, "tileloadd (%rsi,%rcx,1), %tmm1");
CODE(load2, "tileloaddt1 (%rsi,%rcx,1), %tmm2");
CODE(store0, "tilestored %tmm0, 64(%rdi,%rcx,1)");
CODE(zero0, "tilezero %tmm0");
CODE(multiply, "tdpbf16ps %tmm2, %tmm1, %tmm0");
CODE(multiplySwapped, "tdpbf16ps %tmm1, %tmm2, %tmm0");

namespace {

class EmulatedInstructions : public testing::Test {
protected:
  void SetUp() override {
    if (!__builtin_cpu_supports("avx512f"))
      GTEST_SKIP() << "this CPU has none of the registers";
    SavedRegisters::findLayout();
  }

  // Registers that persist from one instruction to the next.
  SavedRegisters registersAt(const uint8_t *code) {
    general[REG_RIP] = reinterpret_cast<greg_t>(code);
    return {general, saved, code};
  }
  bool run(const uint8_t *code) {
    SavedRegisters registers = registersAt(code);
    std::optional<Instruction> instruction = Instruction::decode(registers);
    return instruction && (runTileInstruction(*instruction) ||
                           runHalfInstruction(*instruction, registers));
  }
  void setGeneral(int number, const void *address) {
    general[number] = reinterpret_cast<greg_t>(address);
  }
  void setHalves(unsigned number, const std::vector<float> &values) {
    Vector vector = {};
    for (size_t i = 0; i < values.size(); ++i) {
      uint16_t half = floatToF16(values[i]);
      std::memcpy(&vector.bytes[2 * i], &half, 2);
    }
    registersAt(nullptr).setVector(number, vector);
  }
  float half(unsigned number, size_t i) {
    uint16_t bits;
    std::memcpy(&bits, &registersAt(nullptr).vector(number).bytes[2 * i], 2);
    return f16ToFloat(bits);
  }
  float single(unsigned number, size_t i) {
    float value;
    std::memcpy(&value, &registersAt(nullptr).vector(number).bytes[4 * i], 4);
    return value;
  }
  void setMask(uint64_t mask) { registersAt(nullptr).setMask(1, mask); }
  uint64_t mask3() { return registersAt(nullptr).mask(3); }

  greg_t general[NGREG] = {};
  alignas(64) uint8_t saved[4096] = {};
};

std::vector<float> counting(size_t count, float from) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = from + static_cast<float>(i);
  return values;
}

} // namespace

TEST_F(EmulatedInstructions, ElementsThatTheMaskLeavesOutStayOrAreZero) {
  setHalves(2, counting(32, 0));
  setHalves(3, counting(32, 100));
  setHalves(17, counting(32, 1000));
  setHalves(1, counting(32, 1000));
  setMask(0x55555555);
  ASSERT_TRUE(run(addMasked));
  EXPECT_EQ(half(17, 0), 100);
  EXPECT_EQ(half(17, 1), 1001);
  EXPECT_EQ(half(17, 30), 160);
  ASSERT_TRUE(run(addZeroing));
  EXPECT_EQ(half(1, 2), 104);
  EXPECT_EQ(half(1, 3), 0);
  EXPECT_EQ(half(1, 16), 0) << "behind a register of 32 bytes";
}

TEST_F(EmulatedInstructions, OperandsInMemoryCountDisplacementsInOperands) {
  alignas(64) uint16_t halves[64];
  for (unsigned i = 0; i < 64; ++i)
    halves[i] = floatToF16(static_cast<float>(i));
  setHalves(2, counting(8, 10));
  setGeneral(REG_RDI, halves);
  ASSERT_TRUE(run(subBroadcast));
  EXPECT_EQ(half(1, 7), 15);
  ASSERT_TRUE(run(loadScalar));
  EXPECT_EQ(half(1, 0), 3);
  EXPECT_EQ(half(1, 1), 0);
  setGeneral(REG_RDI, halves + 16);
  general[REG_RCX] = 4;
  ASSERT_TRUE(run(widen));
  EXPECT_EQ(single(1, 0), 4);
  EXPECT_EQ(single(1, 15), 19);
  float singles[32] = {};
  singles[16] = 2049; // between 2048 and 2050; 2048's last bit is even
  singles[31] = 65520;
  setGeneral(REG_RDI, singles);
  ASSERT_TRUE(run(narrow));
  EXPECT_EQ(half(1, 0), 2048);
  EXPECT_EQ(half(1, 15), INFINITY);
}

TEST_F(EmulatedInstructions, ScalarsKeepTheRestOfAnOperand) {
  setHalves(2, counting(8, 10));
  setHalves(3, {NAN, 5});
  ASSERT_TRUE(run(minScalar));
  EXPECT_TRUE(std::isnan(half(1, 0))) << "the second operand";
  EXPECT_EQ(half(1, 7), 17);
  EXPECT_EQ(half(1, 8), 0);
  setHalves(3, {0.5f, 5});
  ASSERT_TRUE(run(mergeScalar));
  EXPECT_EQ(half(1, 0), 0.5f);
  EXPECT_EQ(half(1, 1), 11);
  ASSERT_TRUE(run(widenScalar));
  EXPECT_EQ(single(1, 0), 0.5f);
  EXPECT_EQ(half(1, 2), 12);
}

TEST_F(EmulatedInstructions, MultiplyAddRoundsOnce) {
  // 1 + 2^-9 squared needs 2^-18. Minus 2^-10, it rounds to another number.
  const float a = 1 + 0x1p-9f;
  setHalves(1, {a});
  setHalves(2, {a});
  setHalves(3, {-1});
  ASSERT_TRUE(run(multiplyAdd));
  EXPECT_EQ(half(1, 0), 0x1p-8f + 0x1p-18f);
}

TEST_F(EmulatedInstructions, ComparisonsSetMasksAndFlags) {
  setHalves(2, {1, 2, 3, NAN});
  setHalves(3, {2, 2, 2, 2});
  setMask(~0ull);
  ASSERT_TRUE(run(less));
  EXPECT_EQ(mask3(), 1u);
  ASSERT_TRUE(run(unordered));
  EXPECT_EQ(mask3(), 8u);
  ASSERT_TRUE(run(compareScalar));
  EXPECT_EQ(general[REG_EFL] & 0x45, 0x1) << "less: carry alone";
  setHalves(3, {NAN});
  ASSERT_TRUE(run(compareScalar));
  EXPECT_EQ(general[REG_EFL] & 0x45, 0x45) << "unordered: carry, parity, zero";
}

TEST_F(EmulatedInstructions, GeneralRegistersMeetHalves) {
  setHalves(3, {-2.75f, 1});
  ASSERT_TRUE(run(wordToGeneral));
  EXPECT_EQ(general[REG_R9], floatToF16(-2.75f));
  general[REG_R9] = 0x7fff0000 | floatToF16(3);
  ASSERT_TRUE(run(wordFromGeneral));
  EXPECT_EQ(half(20, 0), 3);
  EXPECT_EQ(half(20, 1), 0);
  ASSERT_TRUE(run(toInteger));
  EXPECT_EQ(static_cast<int32_t>(general[REG_RCX]), -2);
  general[REG_RCX] = -2049;
  ASSERT_TRUE(run(fromInteger));
  EXPECT_EQ(half(1, 0), -2048);
  ASSERT_TRUE(run(floorScaled));
  EXPECT_EQ(half(1, 0), -3);
}

TEST_F(EmulatedInstructions, WhatIsNotKnownIsRefused) {
  EXPECT_FALSE(run(roundedUp));
  EXPECT_FALSE(run(ofAVX512));
}

TEST_F(EmulatedInstructions, TilesMultiplyRowsByColumns) {
  // 3 x 4 by 4 x 5. The second operand is stored in pairs of rows.
  constexpr unsigned m = 3, n = 5, k = 4;
  alignas(64) uint8_t configuration[64] = {1};
  auto shape = [&](unsigned tile, uint8_t rows, uint8_t rowBytes) {
    configuration[16 + 2 * tile] = rowBytes;
    configuration[48 + tile] = rows;
  };
  shape(0, m, n * 4);
  shape(1, m, k * 2);
  shape(2, k / 2, n * 4);
  setGeneral(REG_RDI, configuration);
  ASSERT_TRUE(run(configure));
  uint16_t a[m][8] = {}, b[k / 2][n][2];
  float sums[m][8] = {}, result[16 + m * 8];
  for (unsigned i = 0; i < m; ++i)
    for (unsigned j = 0; j < k; ++j)
      a[i][j] = floatToBF16(static_cast<float>(i * k + j) - 5);
  for (unsigned j = 0; j < k; ++j)
    for (unsigned c = 0; c < n; ++c)
      b[j / 2][c][j % 2] = floatToBF16(static_cast<float>(j * n + c) * 0.5f);
  for (unsigned i = 0; i < m; ++i)
    for (unsigned c = 0; c < n; ++c)
      sums[i][c] = static_cast<float>(i * 100 + c);
  auto load = [&](const uint8_t *code, const void *memory, greg_t distance) {
    setGeneral(REG_RSI, memory);
    general[REG_RCX] = distance;
    ASSERT_TRUE(run(code));
  };
  load(load0, sums, sizeof sums[0]);
  load(load1, a, sizeof a[0]);
  load(load2, b, sizeof b[0]);
  ASSERT_TRUE(run(multiply));
  std::fill(std::begin(result), std::end(result), -1.0f);
  setGeneral(REG_RDI, result);
  general[REG_RCX] = 32;
  ASSERT_TRUE(run(store0));
  for (unsigned i = 0; i < m; ++i) {
    for (unsigned c = 0; c < n; ++c) {
      float expected = sums[i][c];
      for (unsigned j = 0; j < k; ++j)
        expected += (static_cast<float>(i * k + j) - 5) *
                    static_cast<float>(j * n + c) * 0.5f;
      EXPECT_EQ(result[16 + i * 8 + c], expected) << i << ", " << c;
    }
    EXPECT_EQ(result[16 + i * 8 + n], -1) << "behind the tile's row";
  }
  ASSERT_TRUE(run(zero0));
  ASSERT_TRUE(run(store0));
  EXPECT_EQ(result[16], 0);
  EXPECT_FALSE(run(multiplySwapped)) << "2 rows are not 3";
  ASSERT_TRUE(run(release));
  EXPECT_FALSE(run(multiply)) << "without a configuration";
  configuration[0] = 2;
  setGeneral(REG_RDI, configuration);
  EXPECT_FALSE(run(configure)) << "no such palette";
}
