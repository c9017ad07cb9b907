// Tests f64 functions over their whole range and at its ends. CPUs call libm,
// and a GPU computes them by arithmetic.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include <cmath>
#include <gtest/gtest.h>
#include <limits>
#include <random>

namespace mpc::test {
namespace {

class Math : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, Math, testing::ValuesIn(runnableTargets()));

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr double kTiny = std::numeric_limits<double>::denorm_min();
constexpr size_t kCount = 256;

/// Expects an error within `units` in the last place, and equal bits if a value
/// is not finite.
void expectNear(double found, double expected, double units, double at) {
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << at << " gives " << found;
    return;
  }
  if (std::isinf(expected) || expected == 0) {
    EXPECT_EQ(found, expected) << at;
    return;
  }
  double unit = std::max(std::abs(expected) * 0x1p-52, kTiny);
  EXPECT_LE(std::abs(found - expected), units * unit)
      << at << " gives " << found << ", expected " << expected;
}

/// Numbers of every size and sign, and special values.
std::vector<double> manyNumbers() {
  std::vector<double> numbers = {0.0,        -0.0, 1,      -1,     kInfinity,
                                 -kInfinity, kNaN, kTiny,  -kTiny, 0x1p-1022,
                                 709.7,      710,  -745,   -746,   1e300,
                                 -1e300,     0.55, 0.5499, 2,      -2};
  std::mt19937 engine(7);
  std::uniform_real_distribution<double> exponent(-12, 10), sign(-1, 1);
  while (numbers.size() < kCount)
    numbers.push_back(std::copysign(std::exp2(exponent(engine)), sign(engine)));
  return numbers;
}

TEST_P(Math, ComputesExpLogAndTanhOfF64) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<256xf64>) -> (tensor<256xf64>, tensor<256xf64>, tensor<256xf64>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.exp %x : (tensor<256xf64>) -> tensor<256xf64>
      %1 = mpc.log %x : (tensor<256xf64>) -> tensor<256xf64>
      %2 = mpc.tanh %x : (tensor<256xf64>) -> tensor<256xf64>
      return %0, %1, %2 : tensor<256xf64>, tensor<256xf64>, tensor<256xf64>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<double> x = manyNumbers(), e(kCount), l(kCount), t(kCount);
  kernel.launch({x.data(), e.data(), l.data(), t.data()});
  for (size_t i = 0; i < kCount; ++i) {
    expectNear(e[i], std::exp(x[i]), 2, x[i]);
    expectNear(l[i], std::log(x[i]), 2, x[i]);
    expectNear(t[i], std::tanh(x[i]), 3, x[i]);
  }
}

/// Expects an error within `units` in the last place of f32.
void expectNearF32(float found, double expected, double units, float at) {
  auto rounded = static_cast<float>(expected);
  if (std::isnan(expected)) {
    EXPECT_TRUE(std::isnan(found)) << at << " gives " << found;
    return;
  }
  if (std::isinf(rounded) || rounded == 0) {
    EXPECT_EQ(found, rounded) << at;
    // A zero result of a zero argument keeps its sign.
    EXPECT_TRUE(at != 0 || std::signbit(found) == std::signbit(rounded)) << at;
    return;
  }
  double unit = std::max(std::abs(expected) * 0x1p-23, 0x1p-149);
  EXPECT_LE(std::abs(found - expected), units * unit)
      << at << " gives " << found << ", expected " << expected;
}

// A GPU has instructions for powers of two and reciprocals, each within two
// units in the last place. The emulator computes them exactly.
TEST_P(Math, ComputesExpAndTanhOfF32) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<4096xf32>) -> (tensor<4096xf32>, tensor<4096xf32>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.exp %x : (tensor<4096xf32>) -> tensor<4096xf32>
      %1 = mpc.tanh %x : (tensor<4096xf32>) -> tensor<4096xf32>
      return %0, %1 : tensor<4096xf32>, tensor<4096xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<float> x = {0.0f,      -0.0f,  1.0f,      -1.0f,    INFINITY,
                          -INFINITY, NAN,    0x1p-140f, 1e-30f,   88.0f,
                          -87.0f,    1e30f,  -1e30f,    0.55f,    0.5499f,
                          20.0f,     -20.0f, -0.55f,    0x1p-24f, 3.4e38f};
  while (x.size() < 4096)
    x.push_back(static_cast<float>(x.size()) / 24 - 86);
  std::vector<float> e(x.size()), t(x.size());
  kernel.launch({x.data(), e.data(), t.data()});
  bool isGPU = GetParam().rfind("sm_", 0) == 0;
  for (size_t i = 0; i < x.size(); ++i) {
    expectNearF32(e[i], std::exp(static_cast<double>(x[i])), isGPU ? 2 : 4,
                  x[i]);
    expectNearF32(t[i], std::tanh(static_cast<double>(x[i])), isGPU ? 3 : 10,
                  x[i]);
  }
}

TEST_P(Math, ComputesLogOfF32) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<64xf32>) -> tensor<64xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.log %x : (tensor<64xf32>) -> tensor<64xf32>
      return %0 : tensor<64xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  // The ends of the range, subnormal numbers, and numbers of all sizes.
  std::vector<float> x = {0.0f,      -0.0f,      INFINITY,   -INFINITY,
                          NAN,       -1.0f,      -0x1p-149f, 0x1p-149f,
                          1e-40f,    0x1p-127f,  0x1p-126f,  0x1.000002p-126f,
                          0x1p-125f, 0x1p-130f,  1.0f,       3.4e38f,
                          0.5f,      0.9999999f, 2.0f,       1e-30f};
  while (x.size() < 64)
    x.push_back(std::exp2(static_cast<float>(x.size()) * 4.3f - 145));
  std::vector<float> y(x.size());
  kernel.launch({x.data(), y.data()});
  for (size_t i = 0; i < x.size(); ++i)
    expectNearF32(y[i], std::log(static_cast<double>(x[i])), 2, x[i]);
}

/// A function of one number, and a target's error bound in units.
struct Function {
  const char *op;
  double (*value)(double);
  double units;
};

/// Difficult angles: close to multiples of a quarter turn, large, and at the
/// ends of ranges.
std::vector<double> hardAngles() {
  std::vector<double> numbers = manyNumbers();
  std::vector<double> hard = {0x1.921fb54442d18p+0,
                              0x1.921fb54442d18p-1,
                              0x1.921fb54442d19p-1,
                              3.141592653589793,
                              6.283185307179586,
                              1e5,
                              1e10,
                              1e16,
                              1e22,
                              1e100,
                              1.7976931348623157e308,
                              std::ldexp(5319372648326541.0, 416),
                              11.0,
                              355,
                              -1e22,
                              0.9999999999999999,
                              -0.9999999999999999,
                              1.0000000000000002,
                              0.4375,
                              0.6875,
                              1.1875,
                              2.4375,
                              0x1p28,
                              0x1.0000000000001p28,
                              700,
                              700.5,
                              710.4,
                              -710.4,
                              1e-9,
                              -1e-9};
  std::copy(hard.begin(), hard.end(), numbers.begin() + 32);
  return numbers;
}

TEST_P(Math, ComputesAnglesAndHyperbolicFunctions) {
  const Function functions[] = {
      {"sin", std::sin, 2},     {"cos", std::cos, 2},
      {"tan", std::tan, 3},     {"asin", std::asin, 3},
      {"acos", std::acos, 3},   {"atan", std::atan, 2},
      {"sinh", std::sinh, 4},   {"cosh", std::cosh, 4},
      {"asinh", std::asinh, 4}, {"acosh", std::acosh, 4},
      {"atanh", std::atanh, 4}};
  for (const Function &function : functions) {
    SCOPED_TRACE(function.op);
    std::string op = function.op;
    CompiledKernel kernel(
        "func.func private @kernel(%x: tensor<256xf64>, %y: tensor<256xf32>) "
        "-> (tensor<256xf64>, tensor<256xf32>) "
        "attributes {mpc.kernel = #mpc.kernel<pointwise>} {\n"
        "%0 = mpc." +
            op + " %x : (tensor<256xf64>) -> tensor<256xf64>\n%1 = mpc." + op +
            " %y : (tensor<256xf32>) -> tensor<256xf32>\n"
            "return %0, %1 : tensor<256xf64>, tensor<256xf32>\n}",
        GetParam());
    ASSERT_EQ(kernel.getError(), "");
    std::vector<double> x = hardAngles(), wide(kCount);
    // The upper half is for functions defined only below 1.
    for (size_t i = kCount / 2; i < kCount; ++i)
      x[i] = std::remainder(x[i], 2);
    std::vector<float> y(x.begin(), x.end()), single(kCount);
    kernel.launch({x.data(), y.data(), wide.data(), single.data()});
    for (size_t i = 0; i < kCount; ++i) {
      expectNear(wide[i], function.value(x[i]), function.units, x[i]);
      double exact = function.value(y[i]);
      auto rounded = static_cast<float>(exact);
      if (std::isnan(exact) || std::isinf(rounded) || rounded == 0)
        expectNear(single[i], rounded, 0, y[i]);
      else
        EXPECT_NEAR(single[i], exact,
                    2 * std::max(std::abs(exact) * 0x1p-23, 0x1p-149))
            << y[i];
    }
  }
}

// No double is closer to a multiple of a quarter turn. Its cosine is known to
// more digits (Muller, Elementary Functions, 2016) than libm computes.
TEST_P(Math, ReducesTheHardestAngle) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<1xf64>) -> tensor<1xf64>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.cos %x : (tensor<1xf64>) -> tensor<1xf64>
      return %0 : tensor<1xf64>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  double x = std::ldexp(6381956970095103.0, 797), y = 0;
  kernel.launch({&x, &y});
  double units = GetParam() == "sm_80" ? 2 : 16;
  expectNear(y, -4.68716592425462761112e-19, units, x);
}

TEST_P(Math, RoundsToWholeNumbers) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<256xf64>, %y: tensor<256xbf16>) -> (tensor<256xf64>, tensor<256xf64>, tensor<256xf64>, tensor<256xbf16>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.round %x : (tensor<256xf64>) -> tensor<256xf64>
      %1 = mpc.floor %x : (tensor<256xf64>) -> tensor<256xf64>
      %2 = mpc.ceil %x : (tensor<256xf64>) -> tensor<256xf64>
      %3 = mpc.round %y : (tensor<256xbf16>) -> tensor<256xbf16>
      return %0, %1, %2, %3 : tensor<256xf64>, tensor<256xf64>, tensor<256xf64>, tensor<256xbf16>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<double> x = manyNumbers(), round(kCount), floor(kCount),
                      ceil(kCount);
  for (size_t i = 0; i < 100; ++i)
    x[kCount - 1 - i] = -12.25 + 0.25 * i;
  std::vector<uint16_t> y(kCount), low(kCount);
  for (size_t i = 0; i < kCount; ++i)
    y[i] = toBF16(static_cast<float>(x[i]));
  kernel.launch({x.data(), y.data(), round.data(), floor.data(), ceil.data(),
                 low.data()});
  for (size_t i = 0; i < kCount; ++i) {
    expectNear(round[i], std::nearbyint(x[i]), 0, x[i]);
    expectNear(floor[i], std::floor(x[i]), 0, x[i]);
    expectNear(ceil[i], std::ceil(x[i]), 0, x[i]);
    expectNear(fromBF16(low[i]), std::nearbyint(fromBF16(y[i])), 0, x[i]);
  }
}

TEST_P(Math, ComputesErf) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<256xf64>, %y: tensor<256xf32>) -> (tensor<256xf64>, tensor<256xf32>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.erf %x : (tensor<256xf64>) -> tensor<256xf64>
      %1 = mpc.erf %y : (tensor<256xf32>) -> tensor<256xf32>
      return %0, %1 : tensor<256xf64>, tensor<256xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<double> x = manyNumbers(), e(kCount);
  for (size_t i = 0; i < kCount / 2; ++i)
    x[kCount - 1 - i] = -6.5 + 0.1 * i;
  std::vector<float> y(x.begin(), x.end()), f(kCount);
  kernel.launch({x.data(), y.data(), e.data(), f.data()});
  for (size_t i = 0; i < kCount; ++i) {
    // A long sum of positive terms loses a digit.
    expectNear(e[i], std::erf(x[i]), 64, x[i]);
    double exact = std::erf(static_cast<double>(y[i]));
    if (std::isnan(exact))
      EXPECT_TRUE(std::isnan(f[i]));
    else
      EXPECT_NEAR(f[i], exact, 4 * 0x1p-23 * std::abs(exact)) << y[i];
  }
}

TEST_P(Math, ComputesPowersOfF64) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<256xf64>, %y: tensor<256xf64>) -> tensor<256xf64>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.pow %x, %y : (tensor<256xf64>, tensor<256xf64>) -> tensor<256xf64>
      return %0 : tensor<256xf64>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  const double ends[] = {0.0,  -0.0, 1,         -1,        0.5, -0.5,
                         2,    -2,   3,         -3,        2.5, -2.5,
                         kNaN, 0.9,  kInfinity, -kInfinity};
  std::vector<double> x, y, z(kCount);
  for (double base : ends)
    for (double power : ends) {
      x.push_back(base);
      y.push_back(power);
    }
  kernel.launch({x.data(), y.data(), z.data()});
  for (size_t i = 0; i < kCount; ++i)
    expectNear(z[i], std::pow(x[i], y[i]), 4, x[i]);

  // Adam's bias correction, and the ends of the range.
  for (size_t i = 0; i < kCount; ++i) {
    x[i] = i % 2 ? 0.999 : 1 + 0.01 * i;
    y[i] = i % 2 ? 37.0 * i : 100.0;
  }
  kernel.launch({x.data(), y.data(), z.data()});
  for (size_t i = 0; i < kCount; ++i)
    expectNear(z[i], std::pow(x[i], y[i]), 4, x[i]);

  // Bases of all sizes, also next to 1 and subnormal, and exponents of either
  // sign that lead to the ends of the range.
  for (size_t i = 0; i < kCount; ++i) {
    double size = static_cast<double>(i) - 127.5;
    x[i] = i % 4 == 0 ? 1 + std::copysign(std::exp2(-std::abs(size) / 3), size)
           : i % 4 == 1 ? std::exp2(size * 8)
           : i % 4 == 2 ? 1 + 0.003 * size
                        : 0x1p-1060 * (1 + i);
    y[i] = (i % 8 < 4 ? 708 : -743) * (i % 3 + 1) / 3 / std::log(x[i]);
  }
  kernel.launch({x.data(), y.data(), z.data()});
  for (size_t i = 0; i < kCount; ++i)
    expectNear(z[i], std::pow(x[i], y[i]), 4, x[i]);
}

TEST_P(Math, ComputesPowersOfF32) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<256xf32>, %y: tensor<256xf32>) -> tensor<256xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.pow %x, %y : (tensor<256xf32>, tensor<256xf32>) -> tensor<256xf32>
      return %0 : tensor<256xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(kCount, 0, 10), y = randomFloats(kCount, -20, 20);
  std::vector<float> z(kCount);
  kernel.launch({x.data(), y.data(), z.data()});
  for (size_t i = 0; i < kCount; ++i)
    EXPECT_FLOAT_EQ(z[i], std::pow(x[i], y[i])) << x[i] << " " << y[i];
}

/// y = x^`exponent`, of f32 or f64.
std::string constantPower(const std::string &type, const char *exponent) {
  std::string tensor = "tensor<256x" + type + ">";
  return "func.func private @kernel(%x: " + tensor + ") -> " + tensor +
         " attributes {mpc.kernel = #mpc.kernel<pointwise>} {\n%e = "
         "mpc.constant "
         "dense<" +
         exponent + "> : tensor<" + type + ">\n%0 = mpc.pow %x, %e : (" +
         tensor + ", tensor<" + type + ">) -> " + tensor +
         "\nreturn %0 : " + tensor + "\n}";
}

TEST_P(Math, ComputesConstantPowers) {
  for (const char *exponent :
       {"0.0", "1.0", "2.0", "3.0", "-1.0", "-2.0", "-3.0", "0.5", "-0.5",
        "1.5", "2.5", "-1.5", "-2.5", "1.7", "4.0", "-7.0"}) {
    CompiledKernel single(constantPower("f32", exponent), GetParam());
    CompiledKernel wide(constantPower("f64", exponent), GetParam());
    ASSERT_EQ(single.getError(), "");
    ASSERT_EQ(wide.getError(), "");
    double power = std::stod(exponent);
    bool isWhole = power == std::floor(power);
    auto x = randomFloats(kCount, isWhole ? -4 : 0.01f, 4);
    std::vector<double> xs(x.begin(), x.end()), ys(kCount);
    std::vector<float> y(kCount);
    single.launch({x.data(), y.data()});
    wide.launch({xs.data(), ys.data()});
    for (size_t i = 0; i < kCount; ++i) {
      // A GPU's roots and quotients are off by up to 2^-23 each, and their
      // product is rounded.
      double expected = std::pow(xs[i], power);
      EXPECT_NEAR(y[i], expected, 4 * 0x1p-23 * std::abs(expected))
          << x[i] << " " << power;
      expectNear(ys[i], std::pow(xs[i], power), 8, xs[i]);
    }
  }
}

TEST_P(Math, SquaresWithOneRounding) {
  CompiledKernel kernel(constantPower("f32", "2.0"), GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(kCount, -1000, 1000);
  x[0] = NAN, x[1] = -INFINITY, x[2] = -0.0f, x[3] = 2e19f;
  std::vector<float> y(kCount);
  kernel.launch({x.data(), y.data()});
  EXPECT_TRUE(std::isnan(y[0]));
  for (size_t i = 1; i < kCount; ++i)
    EXPECT_EQ(y[i], x[i] * x[i]);
}

TEST_P(Math, ComputesSoftplusOfF64) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<256xf64>, %t: tensor<f64>) -> tensor<256xf64>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.bce_with_logits %x, %t : (tensor<256xf64>, tensor<f64>) -> tensor<256xf64>
      return %0 : tensor<256xf64>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<double> x(kCount), z(kCount);
  double target = 0;
  for (size_t i = 0; i < kCount; ++i)
    x[i] = 0.3 * (static_cast<double>(i) - 128);
  kernel.launch({x.data(), &target, z.data()});
  for (size_t i = 0; i < kCount; ++i)
    expectNear(z[i],
               std::max(x[i], 0.0) + std::log1p(std::exp(-std::abs(x[i]))), 4,
               x[i]);
}

} // namespace
} // namespace mpc::test
