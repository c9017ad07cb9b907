// Tests pointwise kernels and epilogues against plain loops.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/FloatBits.h"
#include "test/passes/Codegen/KernelHarness.h"

#include <cmath>
#include <gtest/gtest.h>
#include <numeric>

namespace mpc::test {
namespace {

class Pointwise : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, Pointwise,
                         testing::ValuesIn(runnableTargets()));

TEST_P(Pointwise, ComparesAndTakesNaNForNeither) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%a: tensor<19xf32>, %b: tensor<19xf32>) -> (tensor<19xi1>, tensor<19xi1>, tensor<19xi1>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.equal %a, %b : (tensor<19xf32>, tensor<19xf32>) -> tensor<19xi1>
      %1 = mpc.less %a, %b : (tensor<19xf32>, tensor<19xf32>) -> tensor<19xi1>
      %2 = mpc.less_or_equal %a, %b : (tensor<19xf32>, tensor<19xf32>) -> tensor<19xi1>
      return %0, %1, %2 : tensor<19xi1>, tensor<19xi1>, tensor<19xi1>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto a = randomFloats(19), b = randomFloats(19);
  a[3] = b[3];
  a[17] = b[17];
  a[5] = b[6] = a[18] = b[18] = NAN;
  std::vector<uint8_t> equal(19), less(19), lessOrEqual(19);
  kernel.launch(
      {a.data(), b.data(), equal.data(), less.data(), lessOrEqual.data()});
  for (int i = 0; i < 19; ++i) {
    EXPECT_EQ(equal[i], a[i] == b[i]) << i;
    EXPECT_EQ(less[i], a[i] < b[i]) << i;
    EXPECT_EQ(lessOrEqual[i], a[i] <= b[i]) << i;
  }
}

TEST_P(Pointwise, KeepsNaNInGradientsOfWhatCutsOff) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%dy: tensor<21xf32>, %x: tensor<21xf32>, %low: tensor<21xbf16>) -> (tensor<21xf32>, tensor<21xf32>, tensor<21xf32>, tensor<21xf32>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.relu_grad %dy, %x : (tensor<21xf32>, tensor<21xf32>) -> tensor<21xf32>
      %1 = mpc.clip_grad %dy, %x {min = -1.0 : f64, max = 1.0 : f64} : (tensor<21xf32>, tensor<21xf32>) -> tensor<21xf32>
      %2 = mpc.clip_grad %dy, %x {max = 1.0 : f64} : (tensor<21xf32>, tensor<21xf32>) -> tensor<21xf32>
      %3 = mpc.relu_grad %dy, %low : (tensor<21xf32>, tensor<21xbf16>) -> tensor<21xf32>
      return %0, %1, %2, %3 : tensor<21xf32>, tensor<21xf32>, tensor<21xf32>, tensor<21xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto dy = randomFloats(21), x = randomFloats(21);
  // Inside a vector and behind the last one.
  x[2] = x[20] = NAN;
  std::vector<uint16_t> low;
  for (float value : x)
    low.push_back(std::isnan(value) ? 0x7fc0 : toBF16(value));
  std::vector<float> relu(21), clip(21), below(21), lowRelu(21);
  kernel.launch({dy.data(), x.data(), low.data(), relu.data(), clip.data(),
                 below.data(), lowRelu.data()});
  for (int i = 0; i < 21; ++i) {
    if (std::isnan(x[i])) {
      for (float gradient : {relu[i], clip[i], below[i], lowRelu[i]})
        EXPECT_TRUE(std::isnan(gradient)) << i;
      continue;
    }
    EXPECT_EQ(relu[i], x[i] > 0 ? dy[i] : 0) << i;
    EXPECT_EQ(clip[i], x[i] >= -1 && x[i] <= 1 ? dy[i] : 0) << i;
    EXPECT_EQ(below[i], x[i] <= 1 ? dy[i] : 0) << i;
    EXPECT_EQ(lowRelu[i], x[i] > 0 ? dy[i] : 0) << i;
  }
}

TEST_P(Pointwise, FindsWhatIsNotFinite) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<20xf32>, %y: tensor<20xf16>) -> (tensor<20xf32>, tensor<20xf32>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = amp.non_finite %x : (tensor<20xf32>) -> tensor<20xf32>
      %1 = amp.non_finite %y : (tensor<20xf16>) -> tensor<20xf32>
      return %0, %1 : tensor<20xf32>, tensor<20xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(20);
  x[3] = NAN, x[7] = INFINITY, x[19] = -INFINITY, x[8] = 3e38f;
  std::vector<uint16_t> y(20, 0x7bff); // the largest finite value
  y[2] = 0x7c00, y[18] = 0xfc00, y[9] = 0x7e00;
  std::vector<float> a(20), b(20);
  kernel.launch({x.data(), y.data(), a.data(), b.data()});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(a[i], i == 3 || i == 7 || i == 19 ? 1 : 0) << i;
    EXPECT_EQ(b[i], i == 2 || i == 18 || i == 9 ? 1 : 0) << i;
  }
}

TEST_P(Pointwise, BroadcastsABiasOverRows) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<5x37xf32>, %b: tensor<37xf32>)
        -> tensor<5x37xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.add %x, %b : (tensor<5x37xf32>, tensor<37xf32>) -> tensor<5x37xf32>
      %1 = mpc.relu %0 : (tensor<5x37xf32>) -> tensor<5x37xf32>
      return %1 : tensor<5x37xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(5 * 37), b = randomFloats(37);
  std::vector<float> y(5 * 37);
  kernel.launch({x.data(), b.data(), y.data()});
  for (size_t i = 0; i < y.size(); ++i)
    EXPECT_EQ(y[i], std::max(x[i] + b[i % 37], 0.0f)) << i;
}

TEST_P(Pointwise, RoundsToBF16AtEveryCast) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<101xf32>, %s: tensor<bf16>)
        -> (tensor<101xbf16>, tensor<101xf32>) attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = amp.cast %x : (tensor<101xf32>) -> tensor<101xbf16>
      %1 = mpc.mul %0, %s : (tensor<101xbf16>, tensor<bf16>) -> tensor<101xf32>
      return %0, %1 : tensor<101xbf16>, tensor<101xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(101);
  uint16_t scale = toBF16(1.25f);
  std::vector<uint16_t> low(101);
  std::vector<float> y(101);
  kernel.launch({x.data(), &scale, low.data(), y.data()});
  for (size_t i = 0; i < y.size(); ++i) {
    EXPECT_EQ(low[i], toBF16(x[i])) << i;
    EXPECT_EQ(y[i], fromBF16(toBF16(x[i])) * 1.25f) << i;
  }
}

template <typename From, typename To>
std::vector<To> cast(const std::string &target, std::vector<From> source,
                     std::string from, std::string to) {
  std::string count = "tensor<" + std::to_string(source.size()) + "x";
  from = count + from + ">";
  to = count + to + ">";
  CompiledKernel kernel(
      "func.func private @kernel(%x: " + from + ") -> " + to +
          " attributes {mpc.kernel = #mpc.kernel<pointwise>} {\n"
          "%0 = amp.cast %x : (" +
          from + ") -> " + to + "\nreturn %0 : " + to + "\n}",
      target);
  EXPECT_EQ(kernel.getError(), "");
  std::vector<To> result(source.size());
  if (kernel.getError().empty())
    kernel.launch({source.data(), result.data()});
  return result;
}

TEST_P(Pointwise, WidensEvery16BitValue) {
  std::vector<uint16_t> all(65536);
  std::iota(all.begin(), all.end(), 0);
  auto f16 = cast<uint16_t, float>(GetParam(), all, "f16", "f32");
  auto f16Wide = cast<uint16_t, double>(GetParam(), all, "f16", "f64");
  auto bf16 = cast<uint16_t, float>(GetParam(), all, "bf16", "f32");
  auto bf16Wide = cast<uint16_t, double>(GetParam(), all, "bf16", "f64");
  // A signalling NaN may become quiet, or be left to the arithmetic that reads
  // it.
  auto expectSame = [](float actual, float expected) {
    if (std::isnan(expected))
      EXPECT_TRUE(std::isnan(actual));
    else
      EXPECT_EQ(runtime::bitsOf(actual), runtime::bitsOf(expected));
  };
  for (size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE(i);
    expectSame(f16[i], runtime::f16ToFloat(all[i]));
    expectSame(static_cast<float>(f16Wide[i]), runtime::f16ToFloat(all[i]));
    expectSame(bf16[i], runtime::bf16ToFloat(all[i]));
    expectSame(static_cast<float>(bf16Wide[i]), runtime::bf16ToFloat(all[i]));
  }
}

TEST_P(Pointwise, RoundsTo16BitsAsIEEEAsks) {
  // All exponents, with every last bit kept, next to ties.
  std::vector<float> values;
  for (uint32_t upper = 0; upper < 0x10000; upper += 7)
    for (uint32_t lower : {0u, 1u, 0xfffu, 0x1000u, 0x1001u, 0x2fffu, 0x3000u,
                           0x7fffu, 0x8000u, 0x8001u, 0xffffu})
      values.push_back(runtime::floatOf(upper << 16 | lower));
  for (float edge : {65504.0f, 65519.99f, 65520.0f, 65536.0f, 0x1p-14f,
                     0x1.ffcp-15f, 0x1p-24f, 0x1p-25f, 0x1.8p-24f, 0x1.8p-25f})
    values.insert(values.end(), {edge, -edge});
  auto f16 = cast<float, uint16_t>(GetParam(), values, "f32", "f16");
  auto bf16 = cast<float, uint16_t>(GetParam(), values, "f32", "bf16");
  for (size_t i = 0; i < values.size(); ++i) {
    SCOPED_TRACE(runtime::bitsOf(values[i]));
    EXPECT_EQ(f16[i], runtime::floatToF16(values[i]));
    // The instruction flushes subnormals to zero.
    if (std::fpclassify(values[i]) == FP_SUBNORMAL && (bf16[i] & 0x7fff) == 0)
      continue;
    EXPECT_EQ(bf16[i], runtime::floatToBF16(values[i]));
  }
}

TEST_P(Pointwise, ComputesTranscendentalsWithinAFewUnits) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<4099xf32>)
        -> (tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.exp %x : (tensor<4099xf32>) -> tensor<4099xf32>
      %1 = mpc.log %0 : (tensor<4099xf32>) -> tensor<4099xf32>
      %2 = mpc.tanh %x : (tensor<4099xf32>) -> tensor<4099xf32>
      %3 = mpc.sigmoid %x : (tensor<4099xf32>) -> tensor<4099xf32>
      return %0, %1, %2, %3 : tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32>, tensor<4099xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(4099, -30, 30);
  std::vector<float> e(4099), l(4099), t(4099), s(4099);
  kernel.launch({x.data(), e.data(), l.data(), t.data(), s.data()});
  for (size_t i = 0; i < x.size(); ++i) {
    double v = x[i], unit = 1.2e-7;
    EXPECT_NEAR(e[i], std::exp(v), 2 * unit * std::exp(v)) << v;
    EXPECT_NEAR(l[i], std::log(double(e[i])),
                2 * unit * std::max(1.0, std::fabs(v)));
    EXPECT_NEAR(t[i], std::tanh(v), 4 * unit * std::fabs(std::tanh(v))) << v;
    double sigmoid = 1 / (1 + std::exp(-v));
    EXPECT_NEAR(s[i], sigmoid, 4 * unit * sigmoid) << v;
  }
}

TEST_P(Pointwise, StepsAdamWInPlaceAndWritesTheLowCopy) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%p: tensor<1000xf32>, %g: tensor<1000xf32>,
        %m: tensor<1000xf32>, %v: tensor<1000xf32>, %lr: tensor<f32>, %t: tensor<i64>,
        %ok: tensor<i1>)
        -> (tensor<1000xf32>, tensor<1000xf32>, tensor<1000xf32>, tensor<1000xbf16>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0:3 = mpc.adam %p, %g, %m, %v, %lr, %t, %ok {beta1 = 0.9 : f64,
          beta2 = 0.999 : f64, epsilon = 1.0e-8 : f64, weight_decay = 0.01 : f64,
          decay_mode = #mpc.decay<decoupled>, bias_correction = #mpc.bias_correction<torch>}
        : (tensor<1000xf32>, tensor<1000xf32>, tensor<1000xf32>, tensor<1000xf32>,
           tensor<f32>, tensor<i64>, tensor<i1>)
        -> (tensor<1000xf32>, tensor<1000xf32>, tensor<1000xf32>)
      %1 = amp.cast %0#0 : (tensor<1000xf32>) -> tensor<1000xbf16>
      return %0#0, %0#1, %0#2, %1 : tensor<1000xf32>, tensor<1000xf32>, tensor<1000xf32>, tensor<1000xbf16>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto p = randomFloats(1000), g = randomFloats(1000);
  auto m = randomFloats(1000), v = randomFloats(1000, 0, 1);
  const auto p0 = p, m0 = m, v0 = v;
  std::vector<uint16_t> low(1000);
  float lr = 1e-2f;
  int64_t step = 3;
  uint8_t apply = 0;
  std::vector<void *> args = {p.data(), g.data(), m.data(),  v.data(),
                              &lr,      &step,    &apply,    p.data(),
                              m.data(), v.data(), low.data()};
  kernel.launch(args);
  EXPECT_EQ(p, p0);
  EXPECT_EQ(v, v0);
  apply = 1;
  kernel.launch(args);
  for (size_t i = 0; i < p.size(); ++i) {
    double newM = 0.9 * m0[i] + 0.1 * g[i];
    double newV = 0.999 * v0[i] + 0.001 * g[i] * g[i];
    double hat = newM / (1 - std::pow(0.9, 3));
    double root = std::sqrt(newV / (1 - std::pow(0.999, 3)));
    double expected = p0[i] * (1 - lr * 0.01) - lr * hat / (root + 1e-8);
    EXPECT_NEAR(m[i], newM, 1e-6);
    EXPECT_NEAR(v[i], newV, 1e-6);
    EXPECT_NEAR(p[i], expected, 1e-6);
    EXPECT_EQ(low[i], toBF16(p[i]));
  }
}

TEST_P(Pointwise, ComputesF64WithoutLosingDigits) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<19xf64>, %y: tensor<19xf32>) -> (tensor<19xf64>, tensor<19xbf16>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.mul %x, %y : (tensor<19xf64>, tensor<19xf32>) -> tensor<19xf64>
      %1 = mpc.exp %0 : (tensor<19xf64>) -> tensor<19xf64>
      %2 = amp.cast %0 : (tensor<19xf64>) -> tensor<19xbf16>
      return %1, %2 : tensor<19xf64>, tensor<19xbf16>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto y = randomFloats(19);
  std::vector<double> x(19, 1.0 / 3), z(19);
  // Just above a tie between two bf16 values, by less than f32 resolves.
  x[0] = 1 + 1.0 / 256 + 1e-12;
  y[0] = 1;
  std::vector<uint16_t> low(19);
  kernel.launch({x.data(), y.data(), z.data(), low.data()});
  for (size_t i = 0; i < x.size(); ++i)
    EXPECT_NEAR(z[i], std::exp(x[i] * y[i]), 1e-14 * std::exp(x[i] * y[i]));
  EXPECT_EQ(fromBF16(low[0]), 1 + 1.0f / 128);
}

TEST_P(Pointwise, ConvertsBetweenKindsOfNumbers) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%f: tensor<21xf32>, %u: tensor<21xui8>, %i: tensor<21xi64>, %b: tensor<21xi1>)
        -> (tensor<21xi64>, tensor<21xi1>, tensor<21xf32>, tensor<21xf32>, tensor<21xf32>, tensor<21xi32>, tensor<21xf16>, tensor<21xbf16>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.cast %f : (tensor<21xf32>) -> tensor<21xi64>
      %1 = mpc.cast %f : (tensor<21xf32>) -> tensor<21xi1>
      %2 = mpc.cast %u : (tensor<21xui8>) -> tensor<21xf32>
      %3 = mpc.cast %i : (tensor<21xi64>) -> tensor<21xf32>
      %4 = mpc.cast %b : (tensor<21xi1>) -> tensor<21xf32>
      %5 = mpc.cast %i : (tensor<21xi64>) -> tensor<21xi32>
      %6 = mpc.cast %i : (tensor<21xi64>) -> tensor<21xf16>
      %7 = mpc.cast %i : (tensor<21xi64>) -> tensor<21xbf16>
      return %0, %1, %2, %3, %4, %5, %6, %7 : tensor<21xi64>, tensor<21xi1>, tensor<21xf32>, tensor<21xf32>, tensor<21xf32>, tensor<21xi32>, tensor<21xf16>, tensor<21xbf16>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto f = randomFloats(21, -100, 100);
  f[4] = 0, f[5] = -0.5f;
  std::vector<uint8_t> u(21), b(21), isNotZero(21);
  std::vector<int64_t> i(21), whole(21);
  for (int64_t k = 0; k < 21; ++k)
    u[k] = 250 - 12 * k, b[k] = k % 3 == 0, i[k] = k - 10;
  std::vector<float> fromByte(21), fromInt(21), fromBool(21);
  std::vector<int32_t> narrow(21);
  std::vector<uint16_t> half(21), brain(21);
  kernel.launch({f.data(), u.data(), i.data(), b.data(), whole.data(),
                 isNotZero.data(), fromByte.data(), fromInt.data(),
                 fromBool.data(), narrow.data(), half.data(), brain.data()});
  for (int64_t k = 0; k < 21; ++k) {
    EXPECT_EQ(whole[k], static_cast<int64_t>(f[k])) << k;
    EXPECT_EQ(isNotZero[k], f[k] != 0) << k;
    EXPECT_EQ(fromByte[k], u[k]) << k;
    EXPECT_EQ(fromInt[k], i[k]) << k;
    EXPECT_EQ(fromBool[k], b[k]) << k;
    EXPECT_EQ(narrow[k], i[k]) << k;
    EXPECT_EQ(fromBF16(brain[k]), i[k]) << k;
  }
  EXPECT_EQ(half[11], 0x3c00); // 1
  EXPECT_EQ(half[8], 0xc000);  // -2
}

TEST_P(Pointwise, MarksLabelsByOneHot) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%l: tensor<7xi64>) -> tensor<7x10xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.one_hot %l {axis = 1 : i64, depth = 10 : i64} : (tensor<7xi64>) -> tensor<7x10xf32>
      return %0 : tensor<7x10xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<int64_t> labels = {3, 0, 9, -1, 10, 5, 8};
  std::vector<float> y(70, -1);
  kernel.launch({labels.data(), y.data()});
  for (int64_t i = 0; i < 70; ++i)
    EXPECT_EQ(y[i], labels[i / 10] == i % 10 ? 1 : 0) << i;
}

/// Philox-4x32-10, as in the op's description.
uint32_t philox(int64_t index, int64_t id, int64_t microStep, int64_t seed) {
  auto group = static_cast<uint64_t>(index) / 4;
  uint32_t c[4] = {static_cast<uint32_t>(group),
                   static_cast<uint32_t>(group >> 32),
                   static_cast<uint32_t>(id), static_cast<uint32_t>(microStep)};
  auto key0 = static_cast<uint32_t>(seed);
  auto key1 = static_cast<uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    uint64_t p0 = uint64_t(0xD2511F53) * c[0], p1 = uint64_t(0xCD9E8D57) * c[2];
    uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ key0;
    uint32_t n2 = static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ key1;
    c[1] = static_cast<uint32_t>(p1);
    c[3] = static_cast<uint32_t>(p0);
    c[0] = n0;
    c[2] = n2;
    key0 += 0x9E3779B9;
    key1 += 0xBB67AE85;
  }
  return c[index % 4];
}

TEST_P(Pointwise, DropsByPhiloxOfTheElement) {
  // The published test vector: all zeros.
  ASSERT_EQ(philox(0, 0, 0, 0), 0x6627e8d5u);
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<30x11xf32>, %seed: tensor<i64>, %step: tensor<i64>)
        -> tensor<30x11xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.dropout %x, %seed, %step {ratio = 0.25 : f64, id = 7 : i64}
        : (tensor<30x11xf32>, tensor<i64>, tensor<i64>) -> tensor<30x11xf32>
      return %0 : tensor<30x11xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(330);
  int64_t seed = 0x123456789abcdef, step = 5;
  std::vector<float> y(330);
  kernel.launch({x.data(), &seed, &step, y.data()});
  for (int64_t i = 0; i < 330; ++i) {
    bool keep = (philox(i, 7, step, seed) >> 8) * 0x1p-24 >= 0.25;
    EXPECT_EQ(y[i], keep ? x[i] / 0.75f : 0) << i;
  }
}

// Rows of 19 start anywhere in a group of four. A box starts with the given
// group, and counts along the axes of the whole tensor.
TEST_P(Pointwise, DropsOnABoxAsOnTheWhole) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<2x3x19xf32>, %r: tensor<2x3x1xf32>, %seed: tensor<i64>, %step: tensor<i32>, %group: tensor<i64>) -> tensor<2x3x19xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.dropout %x, %seed, %step, %group {ratio = 0.25 : f64, id = 7 : i64, whole = array<i64: 5, 8, 19>}
        : (tensor<2x3x19xf32>, tensor<i64>, tensor<i32>, tensor<i64>) -> tensor<2x3x19xf32>
      %1 = mpc.add %0, %r : (tensor<2x3x19xf32>, tensor<2x3x1xf32>) -> tensor<2x3x19xf32>
      return %1 : tensor<2x3x19xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(114), r = randomFloats(6);
  int64_t seed = 99, group = 19; // row 4 of the first 8
  int32_t step = 5;
  std::vector<float> y(114);
  kernel.launch({x.data(), r.data(), &seed, &step, &group, y.data()});
  for (int64_t i = 0; i < 114; ++i) {
    int64_t row = i / 19;
    int64_t place = 76 + row / 3 * 152 + row % 3 * 19 + i % 19;
    bool keep = (philox(place, 7, step, seed) >> 8) * 0x1p-24 >= 0.25;
    EXPECT_EQ(y[i], (keep ? x[i] / 0.75f : 0) + r[row]) << i;
  }
}

TEST_P(Pointwise, DrawsAsManyBitsAsThereAreDigits) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%seed: tensor<i64>, %step: tensor<i64>)
        -> (tensor<30x11xf32>, tensor<30x11xf64>, tensor<30x11xbf16>) attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.random_uniform %seed, %step {id = 7 : i64} : (tensor<i64>, tensor<i64>) -> tensor<30x11xf32>
      %1 = mpc.random_uniform %seed, %step {id = 8 : i64} : (tensor<i64>, tensor<i64>) -> tensor<30x11xf64>
      %2 = mpc.random_uniform %seed, %step {id = 9 : i64} : (tensor<i64>, tensor<i64>) -> tensor<30x11xbf16>
      return %0, %1, %2 : tensor<30x11xf32>, tensor<30x11xf64>, tensor<30x11xbf16>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  int64_t seed = 0x123456789abcdef, step = 5;
  std::vector<float> y(330);
  std::vector<double> wide(330);
  std::vector<uint16_t> low(330);
  kernel.launch({&seed, &step, y.data(), wide.data(), low.data()});
  for (int64_t i = 0; i < 330; ++i) {
    EXPECT_EQ(y[i], (philox(i, 7, step, seed) >> 8) * 0x1p-24) << i;
    uint64_t upper = philox(2 * i + 1, 8, step, seed);
    uint64_t bits = upper << 32 | philox(2 * i, 8, step, seed);
    EXPECT_EQ(wide[i], static_cast<double>(bits >> 11) * 0x1p-53) << i;
    EXPECT_EQ(fromBF16(low[i]), (philox(i, 9, step, seed) >> 24) * 0x1p-8) << i;
  }
}

class Epilogue : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(CPUs, Epilogue, testing::ValuesIn(runnableCPUs()));

// Rows are stored in the order of their transpose.
TEST_P(Epilogue, StoresInAnotherOrder) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%acc: tensor<2x3x5x20xf32>, %r: tensor<2x3x5x20xf32>) -> (tensor<2x5x3x20xf32>, tensor<2x3x5x20xf32>)
        attributes {mpc.kernel = #mpc.kernel<epilogue>} {
      %0 = mpc.add %acc, %r : (tensor<2x3x5x20xf32>, tensor<2x3x5x20xf32>) -> tensor<2x3x5x20xf32>
      %1 = mpc.transpose %0 {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x5x20xf32>) -> tensor<2x5x3x20xf32>
      return %1, %0 : tensor<2x5x3x20xf32>, tensor<2x3x5x20xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto tile = randomFloats(9 * 12), r = randomFloats(600);
  std::vector<float> turned(600, -9), y(600, -9);
  // Rows 4 to 12 of 30, columns 7 to 18 of 20, in a tile of 12 columns.
  kernel.runTile({tile.data(), r.data(), turned.data(), y.data()}, 4, 13, 7, 19,
                 12);
  for (int64_t row = 0; row < 30; ++row)
    for (int64_t column = 0; column < 20; ++column) {
      bool isInTile = row >= 4 && row < 13 && column >= 7 && column < 19;
      int64_t n = row / 15, i = row / 5 % 3, j = row % 5;
      int64_t from = row * 20 + column;
      int64_t to = ((n * 5 + j) * 3 + i) * 20 + column;
      float expected =
          isInTile ? tile[(row - 4) * 12 + column - 7] + r[from] : -9;
      EXPECT_EQ(y[from], expected) << row << " " << column;
      EXPECT_EQ(turned[to], expected) << row << " " << column;
    }
}

TEST_P(Epilogue, ReadsATile) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%acc: tensor<6x50xf32>, %b: tensor<50xf32>) -> tensor<6x50xbf16>
        attributes {mpc.kernel = #mpc.kernel<epilogue>} {
      %0 = mpc.add %acc, %b : (tensor<6x50xf32>, tensor<50xf32>) -> tensor<6x50xbf16>
      return %0 : tensor<6x50xbf16>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto tile = randomFloats(4 * 64), b = randomFloats(50);
  std::vector<uint16_t> y(300, 0xffff);
  kernel.runTile({tile.data(), b.data(), y.data()}, 2, 5, 8, 45, 64);
  for (int64_t row = 0; row < 6; ++row)
    for (int64_t col = 0; col < 50; ++col) {
      bool inside = row >= 2 && row < 5 && col >= 8 && col < 45;
      uint16_t expected =
          inside ? toBF16(tile[(row - 2) * 64 + col - 8] + b[col]) : 0xffff;
      EXPECT_EQ(y[row * 50 + col], expected) << row << " " << col;
    }
}

TEST_P(Pointwise, UpdatesTheLossScale) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%s: tensor<f32>, %g: tensor<i64>, %h: tensor<i64>, %ok: tensor<i1>)
        -> (tensor<f32>, tensor<i64>, tensor<i64>) attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0:3 = amp.update_scale %s, %g, %h, %ok {growth_factor = 2.0 : f64, backoff_factor = 0.5 : f64,
          growth_interval = 3 : i64, min_scale = 1.0 : f64, max_scale = 64.0 : f64, hysteresis = 2 : i64}
        : (tensor<f32>, tensor<i64>, tensor<i64>, tensor<i1>) -> (tensor<f32>, tensor<i64>, tensor<i64>)
      return %0#0, %0#1, %0#2 : tensor<f32>, tensor<i64>, tensor<i64>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  float scale = 16;
  int64_t good = 0, left = 2;
  uint8_t finite = 1;
  auto step = [&](bool ok) {
    finite = ok;
    kernel.launch({&scale, &good, &left, &finite, &scale, &good, &left});
  };
  step(false);
  EXPECT_EQ(scale, 16);
  step(false);
  EXPECT_EQ(scale, 8);
  for (int i = 0; i < 3; ++i)
    step(true);
  EXPECT_EQ(scale, 16);
  EXPECT_EQ(good, 0);
  EXPECT_EQ(left, 2);
}

// Row lengths for which a GPU's number of threads is not a power of two.
TEST_P(Pointwise, AddsABiasToRowsOfManyLengths) {
  for (int64_t columns : {768, 2304, 2312, 3080}) {
    std::string row = std::to_string(columns);
    CompiledKernel kernel(
        "func.func private @kernel(%x: tensor<37x" + row +
            "xbf16>, %b: tensor<" + row + "xf32>) -> tensor<37x" + row +
            "xf32> attributes {mpc.kernel = #mpc.kernel<pointwise>} {\n"
            "%0 = mpc.add %x, %b : (tensor<37x" +
            row + "xbf16>, tensor<" + row + "xf32>) -> tensor<37x" + row +
            "xf32>\nreturn %0 : tensor<37x" + row + "xf32>\n}",
        GetParam());
    ASSERT_EQ(kernel.getError(), "");
    std::vector<uint16_t> x;
    for (float value : randomFloats(37 * columns))
      x.push_back(toBF16(value));
    std::vector<float> bias = randomFloats(columns), y(x.size());
    kernel.launch({x.data(), bias.data(), y.data()});
    for (size_t i = 0; i < y.size(); ++i)
      ASSERT_EQ(y[i], fromBF16(x[i]) + bias[i % columns])
          << columns << " " << i;
  }
}

} // namespace
} // namespace mpc::test
