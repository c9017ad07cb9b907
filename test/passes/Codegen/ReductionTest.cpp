// Row and column reductions against float64.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mpc::test {
namespace {

class Reduction : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, Reduction,
                         testing::ValuesIn(runnableTargets()));

TEST_P(Reduction, ComputesSoftmaxAlongRows) {
  for (int64_t columns : {1, 10, 131}) {
    std::string full = "tensor<9x" + std::to_string(columns) + "xf32>";
    CompiledKernel kernel(
        "func.func private @kernel(%x: " + full + ") -> (" + full +
            ", tensor<9x1xf32>) attributes {mpc.kernel = \"row_reduce\"} {\n"
            "%0 = mpc.reduce_max %x {axes = array<i64: 1>, keepdims = true} : "
            "(" +
            full + ") -> tensor<9x1xf32>\n%1 = mpc.sub %x, %0 : (" + full +
            ", tensor<9x1xf32>) -> " + full + "\n%2 = mpc.exp %1 : (" + full +
            ") -> " + full +
            "\n%3 = mpc.reduce_sum %2 {axes = array<i64: 1>, keepdims = true} "
            ": (" +
            full + ") -> tensor<9x1xf32>\n%4 = mpc.div %2, %3 : (" + full +
            ", tensor<9x1xf32>) -> " + full + "\nreturn %4, %3 : " + full +
            ", tensor<9x1xf32>\n}",
        GetParam());
    ASSERT_EQ(kernel.getError(), "");
    auto x = randomFloats(9 * columns, -5, 5);
    std::vector<float> y(9 * columns), sums(9);
    kernel.launch({x.data(), y.data(), sums.data()});
    for (int64_t row = 0; row < 9; ++row) {
      const float *in = &x[row * columns];
      double top = *std::max_element(in, in + columns), sum = 0;
      for (int64_t c = 0; c < columns; ++c)
        sum += std::exp(in[c] - top);
      EXPECT_NEAR(sums[row], sum, 1e-6 * sum);
      for (int64_t c = 0; c < columns; ++c)
        EXPECT_NEAR(y[row * columns + c], std::exp(in[c] - top) / sum, 1e-6);
    }
  }
}

TEST_P(Reduction, SumsEverythingToAScalar) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<3x5x7xf32>, %s: tensor<5x1xf32>) -> tensor<1x1x1xf32>
        attributes {mpc.kernel = "row_reduce"} {
      %0 = mpc.mul %x, %s : (tensor<3x5x7xf32>, tensor<5x1xf32>) -> tensor<3x5x7xf32>
      %1 = mpc.reduce_mean %0 {axes = array<i64: 0, 1, 2>, keepdims = true} : (tensor<3x5x7xf32>) -> tensor<1x1x1xf32>
      return %1 : tensor<1x1x1xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(105), s = randomFloats(5);
  float y = 0;
  kernel.launch({x.data(), s.data(), &y});
  double sum = 0;
  for (size_t i = 0; i < x.size(); ++i)
    sum += double(x[i]) * s[i / 7 % 5];
  EXPECT_NEAR(y, sum / 105, 1e-6);
}

TEST_P(Reduction, PropagatesNaNThroughMax) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<2x40xf32>) -> tensor<2x1xf32> attributes {mpc.kernel = "row_reduce"} {
      %0 = mpc.reduce_max %x {axes = array<i64: 1>, keepdims = true} : (tensor<2x40xf32>) -> tensor<2x1xf32>
      return %0 : tensor<2x1xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(80);
  x[57] = NAN;
  std::vector<float> y(2);
  kernel.launch({x.data(), y.data()});
  EXPECT_EQ(y[0], *std::max_element(x.begin(), x.begin() + 40));
  EXPECT_TRUE(std::isnan(y[1]));
}

TEST_P(Reduction, SumsColumnsOfAnyWidth) {
  for (int64_t columns : {1, 10, 64, 100, 333}) {
    std::string full = "tensor<3x50x" + std::to_string(columns) + "xbf16>";
    std::string out = "tensor<3x1x" + std::to_string(columns) + "xf32>";
    std::string wide = "tensor<3x50x" + std::to_string(columns) + "xf32>";
    CompiledKernel kernel(
        "func.func private @kernel(%x: " + full + ", %d: " + full + ") -> (" +
            out + ", " + out +
            ") attributes {mpc.kernel = \"column_reduce\"} {\n"
            "%0 = mpc.reduce_sum %d {axes = array<i64: 1>, keepdims = true} : "
            "(" +
            full + ") -> " + out + "\n%1 = mpc.mul %x, %d : (" + full + ", " +
            full + ") -> " + wide +
            "\n%2 = mpc.reduce_sum %1 {axes = array<i64: 1>, keepdims = true} "
            ": (" +
            wide + ") -> " + out + "\nreturn %0, %2 : " + out + ", " + out +
            "\n}",
        GetParam());
    ASSERT_EQ(kernel.getError(), "") << columns;
    size_t count = 150 * columns;
    std::vector<uint16_t> x, d;
    for (float value : randomFloats(count))
      x.push_back(toBF16(value));
    for (float value : randomFloats(count))
      d.push_back(toBF16(value));
    std::vector<float> sums(3 * columns), products(3 * columns);
    std::vector<void *> args = {x.data(), d.data(), sums.data(),
                                products.data()};
    kernel.launch(args);
    for (int64_t o = 0; o < 3; ++o)
      for (int64_t c = 0; c < columns; ++c) {
        double sum = 0, product = 0;
        for (int64_t r = 0; r < 50; ++r) {
          size_t at = (o * 50 + r) * columns + c;
          sum += fromBF16(d[at]);
          product += double(fromBF16(x[at])) * fromBF16(d[at]);
        }
        EXPECT_NEAR(sums[o * columns + c], sum, 1e-4) << columns;
        EXPECT_NEAR(products[o * columns + c], product, 1e-4) << columns;
      }
    // Slices are independent of their order.
    auto again = sums;
    args[2] = again.data();
    kernel.launch(args, /*backwards=*/true);
    EXPECT_EQ(again, sums);
  }
}

TEST_P(Reduction, StoresElementsBeforeAndAfterAColumnReduction) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<50x24xf32>) -> (tensor<50x24xbf16>, tensor<1x24xf32>, tensor<50x24xf32>)
        attributes {mpc.kernel = "column_reduce"} {
      %0 = mpc.relu %x : (tensor<50x24xf32>) -> tensor<50x24xbf16>
      %1 = mpc.reduce_max %0 {axes = array<i64: 0>, keepdims = true} : (tensor<50x24xbf16>) -> tensor<1x24xf32>
      %2 = mpc.sub %0, %1 : (tensor<50x24xbf16>, tensor<1x24xf32>) -> tensor<50x24xf32>
      return %0, %1, %2 : tensor<50x24xbf16>, tensor<1x24xf32>, tensor<50x24xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(50 * 24);
  std::vector<uint16_t> low(x.size());
  std::vector<float> top(24), y(x.size());
  kernel.launch({x.data(), low.data(), top.data(), y.data()});
  for (int64_t c = 0; c < 24; ++c) {
    float largest = 0;
    for (int64_t r = 0; r < 50; ++r) {
      EXPECT_EQ(low[r * 24 + c], toBF16(std::max(x[r * 24 + c], 0.0f)));
      largest = std::max(largest, fromBF16(low[r * 24 + c]));
    }
    EXPECT_EQ(top[c], largest);
    for (int64_t r = 0; r < 50; ++r)
      EXPECT_EQ(y[r * 24 + c], fromBF16(low[r * 24 + c]) - largest);
  }
}

TEST_P(Reduction, ChainsColumnReductions) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<60x24xf32>) -> (tensor<24xf32>, tensor<24xf32>)
        attributes {mpc.kernel = "column_reduce"} {
      %0 = mpc.reduce_mean %x {axes = array<i64: 0>, keepdims = false} : (tensor<60x24xf32>) -> tensor<24xf32>
      %1 = mpc.sub %x, %0 : (tensor<60x24xf32>, tensor<24xf32>) -> tensor<60x24xf32>
      %2 = mpc.mul %1, %1 : (tensor<60x24xf32>, tensor<60x24xf32>) -> tensor<60x24xf32>
      %3 = mpc.reduce_mean %2 {axes = array<i64: 0>, keepdims = false} : (tensor<60x24xf32>) -> tensor<24xf32>
      return %0, %3 : tensor<24xf32>, tensor<24xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(60 * 24, 9, 10);
  std::vector<float> mean(24), variance(24);
  kernel.launch({x.data(), mean.data(), variance.data()});
  for (int64_t c = 0; c < 24; ++c) {
    double sum = 0, squares = 0;
    for (int64_t r = 0; r < 60; ++r)
      sum += x[r * 24 + c];
    for (int64_t r = 0; r < 60; ++r)
      squares += std::pow(x[r * 24 + c] - sum / 60, 2);
    EXPECT_NEAR(mean[c], sum / 60, 1e-5);
    EXPECT_NEAR(variance[c], squares / 60, 1e-6);
  }
}

} // namespace
} // namespace mpc::test
