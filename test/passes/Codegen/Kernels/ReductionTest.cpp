// Tests row and column reductions against float64.
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
            ", tensor<9x1xf32>) attributes {mpc.kernel = "
            "#mpc.kernel<row_reduce>} {\n"
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
        attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
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
    func.func private @kernel(%x: tensor<2x40xf32>) -> tensor<2x1xf32> attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
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
  for (int64_t columns : {1, 10, 32, 64, 100, 333, 512}) {
    std::string full = "tensor<3x50x" + std::to_string(columns) + "xbf16>";
    std::string out = "tensor<3x1x" + std::to_string(columns) + "xf32>";
    std::string wide = "tensor<3x50x" + std::to_string(columns) + "xf32>";
    CompiledKernel kernel(
        "func.func private @kernel(%x: " + full + ", %d: " + full + ") -> (" +
            out + ", " + out +
            ") attributes {mpc.kernel = #mpc.kernel<column_reduce>} {\n"
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
    // The order of slices does not matter.
    auto again = sums;
    args[2] = again.data();
    kernel.launch(args, /*backwards=*/true);
    EXPECT_EQ(again, sums);
  }
}

/// A kernel over `outer` times `rows` rows of `columns` elements. It stores
/// relu of x, scaled by a value per column, and each column's sum, maximum and
/// mean.
std::string manyOfColumns(int64_t outer, int64_t rows, int64_t columns,
                          const std::string &element) {
  std::string size = std::to_string(columns) + "x";
  std::string lead = "tensor<" + std::to_string(outer) + "x";
  std::string in = lead + std::to_string(rows) + "x" + size + element + ">";
  std::string out = lead + "1x" + size + "f32>";
  std::string scale = "tensor<" + size + "f32>";
  std::string reduce = " %0 {axes = array<i64: 1>, keepdims = true} : (" + in +
                       ") -> " + out + "\n";
  return "func.func private @kernel(%x: " + in + ", %s: " + scale + ") -> (" +
         in + ", " + out + ", " + out + ", " + out +
         ") attributes {mpc.kernel = #mpc.kernel<column_reduce>} {\n"
         "%r = mpc.relu %x : (" +
         in + ") -> " + in + "\n%0 = mpc.mul %r, %s : (" + in + ", " + scale +
         ") -> " + in + "\n%1 = mpc.reduce_sum" + reduce +
         "%2 = mpc.reduce_max" + reduce + "%3 = mpc.reduce_mean" + reduce +
         "return %0, %1, %2, %3 : " + in + ", " + out + ", " + out + ", " +
         out + "\n}";
}

// Numbers of columns and rows with and without partial blocks and bands, with
// one range of totals and several.
TEST_P(Reduction, SumsWideRowsInBands) {
  for (auto [outer, rows, columns] :
       {std::tuple<int64_t, int64_t, int64_t>{1, 16, 1024},
        {2, 37, 800},
        {9, 50, 768},
        {1, 100, 2049},
        {3, 20, 4100}}) {
    CompiledKernel kernel(manyOfColumns(outer, rows, columns, "f32"),
                          GetParam());
    ASSERT_EQ(kernel.getError(), "") << columns;
    if (GetParam() != "sm_80") {
      EXPECT_GT(kernel.getPartition().scratch, 0) << columns;
    }
    auto x = randomFloats(outer * rows * columns), s = randomFloats(columns);
    std::vector<float> y(x.size()), sums(outer * columns), top(sums),
        mean(sums);
    std::vector<void *> args = {x.data(),    s.data(),   y.data(),
                                sums.data(), top.data(), mean.data()};
    kernel.launch(args);
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t c = 0; c < columns; ++c) {
        double sum = 0;
        float largest = -INFINITY;
        for (int64_t r = 0; r < rows; ++r) {
          int64_t at = (o * rows + r) * columns + c;
          ASSERT_EQ(y[at], std::max(x[at], 0.0f) * s[c]) << at;
          sum += y[at];
          largest = std::max(largest, y[at]);
        }
        int64_t at = o * columns + c;
        // A band of positive terms, each at most 4, then totals in f64.
        ASSERT_NEAR(sums[at], sum, 1e-6 * (1 + std::fabs(sum))) << columns;
        ASSERT_NEAR(mean[at], sum / rows, 1e-6 * (1 + std::fabs(sum)) / rows);
        ASSERT_EQ(top[at], largest) << columns;
      }
    auto again = sums;
    args[3] = again.data();
    kernel.launch(args, /*backwards=*/true);
    EXPECT_EQ(again, sums) << columns;
  }
}

TEST_P(Reduction, SumsWideRowsOfIntegersAndHalves) {
  constexpr int64_t rows = 35, columns = 832;
  CompiledKernel integers(
      "func.func private @kernel(%x: tensor<35x832xi64>) -> tensor<1x832xi64> "
      "attributes {mpc.kernel = #mpc.kernel<column_reduce>} {\n"
      "%0 = mpc.reduce_sum %x {axes = array<i64: 0>, keepdims = true} : "
      "(tensor<35x832xi64>) -> tensor<1x832xi64>\n"
      "return %0 : tensor<1x832xi64>\n}",
      GetParam());
  ASSERT_EQ(integers.getError(), "");
  std::vector<int64_t> n(rows * columns), counts(columns);
  for (size_t i = 0; i < n.size(); ++i)
    n[i] = int64_t(i) * i - (int64_t(1) << 40);
  integers.launch({n.data(), counts.data()});

  CompiledKernel halves(manyOfColumns(1, rows, columns, "bf16"), GetParam());
  ASSERT_EQ(halves.getError(), "");
  std::vector<uint16_t> x, y(rows * columns);
  for (float value : randomFloats(rows * columns))
    x.push_back(toBF16(value));
  auto s = randomFloats(columns);
  std::vector<float> sums(columns), top(columns), mean(columns);
  halves.launch(
      {x.data(), s.data(), y.data(), sums.data(), top.data(), mean.data()});
  for (int64_t c = 0; c < columns; ++c) {
    int64_t count = 0;
    double sum = 0;
    for (int64_t r = 0; r < rows; ++r) {
      count += n[r * columns + c];
      sum += fromBF16(y[r * columns + c]);
    }
    EXPECT_EQ(counts[c], count) << c;
    EXPECT_NEAR(sums[c], sum, 1e-6 * (1 + std::fabs(sum))) << c;
  }
}

TEST_P(Reduction, StoresElementsBeforeAndAfterAColumnReduction) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<50x24xf32>) -> (tensor<50x24xbf16>, tensor<1x24xf32>, tensor<50x24xf32>)
        attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
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
        attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
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

/// A kernel that reduces `shape` in `parts` parts of an axis, by sum, mean and
/// maximum.
std::string sumOfParts(const std::string &kind, const std::string &input,
                       const std::string &output, int axis, int parts) {
  std::string attributes =
      " {axes = array<i64: " + std::to_string(axis) +
      ">, keepdims = true, parts = " + std::to_string(parts) + " : i64} : (" +
      input + ") -> " + output + "\n";
  return "func.func private @kernel(%x: " + input + ") -> (" + output + ", " +
         output + ", " + output + ") attributes {mpc.kernel = #mpc.kernel<" +
         kind + ">} {\n%0 = mpc.reduce_sum %x" + attributes +
         "%1 = mpc.reduce_mean %x" + attributes + "%2 = mpc.reduce_max %x" +
         attributes + "return %0, %1, %2 : " + output + ", " + output + ", " +
         output + "\n}";
}

// A chain of 65536 additions of 0.1 in f32 errs by a hundredth: as the sum
// grows, each term loses digits. Sums of blocks do not.
TEST_P(Reduction, AddsManyEqualTermsToSixDigits) {
  constexpr int64_t rows = 1 << 16;
  for (int64_t columns : {1, 2, 16, 40}) {
    std::string text =
        columns == 1
            ? sumOfParts("row_reduce", "tensor<1x65536xf32>", "tensor<1x1xf32>",
                         1, 1)
            : sumOfParts("column_reduce",
                         "tensor<65536x" + std::to_string(columns) + "xf32>",
                         "tensor<1x" + std::to_string(columns) + "xf32>", 0, 1);
    CompiledKernel kernel(text, GetParam());
    ASSERT_EQ(kernel.getError(), "");
    std::vector<float> x(rows * columns, 0.1f), sums(columns), means(columns),
        maxima(columns);
    kernel.launch({x.data(), sums.data(), means.data(), maxima.data()});
    for (int64_t c = 0; c < columns; ++c) {
      EXPECT_NEAR(sums[c], rows * double(0.1f), 1e-6 * rows * 0.1) << columns;
      EXPECT_NEAR(means[c], double(0.1f), 1e-7) << columns;
      EXPECT_EQ(maxima[c], 0.1f);
    }
  }
}

// Nested loops also make chains, if a broadcast operand separates the axes.
TEST_P(Reduction, AddsManyEqualTermsOverSeveralAxes) {
  for (std::string kind : {"row_reduce", "column_reduce"}) {
    bool isRow = kind == "row_reduce";
    std::string full =
        isRow ? "tensor<1x512x128xf32>" : "tensor<512x128x4xf32>";
    std::string scale = isRow ? "tensor<1x1x128xf32>" : "tensor<1x128x1xf32>";
    std::string out = isRow ? "tensor<1x1x1xf32>" : "tensor<1x1x4xf32>";
    std::string axes = isRow ? "1, 2" : "0, 1";
    CompiledKernel kernel(
        "func.func private @kernel(%x: " + full + ", %s: " + scale + ") -> " +
            out + " attributes {mpc.kernel = #mpc.kernel<" + kind +
            ">} {\n%0 = mpc.mul %x, %s : (" + full + ", " + scale + ") -> " +
            full + "\n%1 = mpc.reduce_sum %0 {axes = array<i64: " + axes +
            ">, keepdims = true} : (" + full + ") -> " + out +
            "\nreturn %1 : " + out + "\n}",
        GetParam());
    ASSERT_EQ(kernel.getError(), "");
    std::vector<float> x((isRow ? 1 : 4) << 16, 0.1f), s(128, 1.0f), y(4);
    kernel.launch({x.data(), s.data(), y.data()});
    for (int64_t c = 0; c < (isRow ? 1 : 4); ++c)
      EXPECT_NEAR(y[c], 65536 * double(0.1f), 1e-6 * 6553.6) << kind;
  }
}

TEST_P(Reduction, ReducesPartsOfAnAxis) {
  struct Shape {
    int64_t outer, parts, length, inner;
  };
  for (auto [outer, parts, length, inner] :
       {Shape{1, 4, 100, 1}, Shape{3, 5, 77, 1}, Shape{1, 8, 50, 3},
        Shape{2, 4, 33, 16}, Shape{1, 7, 90, 100}}) {
    std::string batch = "tensor<" + std::to_string(outer) + "x";
    std::string end =
        inner == 1 ? "xf32>" : "x" + std::to_string(inner) + "xf32>";
    CompiledKernel kernel(
        sumOfParts(inner == 1 ? "row_reduce" : "column_reduce",
                   batch + std::to_string(parts * length) + end,
                   batch + std::to_string(parts) + end, 1, parts),
        GetParam());
    ASSERT_EQ(kernel.getError(), "");
    auto x = randomFloats(outer * parts * length * inner);
    size_t count = outer * parts * inner;
    std::vector<float> sums(count), means(count), maxima(count);
    std::vector<void *> args = {x.data(), sums.data(), means.data(),
                                maxima.data()};
    kernel.launch(args);
    for (int64_t part = 0; part < outer * parts; ++part)
      for (int64_t i = 0; i < inner; ++i) {
        double sum = 0;
        float largest = -INFINITY;
        for (int64_t r = 0; r < length; ++r) {
          float value = x[(part * length + r) * inner + i];
          sum += value;
          largest = std::max(largest, value);
        }
        EXPECT_NEAR(sums[part * inner + i], sum, 2e-5);
        EXPECT_NEAR(means[part * inner + i], sum / length, 1e-6);
        EXPECT_EQ(maxima[part * inner + i], largest);
      }
    auto again = sums;
    args[1] = again.data();
    kernel.launch(args, /*backwards=*/true);
    EXPECT_EQ(again, sums);
  }
}

TEST_P(Reduction, StoresElementsOfPartsOnce) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<60x10xf32>, %b: tensor<60x1xf32>) -> (tensor<60x10xf32>, tensor<6x10xf32>)
        attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
      %0 = mpc.add %x, %b : (tensor<60x10xf32>, tensor<60x1xf32>) -> tensor<60x10xf32>
      %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true, parts = 6 : i64} : (tensor<60x10xf32>) -> tensor<6x10xf32>
      return %0, %1 : tensor<60x10xf32>, tensor<6x10xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(600), bias = randomFloats(60);
  std::vector<float> y(600), sums(60);
  kernel.launch({x.data(), bias.data(), y.data(), sums.data()});
  for (int64_t part = 0; part < 6; ++part)
    for (int64_t c = 0; c < 10; ++c) {
      double sum = 0;
      for (int64_t r = part * 10; r < part * 10 + 10; ++r) {
        EXPECT_EQ(y[r * 10 + c], x[r * 10 + c] + bias[r]);
        sum += y[r * 10 + c];
      }
      EXPECT_NEAR(sums[part * 10 + c], sum, 1e-5);
    }
}

// Tokens precede samples in one operand and follow them in the other.
TEST_P(Reduction, ReadsAndStoresRowsInAnyOrder) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<4x3x21xf32>) -> (tensor<3x4x1xf32>, tensor<4x3x21xf32>)
        attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
      %0 = mpc.transpose %x {perm = array<i64: 1, 0, 2>} : (tensor<4x3x21xf32>) -> tensor<3x4x21xf32>
      %1 = mpc.reduce_mean %0 {axes = array<i64: 2>, keepdims = true} : (tensor<3x4x21xf32>) -> tensor<3x4x1xf32>
      %2 = mpc.sub %0, %1 : (tensor<3x4x21xf32>, tensor<3x4x1xf32>) -> tensor<3x4x21xf32>
      %3 = mpc.transpose %2 {perm = array<i64: 1, 0, 2>} : (tensor<3x4x21xf32>) -> tensor<4x3x21xf32>
      return %1, %3 : tensor<3x4x1xf32>, tensor<4x3x21xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(252);
  std::vector<float> means(12), y(252);
  kernel.launch({x.data(), means.data(), y.data()});
  for (int token = 0; token < 4; ++token)
    for (int sample = 0; sample < 3; ++sample) {
      const float *row = &x[(token * 3 + sample) * 21];
      double mean = 0;
      for (int c = 0; c < 21; ++c)
        mean += row[c] / 21.0;
      EXPECT_NEAR(means[sample * 4 + token], mean, 1e-6);
      for (int c = 0; c < 21; ++c)
        EXPECT_NEAR(y[(token * 3 + sample) * 21 + c], row[c] - mean, 1e-6);
    }
}

} // namespace
} // namespace mpc::test
