// Tests kernels over rows that also sum columns, against float64.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mpc::test {
namespace {

class ColumnSums : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(CPUs, ColumnSums, testing::ValuesIn(runnableCPUs()));

/// `outer` samples of `rows` rows of `columns` elements. Each sample is summed
/// in `parts` parts.
struct Shape {
  int64_t outer, rows, columns, parts;

  std::string type(int64_t r, int64_t c, const std::string &element) const {
    return "tensor<" + std::to_string(outer) + "x" + std::to_string(r) + "x" +
           std::to_string(c) + "x" + element + ">";
  }
};

/// A kernel that stores x minus the mean of its row, and the means. It also
/// computes each column's sum and maximum of these differences and the mean of
/// their squares.
std::string centerRows(const Shape &shape, const std::string &element,
                       const std::string &sum = "f32") {
  std::string full = shape.type(shape.rows, shape.columns, element);
  std::string mean = shape.type(shape.rows, 1, sum);
  std::string part = shape.type(shape.parts, shape.columns, sum);
  std::string axes = " {axes = array<i64: 1>, keepdims = true, parts = " +
                     std::to_string(shape.parts) + " : i64} : (" + full +
                     ") -> " + part + "\n";
  return "func.func private @kernel(%x: " + full + ") -> (" + full + ", " +
         mean + ", " + part + ", " + part + ", " + part +
         ") attributes {mpc.kernel = #mpc.kernel<row_reduce>} {\n"
         "%0 = mpc.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : (" +
         full + ") -> " + mean + "\n%1 = mpc.sub %x, %0 : (" + full + ", " +
         mean + ") -> " + full + "\n%2 = mpc.mul %1, %1 : (" + full + ", " +
         full + ") -> " + full + "\n%3 = mpc.reduce_sum %1" + axes +
         "%4 = mpc.reduce_max %1" + axes + "%5 = mpc.reduce_mean %2" + axes +
         "return %1, %0, %3, %4, %5 : " + full + ", " + mean + ", " + part +
         ", " + part + ", " + part + "\n}";
}

// Numbers of columns with and without a remainder, numbers of rows with and
// without a partial band, one part per sample and several.
TEST_P(ColumnSums, AreThoseOfWhatTheRowsAre) {
  for (const Shape &shape : {Shape{8, 64, 768, 2}, Shape{3, 90, 100, 2},
                             Shape{8, 35, 33, 1}, Shape{1, 160, 7, 5}}) {
    auto [outer, rows, columns, parts] = shape;
    CompiledKernel kernel(centerRows(shape, "f32"), GetParam());
    ASSERT_EQ(kernel.getError(), "") << columns;
    // A slice is one part, or several.
    EXPECT_EQ(kernel.getPartition().extent, outer * rows);
    EXPECT_EQ(kernel.getPartition().grain % (rows / parts), 0) << columns;
    auto x = randomFloats(outer * rows * columns);
    std::vector<float> y(x.size()), means(outer * rows),
        sums(outer * parts * columns), top(sums), squares(sums);
    std::vector<void *> args = {x.data(),    y.data(),   means.data(),
                                sums.data(), top.data(), squares.data()};
    kernel.launch(args);
    int64_t length = rows / parts;
    for (int64_t part = 0; part < outer * parts; ++part)
      for (int64_t c = 0; c < columns; ++c) {
        double sum = 0, square = 0;
        float largest = -INFINITY;
        for (int64_t row = part * length; row < (part + 1) * length; ++row) {
          float value = y[row * columns + c];
          ASSERT_NEAR(value, x[row * columns + c] - means[row], 1e-6);
          sum += value;
          square += double(value) * value;
          largest = std::max(largest, value);
        }
        int64_t at = part * columns + c;
        // Bands of 8 terms, each at most 4.
        ASSERT_NEAR(sums[at], sum, 1e-5) << columns << " " << at;
        ASSERT_NEAR(squares[at], square / length, 1e-5) << columns;
        ASSERT_EQ(top[at], largest) << columns;
      }
    // Slices in any order give the same bits.
    auto again = sums;
    args[3] = again.data();
    kernel.launch(args, /*backwards=*/true);
    EXPECT_EQ(again, sums) << columns;
  }
}

TEST_P(ColumnSums, AreOfValuesAsTheyAreStored) {
  Shape shape{4, 32, 72, 1};
  CompiledKernel kernel(centerRows(shape, "bf16"), GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<uint16_t> x, y(4 * 32 * 72);
  for (float value : randomFloats(y.size()))
    x.push_back(toBF16(value));
  std::vector<float> means(4 * 32), sums(4 * 72), top(sums), squares(sums);
  kernel.launch({x.data(), y.data(), means.data(), sums.data(), top.data(),
                 squares.data()});
  for (int64_t part = 0; part < 4; ++part)
    for (int64_t c = 0; c < 72; ++c) {
      double sum = 0;
      for (int64_t row = part * 32; row < (part + 1) * 32; ++row)
        sum += fromBF16(y[row * 72 + c]);
      EXPECT_NEAR(sums[part * 72 + c], sum, 1e-5);
    }
}

TEST_P(ColumnSums, OfDoublesAreDoubles) {
  Shape shape{2, 70, 40, 1};
  CompiledKernel kernel(centerRows(shape, "f64", "f64"), GetParam());
  ASSERT_EQ(kernel.getError(), "");
  std::vector<double> x, y(2 * 70 * 40), means(2 * 70), sums(2 * 40), top(sums),
      squares(sums);
  for (float value : randomFloats(y.size()))
    x.push_back(value / 3.0);
  kernel.launch({x.data(), y.data(), means.data(), sums.data(), top.data(),
                 squares.data()});
  for (int64_t part = 0; part < 2; ++part)
    for (int64_t c = 0; c < 40; ++c) {
      double sum = 0;
      for (int64_t row = part * 70; row < (part + 1) * 70; ++row)
        sum += y[row * 40 + c];
      EXPECT_NEAR(sums[part * 40 + c], sum, 1e-13);
    }
}

// Sums of 65536 times 0.1: bands of rows are added to f64 totals.
TEST_P(ColumnSums, AddManyEqualTermsToSixDigits) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<2x65536x8xf32>) -> (tensor<2x65536x1xf32>, tensor<2x1x8xf32>)
        attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
      %0 = mpc.reduce_max %x {axes = array<i64: 2>, keepdims = true} : (tensor<2x65536x8xf32>) -> tensor<2x65536x1xf32>
      %1 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (tensor<2x65536x8xf32>) -> tensor<2x1x8xf32>
      return %0, %1 : tensor<2x65536x1xf32>, tensor<2x1x8xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  constexpr int64_t rows = 1 << 16;
  std::vector<float> x(2 * rows * 8, 0.1f), top(2 * rows), sums(2 * 8);
  kernel.launch({x.data(), top.data(), sums.data()});
  for (float sum : sums)
    EXPECT_NEAR(sum, rows * double(0.1f), 1e-6 * rows * 0.1);
}

/// A separate kernel that sums x, of wide rows.
std::string addUp(const Shape &shape, const std::string &element,
                  const std::string &sum) {
  std::string full = shape.type(shape.rows, shape.columns, element);
  std::string part = shape.type(shape.parts, shape.columns, sum);
  return "func.func private @kernel(%x: " + full + ") -> " + part +
         " attributes {mpc.kernel = #mpc.kernel<column_reduce>} {\n"
         "%0 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true, parts "
         "= " +
         std::to_string(shape.parts) + " : i64} : (" + full + ") -> " + part +
         "\nreturn %0 : " + part + "\n}";
}

// Fusing sums into a kernel over rows does not change their bits.
TEST_P(ColumnSums, HaveTheBitsThatAKernelOfTheirOwnGives) {
  for (const Shape &shape : {Shape{8, 50, 768, 1}, Shape{1, 256, 801, 4}}) {
    CompiledKernel beside(centerRows(shape, "f32"), GetParam());
    CompiledKernel alone(addUp(shape, "f32", "f32"), GetParam());
    ASSERT_EQ(beside.getError() + alone.getError(), "");
    auto x = randomFloats(shape.outer * shape.rows * shape.columns);
    std::vector<float> y(x.size()), means(shape.outer * shape.rows),
        sums(shape.outer * shape.parts * shape.columns), top(sums),
        squares(sums), expected(sums);
    beside.launch({x.data(), y.data(), means.data(), sums.data(), top.data(),
                   squares.data()});
    alone.launch({y.data(), expected.data()});
    EXPECT_EQ(sums, expected) << shape.columns;
  }
}

// The totals of doubles are no wider than their sums.
TEST_P(ColumnSums, OfDoublesHaveTheBitsThatAKernelOfTheirOwnGives) {
  Shape shape{8, 37, 800, 1};
  CompiledKernel beside(centerRows(shape, "f64", "f64"), GetParam());
  CompiledKernel alone(addUp(shape, "f64", "f64"), GetParam());
  ASSERT_EQ(beside.getError() + alone.getError(), "");
  std::vector<double> x, y(8 * 37 * 800), means(8 * 37), sums(8 * 800),
      top(sums), squares(sums), expected(sums);
  for (float value : randomFloats(y.size()))
    x.push_back(value / 3.0);
  beside.launch({x.data(), y.data(), means.data(), sums.data(), top.data(),
                 squares.data()});
  alone.launch({y.data(), expected.data()});
  EXPECT_EQ(sums, expected);
}

// An operand separates the axes of a row, another has one value per row, and
// only a sum reads the values computed from them.
TEST_P(ColumnSums, AreOfRowsOfSeveralAxes) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<4x8x6x10xf32>, %s: tensor<6x1xf32>) -> (tensor<4x8x1x1xf32>, tensor<4x1x6x10xf32>, tensor<4x1x6x10xf32>)
        attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
      %0 = mpc.reduce_sum %x {axes = array<i64: 2, 3>, keepdims = true} : (tensor<4x8x6x10xf32>) -> tensor<4x8x1x1xf32>
      %1 = mpc.mul %x, %s : (tensor<4x8x6x10xf32>, tensor<6x1xf32>) -> tensor<4x8x6x10xf32>
      %2 = mpc.add %1, %0 : (tensor<4x8x6x10xf32>, tensor<4x8x1x1xf32>) -> tensor<4x8x6x10xf32>
      %3 = mpc.reduce_sum %2 {axes = array<i64: 1>, keepdims = true} : (tensor<4x8x6x10xf32>) -> tensor<4x1x6x10xf32>
      %4 = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : (tensor<4x8x6x10xf32>) -> tensor<4x1x6x10xf32>
      return %0, %3, %4 : tensor<4x8x1x1xf32>, tensor<4x1x6x10xf32>, tensor<4x1x6x10xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(4 * 8 * 60), s = randomFloats(6);
  std::vector<float> rows(4 * 8), scaled(4 * 60), sums(4 * 60);
  kernel.launch({x.data(), s.data(), rows.data(), scaled.data(), sums.data()});
  for (int64_t part = 0; part < 4; ++part)
    for (int64_t c = 0; c < 60; ++c) {
      double product = 0, sum = 0;
      for (int64_t row = part * 8; row < (part + 1) * 8; ++row) {
        product += double(x[row * 60 + c]) * s[c / 10] + rows[row];
        sum += x[row * 60 + c];
      }
      EXPECT_NEAR(scaled[part * 60 + c], product, 1e-4);
      EXPECT_NEAR(sums[part * 60 + c], sum, 1e-5);
    }
}

// The kernel's only result is a sum, which needs two reductions of a row.
TEST_P(ColumnSums, NeedNoResultOfTheRows) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<8x20x70xf32>) -> tensor<8x1x70xf32>
        attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
      %0 = mpc.reduce_max %x {axes = array<i64: 2>, keepdims = true} : (tensor<8x20x70xf32>) -> tensor<8x20x1xf32>
      %1 = mpc.sub %x, %0 : (tensor<8x20x70xf32>, tensor<8x20x1xf32>) -> tensor<8x20x70xf32>
      %2 = mpc.exp %1 : (tensor<8x20x70xf32>) -> tensor<8x20x70xf32>
      %3 = mpc.reduce_sum %2 {axes = array<i64: 2>, keepdims = true} : (tensor<8x20x70xf32>) -> tensor<8x20x1xf32>
      %4 = mpc.div %2, %3 : (tensor<8x20x70xf32>, tensor<8x20x1xf32>) -> tensor<8x20x70xf32>
      %5 = mpc.reduce_sum %4 {axes = array<i64: 1>, keepdims = true} : (tensor<8x20x70xf32>) -> tensor<8x1x70xf32>
      return %5 : tensor<8x1x70xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(8 * 20 * 70);
  std::vector<float> sums(8 * 70);
  kernel.launch({x.data(), sums.data()});
  std::vector<double> expected(8 * 70);
  for (int64_t row = 0; row < 8 * 20; ++row) {
    double total = 0;
    for (int64_t c = 0; c < 70; ++c)
      total += std::exp(x[row * 70 + c]);
    for (int64_t c = 0; c < 70; ++c)
      expected[row / 20 * 70 + c] += std::exp(x[row * 70 + c]) / total;
  }
  for (size_t i = 0; i < sums.size(); ++i)
    EXPECT_NEAR(sums[i], expected[i], 1e-6) << i;
}

} // namespace
} // namespace mpc::test
