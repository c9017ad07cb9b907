// Tests arithmetic and conversions, one instruction at a time, against the
// host's arithmetic and runtime/FloatBits.h.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Half.h"
#include "test/emulator/ptx/Harness.h"

#include <cmath>
#include <limits>
#include <random>

using namespace mpc;
using namespace mpc::emulator::ptx;

/// Runs `instruction` on a pair of 64-bit words for each lane. %rd10 is the
/// first, %rd11 the second, and their low parts are %r10, %r11, %rs10, %rs11.
/// The result is read from %rd20, %r20 (`bits` 32) or %rs20.
static std::vector<uint64_t>
evaluate(const std::string &instruction, unsigned bits,
         const std::vector<std::pair<uint64_t, uint64_t>> &operands) {
  std::string widen = bits == 64   ? ""
                      : bits == 32 ? "cvt.u64.u32 %rd20, %r20;\n"
                                   : "cvt.u64.u16 %rd20, %rs20;\n";
  std::string text = withHeader(R"(
.visible .entry k(.param .u64 x, .param .u64 y)
{
  .reg .pred %p<30>; .reg .b16 %rs<30>; .reg .b32 %r<30>; .reg .b64 %rd<30>;
  mov.u32 %r0, %tid.x;
  ld.param.b64 %rd0, [x];
  ld.param.b64 %rd1, [y];
  mul.wide.u32 %rd2, %r0, 16;
  add.s64 %rd0, %rd0, %rd2;
  mul.wide.u32 %rd2, %r0, 8;
  add.s64 %rd1, %rd1, %rd2;
  ld.global.v2.b64 {%rd10, %rd11}, [%rd0];
  cvt.u32.u64 %r10, %rd10;
  cvt.u32.u64 %r11, %rd11;
  cvt.u16.u64 %rs10, %rd10;
  cvt.u16.u64 %rs11, %rd11;
  )" + instruction + "\n" + widen +
                                R"(
  st.global.b64 [%rd1], %rd20;
  ret;
})");
  Buffer<uint64_t> x(2 * operands.size()), y(operands.size());
  for (size_t i = 0; i < operands.size(); ++i) {
    x[2 * i] = operands[i].first;
    x[2 * i + 1] = operands[i].second;
  }
  auto fault =
      run(text, {1}, {static_cast<unsigned>(operands.size())}, 0, x, y);
  EXPECT_FALSE(fault) << fault->message;
  std::vector<uint64_t> results;
  for (size_t i = 0; i < operands.size(); ++i)
    results.push_back(y[i]);
  return results;
}

static uint64_t evaluateOne(const std::string &instruction, unsigned bits,
                            uint64_t a, uint64_t b = 0) {
  return evaluate(instruction, bits, {{a, b}}).front();
}

static uint64_t evaluateFloat(const std::string &instruction, float a,
                              float b = 0) {
  return evaluateOne(instruction, 32, runtime::bitsOf(a), runtime::bitsOf(b));
}

TEST(Integer, Arithmetic) {
  auto minus = [](int64_t v) { return static_cast<uint32_t>(v); };
  EXPECT_EQ(evaluateOne("add.s32 %r20, %r10, %r11;", 32, 0x7fffffff, 1),
            0x80000000u);
  EXPECT_EQ(evaluateOne("mul.hi.u32 %r20, %r10, %r11;", 32, 0xffffffff, 16),
            15u);
  EXPECT_EQ(evaluateOne("mul.hi.s32 %r20, %r10, %r11;", 32, minus(-1), 16),
            0xffffffffu);
  EXPECT_EQ(evaluateOne("mul.wide.s32 %rd20, %r10, %r11;", 64, minus(-3), 7),
            static_cast<uint64_t>(-21));
  EXPECT_EQ(evaluateOne("mad.lo.s32 %r20, %r10, %r11, 5;", 32, minus(-3), 7),
            minus(-16));
  EXPECT_EQ(evaluateOne("mad.wide.u32 %rd20, %r10, %r11, %rd10;", 64, 3, 7),
            24u);
  EXPECT_EQ(evaluateOne("div.s32 %r20, %r10, %r11;", 32, minus(-7), 2),
            minus(-3));
  EXPECT_EQ(evaluateOne("rem.s32 %r20, %r10, %r11;", 32, minus(-7), 2),
            minus(-1));
  EXPECT_EQ(evaluateOne("div.u32 %r20, %r10, %r11;", 32, 7, 0), 0xffffffffu);
  EXPECT_EQ(evaluateOne("mul.lo.u16 %rs20, %rs10, %rs11;", 16, 0xffff, 0xffff),
            1u);
  EXPECT_EQ(evaluateOne("min.s64 %rd20, %rd10, %rd11;", 64, ~0ull, 1), ~0ull);
  EXPECT_EQ(evaluateOne("max.u64 %rd20, %rd10, %rd11;", 64, ~0ull, 1), ~0ull);
}

TEST(Integer, PairsInARegister) {
  // The lower sum does not carry into the upper half.
  EXPECT_EQ(
      evaluateOne("add.u16x2 %r20, %r10, %r11;", 32, 0x0001ffff, 0x00020001),
      0x00030000u);
  EXPECT_EQ(
      evaluateOne("min.s16x2 %r20, %r10, %r11;", 32, 0xffff0001, 0x0001ffff),
      0xffffffffu);
  EXPECT_EQ(
      evaluateOne("max.u16x2 %r20, %r10, %r11;", 32, 0xffff0001, 0x0001fffe),
      0xfffffffeu);
}

TEST(Integer, ShiftsAndBits) {
  EXPECT_EQ(evaluateOne("shl.b32 %r20, %r10, %r11;", 32, 1, 32), 0u);
  EXPECT_EQ(evaluateOne("shr.s32 %r20, %r10, %r11;", 32, 0x80000000, 40),
            0xffffffffu);
  EXPECT_EQ(evaluateOne("shr.u32 %r20, %r10, %r11;", 32, 0x80000000, 31), 1u);
  EXPECT_EQ(evaluateOne("shf.l.wrap.b32 %r20, %r10, %r11, 8;", 32, 0xab000000,
                        0x12345678),
            0x345678abu);
  EXPECT_EQ(evaluateOne("prmt.b32 %r20, %r10, %r11, 0x7610;", 32, 0x33221100,
                        0x77665544),
            0x77661100u);
  EXPECT_EQ(evaluateOne("clz.b32 %r20, %r10;", 32, 1), 31u);
  EXPECT_EQ(evaluateOne("clz.b64 %r20, %rd10;", 32, 0), 64u);
  EXPECT_EQ(evaluateOne("popc.b64 %r20, %rd10;", 32, ~0ull), 64u);
  EXPECT_EQ(evaluateOne("bfe.u32 %r20, %r10, 8, 12;", 32, 0x12345678), 0x456u);
  EXPECT_EQ(evaluateOne("bfe.s32 %r20, %r10, 8, 4;", 32, 0xf00), 0xffffffffu);
  EXPECT_EQ(evaluateOne("bfi.b32 %r20, %r10, %r11, 4, 8;", 32, 0xab, 0),
            0xab0u);
  EXPECT_EQ(evaluateOne("lop3.b32 %r20, %r10, %r11, %r10, 0x3c;", 32, 12, 10),
            6u);
  EXPECT_EQ(evaluateOne("brev.b32 %r20, %r10;", 32, 1), 0x80000000u);
  EXPECT_EQ(
      evaluateOne("mov.b32 {%rs1, %rs2}, %r10; mov.b32 %r20, {%rs2, %rs1};", 32,
                  0x11112222),
      0x22221111u);
}

TEST(Float, ArithmeticIsTheHosts) {
  std::mt19937_64 random(1);
  std::vector<std::pair<uint64_t, uint64_t>> operands;
  for (unsigned i = 0; i < 1024; ++i)
    operands.emplace_back(random(), random());
  auto check = [&](const char *instruction, auto expected) {
    std::vector<uint64_t> results = evaluate(instruction, 32, operands);
    for (size_t i = 0; i < operands.size(); ++i) {
      float a = runtime::floatOf(static_cast<uint32_t>(operands[i].first));
      float b = runtime::floatOf(static_cast<uint32_t>(operands[i].second));
      float found = runtime::floatOf(static_cast<uint32_t>(results[i]));
      float want = expected(a, b);
      if (std::isnan(want))
        EXPECT_TRUE(std::isnan(found)) << instruction;
      else
        EXPECT_EQ(found, want) << instruction << ' ' << a << ' ' << b;
    }
  };
  check("add.rn.f32 %r20, %r10, %r11;", [](float a, float b) { return a + b; });
  check("mul.f32 %r20, %r10, %r11;", [](float a, float b) { return a * b; });
  check("div.rn.f32 %r20, %r10, %r11;", [](float a, float b) { return a / b; });
  check("sqrt.rn.f32 %r20, %r10;", [](float a, float) { return std::sqrt(a); });
  check("fma.rn.f32 %r20, %r10, %r11, %r10;",
        [](float a, float b) { return std::fma(a, b, a); });
  check("max.f32 %r20, %r10, %r11;", [](float a, float b) {
    return std::isnan(a) ? b : std::isnan(b) ? a : std::max(a, b);
  });
}

TEST(Float, DirectionsAndModifiers) {
  float tiny = std::ldexp(1.0f, -60);
  EXPECT_EQ(evaluateFloat("add.rp.f32 %r20, %r10, %r11;", 1, tiny),
            runtime::bitsOf(std::nextafter(1.0f, 2.0f)));
  EXPECT_EQ(evaluateFloat("add.rz.f32 %r20, %r10, %r11;", 1, -tiny),
            runtime::bitsOf(std::nextafter(1.0f, 0.0f)));
  EXPECT_EQ(evaluateFloat("fma.rm.f32 %r20, %r10, %r11, 0f3F800000;", tiny, -1),
            runtime::bitsOf(std::nextafter(1.0f, 0.0f)));
  EXPECT_EQ(evaluateFloat("add.ftz.f32 %r20, %r10, %r11;", 1e-40f, -1e-40f),
            runtime::bitsOf(0.0f));
  EXPECT_EQ(evaluateFloat("mul.ftz.f32 %r20, %r10, %r11;", 1e-30f, -1e-10f),
            runtime::bitsOf(-0.0f));
  EXPECT_EQ(evaluateFloat("add.sat.f32 %r20, %r10, %r11;", 3, 4),
            runtime::bitsOf(1.0f));
  EXPECT_EQ(evaluateFloat("min.f32 %r20, %r10, %r11;", 0.0f, -0.0f),
            runtime::bitsOf(-0.0f));
  float nan = std::numeric_limits<float>::quiet_NaN();
  EXPECT_EQ(evaluateFloat("max.f32 %r20, %r10, %r11;", nan, 4),
            runtime::bitsOf(4.0f));
  EXPECT_TRUE(std::isnan(runtime::floatOf(static_cast<uint32_t>(
      evaluateFloat("max.NaN.f32 %r20, %r10, %r11;", nan, 4)))));
  EXPECT_EQ(evaluateFloat("ex2.approx.ftz.f32 %r20, %r10;", 3),
            runtime::bitsOf(8.0f));
  EXPECT_EQ(evaluateFloat("copysign.f32 %r20, %r10, %r11;", -1, 4),
            runtime::bitsOf(-4.0f));
}

TEST(Float, ComparisonsWithNaN) {
  float nan = std::numeric_limits<float>::quiet_NaN();
  auto compare = [&](const char *how, float a, float b) {
    return evaluateFloat(std::string("setp.") + how +
                             ".f32 %p1, %r10, %r11; selp.b32 %r20, 1, 0, %p1;",
                         a, b) != 0;
  };
  EXPECT_FALSE(compare("lt", nan, 1));
  EXPECT_TRUE(compare("ltu", nan, 1));
  EXPECT_FALSE(compare("ne", nan, 1));
  EXPECT_TRUE(compare("neu", nan, 1));
  EXPECT_FALSE(compare("equ", 2, 1));
  EXPECT_TRUE(compare("nan", nan, 1));
  EXPECT_TRUE(compare("num", 2, 1));
  EXPECT_TRUE(compare("geu", 2, 1));
}

TEST(Half, ComparesBothHalves) {
  uint32_t a = runtime::floatToF16(1) | runtime::floatToF16(2) << 16;
  uint32_t b = runtime::floatToF16(1.5f) | runtime::floatToF16(1.5f) << 16;
  std::string compare = "setp.lt.f16x2 %p1|%p2, %r10, %r11;"
                        "selp.b32 %r20, 1, 0, %p1;"
                        "@%p2 add.s32 %r20, %r20, 2;";
  EXPECT_EQ(evaluateOne(compare, 32, a, b), 1u);
  EXPECT_EQ(evaluateOne(compare, 32, b, a), 2u);
}

TEST(Half, ArithmeticRoundsOnce) {
  // The sum is a tie in bf16 except for much lower bits.
  uint16_t a = runtime::floatToBF16(1.0f + 1.0f / 128);
  uint16_t c = runtime::floatToBF16(256.0f);
  uint64_t result =
      evaluateOne("fma.rn.bf16 %rs20, %rs10, %rs10, %rs11;", 16, a, c);
  float exact = runtime::bf16ToFloat(a) * runtime::bf16ToFloat(a) + 256.0f;
  EXPECT_EQ(result, runtime::floatToBF16(exact));
  EXPECT_EQ(runtime::bf16ToFloat(static_cast<uint16_t>(result)), 258.0f);

  // Both halves.
  uint32_t packed = runtime::floatToF16(1.5f) | runtime::floatToF16(-2.0f)
                                                    << 16;
  EXPECT_EQ(evaluateOne("mul.rn.f16x2 %r20, %r10, %r10;", 32, packed),
            runtime::floatToF16(2.25f) |
                static_cast<uint32_t>(runtime::floatToF16(4.0f)) << 16);
}

TEST(Convert, EveryHalfToFloatAndBack) {
  for (unsigned first = 0; first < 65536; first += 1024) {
    std::vector<std::pair<uint64_t, uint64_t>> operands;
    for (unsigned i = 0; i < 1024; ++i)
      operands.emplace_back(first + i, 0);
    auto f16 = evaluate("cvt.f32.f16 %r20, %rs10;", 32, operands);
    auto bf16 = evaluate("cvt.f32.bf16 %r20, %rs10;", 32, operands);
    for (unsigned i = 0; i < 1024; ++i) {
      auto bits = static_cast<uint16_t>(first + i);
      EXPECT_EQ(f16[i], runtime::bitsOf(runtime::f16ToFloat(bits)));
      EXPECT_EQ(bf16[i], runtime::bitsOf(runtime::bf16ToFloat(bits)));
    }
  }
}

TEST(Convert, FloatToHalf) {
  std::mt19937 random(2);
  std::vector<std::pair<uint64_t, uint64_t>> operands;
  for (unsigned i = 0; i < 1024; ++i) {
    // All magnitudes of f16, including ties.
    float a = std::ldexp(1.0f + static_cast<float>(random() % 4096) / 4096,
                         static_cast<int>(random() % 44) - 27);
    operands.emplace_back(runtime::bitsOf(a), runtime::bitsOf(-a));
  }
  auto f16 = evaluate("cvt.rn.f16.f32 %rs20, %r10;", 16, operands);
  auto bf16 = evaluate("cvt.rn.bf16.f32 %rs20, %r10;", 16, operands);
  auto pair = evaluate("cvt.rn.bf16x2.f32 %r20, %r10, %r11;", 32, operands);
  auto zero = evaluate("cvt.rz.f16.f32 %rs20, %r10;", 16, operands);
  for (unsigned i = 0; i < 1024; ++i) {
    float a = runtime::floatOf(static_cast<uint32_t>(operands[i].first));
    EXPECT_EQ(f16[i], runtime::floatToF16(a)) << a;
    EXPECT_EQ(bf16[i], runtime::floatToBF16(a)) << a;
    EXPECT_EQ(pair[i], static_cast<uint32_t>(runtime::floatToBF16(a)) << 16 |
                           runtime::floatToBF16(-a));
    float truncated = runtime::f16ToFloat(static_cast<uint16_t>(zero[i]));
    auto next = static_cast<uint16_t>(zero[i] + 1); // infinity at the top
    EXPECT_LE(truncated, a);
    EXPECT_GT(runtime::f16ToFloat(next), a);
  }
}

TEST(Convert, IntegersAndFloats) {
  EXPECT_EQ(evaluateFloat("cvt.rzi.s32.f32 %r20, %r10;", -2.7f),
            static_cast<uint32_t>(-2));
  EXPECT_EQ(evaluateFloat("cvt.rni.s32.f32 %r20, %r10;", 2.5f), 2u);
  EXPECT_EQ(evaluateFloat("cvt.rzi.s32.f32 %r20, %r10;", 1e20f), 0x7fffffffu);
  EXPECT_EQ(evaluateFloat("cvt.rzi.u32.f32 %r20, %r10;", -5), 0u);
  EXPECT_EQ(evaluateFloat("cvt.rzi.s32.f32 %r20, %r10;", NAN), 0u);
  EXPECT_EQ(evaluateFloat("cvt.rmi.f32.f32 %r20, %r10;", -2.5f),
            runtime::bitsOf(-3.0f));
  EXPECT_EQ(evaluateFloat("cvt.rna.tf32.f32 %r20, %r10;",
                          1.0f + std::ldexp(1.0f, -11)),
            runtime::bitsOf(1.0f + std::ldexp(1.0f, -10)));
  EXPECT_EQ(evaluateOne("cvt.rn.f32.s64 %r20, %rd10;", 32,
                        static_cast<uint64_t>(-(1ll << 40) - 1)),
            runtime::bitsOf(-0x1p40f));
  EXPECT_EQ(evaluateOne("cvt.s64.s32 %rd20, %r10;", 64, 0xfffffffe),
            static_cast<uint64_t>(-2));
  EXPECT_EQ(evaluateOne("cvt.s32.s8 %r20, %r10;", 32, 0x1ff), 0xffffffffu);
  EXPECT_EQ(evaluateOne("cvt.u32.u8 %r20, %r10;", 32, 0x1ff), 0xffu);
  EXPECT_EQ(evaluateOne("cvt.sat.s8.s32 %rs20, %r10;", 16, 300), 127u);
}
