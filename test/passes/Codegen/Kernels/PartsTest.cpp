// Tests kernels that load parts of rows, or store parts of rows or reordered
// rows, against plain loops.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/KernelHarness.h"

#include <cmath>
#include <gtest/gtest.h>

namespace mpc::test {
namespace {

class LoadedParts : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, LoadedParts,
                         testing::ValuesIn(runnableTargets()));

/// Two parts of every row that begin inside a vector, and a part of a row that
/// is the same for all.
TEST_P(LoadedParts, AreReadByElementwiseOps) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<5x3x45xf32>, %z: tensor<40xf32>) -> tensor<5x3x21xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.slice %x {offsets = array<i64: 0, 0, 3>, sizes = array<i64: 5, 3, 21>} : (tensor<5x3x45xf32>) -> tensor<5x3x21xf32>
      %1 = mpc.slice %x {offsets = array<i64: 0, 0, 24>, sizes = array<i64: 5, 3, 21>} : (tensor<5x3x45xf32>) -> tensor<5x3x21xf32>
      %2 = mpc.slice %z {offsets = array<i64: 7>, sizes = array<i64: 21>} : (tensor<40xf32>) -> tensor<21xf32>
      %3 = mpc.mul %0, %1 : (tensor<5x3x21xf32>, tensor<5x3x21xf32>) -> tensor<5x3x21xf32>
      %4 = mpc.add %3, %2 : (tensor<5x3x21xf32>, tensor<21xf32>) -> tensor<5x3x21xf32>
      return %4 : tensor<5x3x21xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(5 * 3 * 45), z = randomFloats(40);
  std::vector<float> y(5 * 3 * 21);
  kernel.launch({x.data(), z.data(), y.data()});
  for (int64_t row = 0; row < 15; ++row)
    for (int64_t column = 0; column < 21; ++column) {
      const float *from = &x[row * 45 + column];
      EXPECT_NEAR(y[row * 21 + column], from[3] * from[24] + z[column + 7],
                  1e-6)
          << row << " " << column;
    }
}

/// Rows 2 to 5 and all columns of (4, 6, 32) bf16 numbers. Two axes are
/// contiguous in memory, and the first rows of every sample are left out.
TEST_P(LoadedParts, MayBeWholeRows) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<4x6x32xbf16>, %w: tensor<4x4x32xf32>) -> tensor<4x4x32xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.slice %x {offsets = array<i64: 0, 2, 0>, sizes = array<i64: 4, 4, 32>} : (tensor<4x6x32xbf16>) -> tensor<4x4x32xbf16>
      %1 = mpc.mul %0, %w : (tensor<4x4x32xbf16>, tensor<4x4x32xf32>) -> tensor<4x4x32xf32>
      return %1 : tensor<4x4x32xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto w = randomFloats(4 * 4 * 32), values = randomFloats(4 * 6 * 32);
  std::vector<uint16_t> x;
  for (float value : values)
    x.push_back(toBF16(value));
  std::vector<float> y(4 * 4 * 32);
  kernel.launch({x.data(), w.data(), y.data()});
  for (int64_t sample = 0; sample < 4; ++sample)
    for (int64_t i = 0; i < 4 * 32; ++i)
      EXPECT_EQ(y[sample * 128 + i],
                fromBF16(x[sample * 192 + 64 + i]) * w[sample * 128 + i])
          << sample << " " << i;
}

/// A part of a row is reduced like a whole tensor.
TEST_P(LoadedParts, AreReduced) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<9x150xf32>) -> (tensor<9x1xf32>, tensor<9x70xf32>)
        attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
      %0 = mpc.slice %x {offsets = array<i64: 0, 75>, sizes = array<i64: 9, 70>} : (tensor<9x150xf32>) -> tensor<9x70xf32>
      %1 = mpc.exp %0 : (tensor<9x70xf32>) -> tensor<9x70xf32>
      %2 = mpc.reduce_sum %1 {axes = array<i64: 1>, keepdims = true} : (tensor<9x70xf32>) -> tensor<9x1xf32>
      %3 = mpc.div %1, %2 : (tensor<9x70xf32>, tensor<9x1xf32>) -> tensor<9x70xf32>
      return %2, %3 : tensor<9x1xf32>, tensor<9x70xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(9 * 150);
  std::vector<float> sums(9), y(9 * 70);
  kernel.launch({x.data(), sums.data(), y.data()});
  for (int64_t row = 0; row < 9; ++row) {
    const float *part = &x[row * 150 + 75];
    double sum = 0;
    for (int64_t column = 0; column < 70; ++column)
      sum += std::exp(double(part[column]));
    EXPECT_NEAR(sums[row], sum, 1e-6 * sum);
    for (int64_t column = 0; column < 70; ++column)
      EXPECT_NEAR(y[row * 70 + column], std::exp(part[column]) / sum, 1e-6);
  }
}

/// One index covers the elements that are contiguous in every operand: for two
/// parts of rows, a row of 24, however short.
TEST(LoadedPartsPartition, KeepsRowsApart) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<8x6x48xf32>, %y: tensor<8x6x24xf32>) -> tensor<8x6x24xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.slice %x {offsets = array<i64: 0, 0, 24>, sizes = array<i64: 8, 6, 24>} : (tensor<8x6x48xf32>) -> tensor<8x6x24xf32>
      %1 = mpc.add %0, %y : (tensor<8x6x24xf32>, tensor<8x6x24xf32>) -> tensor<8x6x24xf32>
      return %1 : tensor<8x6x24xf32>
    })");
  ASSERT_EQ(kernel.getError(), "");
  EXPECT_EQ(kernel.getPartition().extent, 48);
  EXPECT_EQ(kernel.getPartition().inner, 24);
}

class StoredParts : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, StoredParts,
                         testing::ValuesIn(runnableTargets()));

static const char kGatedUnit[] = R"(
    func.func private @kernel(%dy: tensor<6x21xf32>, %h: tensor<6x42xf32>) -> (tensor<6x42xf32>, tensor<6x21xf32>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %u = mpc.slice %h {offsets = array<i64: 0, 0>, sizes = array<i64: 6, 21>} : (tensor<6x42xf32>) -> tensor<6x21xf32>
      %v = mpc.slice %h {offsets = array<i64: 0, 21>, sizes = array<i64: 6, 21>} : (tensor<6x42xf32>) -> tensor<6x21xf32>
      %du = mpc.mul %dy, %v : (tensor<6x21xf32>, tensor<6x21xf32>) -> tensor<6x21xf32>
      %dv = mpc.mul %dy, %u : (tensor<6x21xf32>, tensor<6x21xf32>) -> tensor<6x21xf32>
      %dh = mpc.concat %du, %dv {axis = 1} : (tensor<6x21xf32>, tensor<6x21xf32>) -> tensor<6x42xf32>
      %s = mpc.add %du, %dv : (tensor<6x21xf32>, tensor<6x21xf32>) -> tensor<6x21xf32>
      return %dh, %s : tensor<6x42xf32>, tensor<6x21xf32>
    })";

/// The gradients of both halves of rows are side by side, in separate memory
/// and in the halves' memory.
TEST_P(StoredParts, LieSideBySide) {
  CompiledKernel kernel(kGatedUnit, GetParam());
  ASSERT_EQ(kernel.getError(), "");
  EXPECT_EQ(kernel.getPartition().inner, 21);
  auto dy = randomFloats(6 * 21), h = randomFloats(6 * 42), inPlace = h;
  std::vector<float> dh(6 * 42), sum(6 * 21);
  kernel.launch({dy.data(), h.data(), dh.data(), sum.data()});
  kernel.launch({dy.data(), inPlace.data(), inPlace.data(), sum.data()});
  for (int64_t row = 0; row < 6; ++row)
    for (int64_t column = 0; column < 21; ++column) {
      const float *from = &h[row * 42 + column], *to = &dh[row * 42 + column];
      const float gradient = dy[row * 21 + column];
      EXPECT_EQ(to[0], gradient * from[21]) << row << " " << column;
      EXPECT_EQ(to[21], gradient * from[0]) << row << " " << column;
      EXPECT_EQ(sum[row * 21 + column], to[0] + to[21]);
    }
  EXPECT_EQ(inPlace, dh);
}

/// Results are stored, and operands read, with rows in another order: heads
/// before tokens, as an attention needs them.
TEST_P(StoredParts, MayBeRowsInAnyOrder) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<2x5x3x17xf32>, %b: tensor<3x17xf32>, %y: tensor<2x3x5x17xf32>) -> (tensor<2x3x5x17xf32>, tensor<2x5x3x17xf32>)
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.transpose %y {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x5x17xf32>) -> tensor<2x5x3x17xf32>
      %1 = mpc.add %x, %b : (tensor<2x5x3x17xf32>, tensor<3x17xf32>) -> tensor<2x5x3x17xf32>
      %2 = mpc.mul %1, %0 : (tensor<2x5x3x17xf32>, tensor<2x5x3x17xf32>) -> tensor<2x5x3x17xf32>
      %3 = mpc.transpose %2 {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x5x3x17xf32>) -> tensor<2x3x5x17xf32>
      return %3, %1 : tensor<2x3x5x17xf32>, tensor<2x5x3x17xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(510), b = randomFloats(51), y = randomFloats(510);
  std::vector<float> products(510), sums(510);
  kernel.launch({x.data(), b.data(), y.data(), products.data(), sums.data()});
  for (int n = 0; n < 2; ++n)
    for (int t = 0; t < 5; ++t)
      for (int h = 0; h < 3; ++h)
        for (int c = 0; c < 17; ++c) {
          int token = ((n * 5 + t) * 3 + h) * 17 + c;
          int head = ((n * 3 + h) * 5 + t) * 17 + c;
          float sum = x[token] + b[h * 17 + c];
          EXPECT_EQ(sums[token], sum);
          EXPECT_EQ(products[head], sum * y[head]);
        }
}

/// Without a broadcast operand, a single loop would cover all elements.
TEST_P(StoredParts, MayBeRowsOfWhatIsNotBroadcast) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<4x6x32xf32>) -> tensor<6x4x32xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.neg %x : (tensor<4x6x32xf32>) -> tensor<4x6x32xf32>
      %1 = mpc.transpose %0 {perm = array<i64: 1, 0, 2>} : (tensor<4x6x32xf32>) -> tensor<6x4x32xf32>
      return %1 : tensor<6x4x32xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(768);
  std::vector<float> y(768);
  kernel.launch({x.data(), y.data()});
  for (int i = 0; i < 4; ++i)
    for (int j = 0; j < 6; ++j)
      for (int c = 0; c < 32; ++c)
        EXPECT_EQ(y[(j * 4 + i) * 32 + c], -x[(i * 6 + j) * 32 + c]);
}

/// Stores a box of heads, in the order of tokens, between other heads. The
/// memory around the box stays unchanged.
TEST_P(StoredParts, MayBeABoxOfALargerTensor) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<2x3x5x16xf32>) -> tensor<2x5x7x16xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.neg %x : (tensor<2x3x5x16xf32>) -> tensor<2x3x5x16xf32>
      %1 = mpc.transpose %0 {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x3x5x16xf32>) -> tensor<2x5x3x16xf32>
      %2 = plan.place %1 {offsets = array<i64: 0, 0, 2, 0>} : tensor<2x5x3x16xf32> to tensor<2x5x7x16xf32>
      return %2 : tensor<2x5x7x16xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(480);
  std::vector<float> y(1120, -9);
  kernel.launch({x.data(), y.data()});
  for (int n = 0; n < 2; ++n)
    for (int t = 0; t < 5; ++t)
      for (int h = 0; h < 7; ++h)
        for (int c = 0; c < 16; ++c)
          EXPECT_EQ(y[((n * 5 + t) * 7 + h) * 16 + c],
                    h >= 2 && h < 5 ? -x[((n * 3 + h - 2) * 5 + t) * 16 + c]
                                    : -9)
              << n << " " << t << " " << h << " " << c;
}

/// The columns follow others, at a distance that is not a multiple of a vector.
TEST_P(StoredParts, MayBeColumnsBehindOthers) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<6x33xf32>, %b: tensor<33xf32>) -> tensor<6x50xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.add %x, %b : (tensor<6x33xf32>, tensor<33xf32>) -> tensor<6x33xf32>
      %1 = plan.place %0 {offsets = array<i64: 0, 7>} : tensor<6x33xf32> to tensor<6x50xf32>
      return %1 : tensor<6x50xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(198), b = randomFloats(33);
  std::vector<float> y(300, -9);
  kernel.launch({x.data(), b.data(), y.data()});
  for (int row = 0; row < 6; ++row)
    for (int column = 0; column < 50; ++column)
      EXPECT_EQ(y[row * 50 + column],
                column >= 7 && column < 40
                    ? x[row * 33 + column - 7] + b[column - 7]
                    : -9)
          << row << " " << column;
}

/// A generated product makes the heads.
TEST_P(StoredParts, MayBeABoxThatAProductMakes) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<3x40x24xf32>, %w: tensor<3x24x16xf32>) -> tensor<40x8x16xf32>
        attributes {mpc.kernel = #mpc.kernel<contraction>} {
      %0 = mpc.matmul %x, %w : (tensor<3x40x24xf32>, tensor<3x24x16xf32>) -> tensor<3x40x16xf32>
      %1 = mpc.transpose %0 {perm = array<i64: 1, 0, 2>} : (tensor<3x40x16xf32>) -> tensor<40x3x16xf32>
      %2 = plan.place %1 {offsets = array<i64: 0, 4, 0>} : tensor<40x3x16xf32> to tensor<40x8x16xf32>
      return %2 : tensor<40x8x16xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto x = randomFloats(2880), w = randomFloats(1152);
  std::vector<float> y(5120, -9);
  kernel.launch({x.data(), w.data(), y.data()});
  for (int row = 0; row < 40; ++row)
    for (int h = 0; h < 8; ++h)
      for (int c = 0; c < 16; ++c) {
        double sum = -9;
        if (h >= 4 && h < 7) {
          sum = 0;
          for (int k = 0; k < 24; ++k)
            sum += double(x[((h - 4) * 40 + row) * 24 + k]) *
                   w[((h - 4) * 24 + k) * 16 + c];
        }
        EXPECT_NEAR(y[(row * 8 + h) * 16 + c], sum, 1e-4)
            << row << " " << h << " " << c;
      }
}

class PaddedRows : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Targets, PaddedRows,
                         testing::ValuesIn(runnableTargets()));

/// Returns rows of 259 floats, 264 apart, with NaN behind each: kernels must
/// not read the padding as values.
std::vector<float> padRows(const std::vector<float> &rows) {
  std::vector<float> padded;
  for (size_t i = 0; i < rows.size(); i += 259) {
    padded.insert(padded.end(), &rows[i], &rows[i] + 259);
    padded.insert(padded.end(), 5, NAN);
  }
  return padded;
}

/// A softmax of padded scores, and its gradient with padded rows, in vectors
/// and a few single elements per row. The padding stays unchanged.
TEST_P(PaddedRows, AreReducedAndStored) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<7x264xf32>) -> (tensor<7x1xf32>, tensor<7x264xbf16>)
        attributes {mpc.kernel = #mpc.kernel<row_reduce>} {
      %0 = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 7, 259>} : (tensor<7x264xf32>) -> tensor<7x259xf32>
      %1 = mpc.exp %0 : (tensor<7x259xf32>) -> tensor<7x259xf32>
      %2 = mpc.reduce_sum %1 {axes = array<i64: 1>, keepdims = true} : (tensor<7x259xf32>) -> tensor<7x1xf32>
      %3 = mpc.div %1, %2 : (tensor<7x259xf32>, tensor<7x1xf32>) -> tensor<7x259xf32>
      %4 = amp.cast %3 : (tensor<7x259xf32>) -> tensor<7x259xbf16>
      %5 = plan.place %4 : tensor<7x259xbf16> to tensor<7x264xbf16>
      return %2, %5 : tensor<7x1xf32>, tensor<7x264xbf16>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto rows = randomFloats(7 * 259), x = padRows(rows);
  std::vector<float> sums(7);
  std::vector<uint16_t> y(7 * 264, 0xffff);
  kernel.launch({x.data(), sums.data(), y.data()});
  for (int64_t row = 0; row < 7; ++row) {
    double sum = 0;
    for (int64_t column = 0; column < 259; ++column)
      sum += std::exp(double(rows[row * 259 + column]));
    EXPECT_NEAR(sums[row], sum, 1e-3);
    for (int64_t column = 0; column < 259; ++column)
      EXPECT_NEAR(fromBF16(y[row * 264 + column]),
                  std::exp(double(rows[row * 259 + column])) / sum, 1e-4)
          << row << " " << column;
    for (int64_t column = 259; column < 264; ++column)
      EXPECT_EQ(y[row * 264 + column], 0xffff) << row << " " << column;
  }
}

/// An elementwise kernel adds one row to all. Samples, and rows within them,
/// have equal padding.
TEST_P(PaddedRows, AreReadAndStoredByElementwiseOps) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<2x4x264xf32>, %b: tensor<259xf32>) -> tensor<2x4x264xf32>
        attributes {mpc.kernel = #mpc.kernel<pointwise>} {
      %0 = mpc.slice %x {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 2, 4, 259>} : (tensor<2x4x264xf32>) -> tensor<2x4x259xf32>
      %1 = mpc.add %0, %b : (tensor<2x4x259xf32>, tensor<259xf32>) -> tensor<2x4x259xf32>
      %2 = plan.place %1 : tensor<2x4x259xf32> to tensor<2x4x264xf32>
      return %2 : tensor<2x4x264xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto rows = randomFloats(8 * 259), b = randomFloats(259);
  auto x = padRows(rows);
  std::vector<float> y(8 * 264, -9);
  kernel.launch({x.data(), b.data(), y.data()});
  for (int64_t row = 0; row < 8; ++row)
    for (int64_t column = 0; column < 264; ++column)
      EXPECT_EQ(y[row * 264 + column],
                column < 259 ? rows[row * 259 + column] + b[column] : -9)
          << row << " " << column;
}

/// Column sums exclude the padding of rows.
TEST_P(PaddedRows, AreSummedByColumns) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%x: tensor<50x264xf32>) -> tensor<1x259xf32>
        attributes {mpc.kernel = #mpc.kernel<column_reduce>} {
      %0 = mpc.slice %x {offsets = array<i64: 0, 0>, sizes = array<i64: 50, 259>} : (tensor<50x264xf32>) -> tensor<50x259xf32>
      %1 = mpc.reduce_sum %0 {axes = array<i64: 0>, keepdims = true} : (tensor<50x259xf32>) -> tensor<1x259xf32>
      return %1 : tensor<1x259xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto rows = randomFloats(50 * 259), x = padRows(rows);
  std::vector<float> y(259);
  kernel.launch({x.data(), y.data()});
  for (int64_t column = 0; column < 259; ++column) {
    double sum = 0;
    for (int64_t row = 0; row < 50; ++row)
      sum += rows[row * 259 + column];
    EXPECT_NEAR(y[column], sum, 1e-4) << column;
  }
}

class TileAndPart : public testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(CPUs, TileAndPart, testing::ValuesIn(runnableCPUs()));

/// The product's epilogue reads a part of each row of another tensor.
TEST_P(TileAndPart, FollowAProduct) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%acc: tensor<6x50xf32>, %g: tensor<6x120xf32>) -> tensor<6x50xf32>
        attributes {mpc.kernel = #mpc.kernel<epilogue>} {
      %0 = mpc.slice %g {offsets = array<i64: 0, 61>, sizes = array<i64: 6, 50>} : (tensor<6x120xf32>) -> tensor<6x50xf32>
      %1 = mpc.mul %acc, %0 : (tensor<6x50xf32>, tensor<6x50xf32>) -> tensor<6x50xf32>
      return %1 : tensor<6x50xf32>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto tile = randomFloats(4 * 64), g = randomFloats(6 * 120);
  std::vector<float> y(300, -9);
  kernel.runTile({tile.data(), g.data(), y.data()}, 2, 5, 8, 45, 64);
  for (int64_t row = 0; row < 6; ++row)
    for (int64_t column = 0; column < 50; ++column) {
      bool isInTile = row >= 2 && row < 5 && column >= 8 && column < 45;
      float expected = isInTile ? tile[(row - 2) * 64 + column - 8] *
                                      g[row * 120 + 61 + column]
                                : -9;
      EXPECT_EQ(y[row * 50 + column], expected) << row << " " << column;
    }
}

/// The epilogue stores the gradients of both halves of rows side by side.
TEST_P(TileAndPart, StoreAJoin) {
  CompiledKernel kernel(R"(
    func.func private @kernel(%acc: tensor<6x50xf32>, %u: tensor<6x50xf32>) -> tensor<6x100xbf16>
        attributes {mpc.kernel = #mpc.kernel<epilogue>} {
      %0 = mpc.mul %acc, %u : (tensor<6x50xf32>, tensor<6x50xf32>) -> tensor<6x50xbf16>
      %1 = mpc.add %acc, %u : (tensor<6x50xf32>, tensor<6x50xf32>) -> tensor<6x50xbf16>
      %2 = mpc.concat %0, %1 {axis = 1} : (tensor<6x50xbf16>, tensor<6x50xbf16>) -> tensor<6x100xbf16>
      return %2 : tensor<6x100xbf16>
    })",
                        GetParam());
  ASSERT_EQ(kernel.getError(), "");
  auto tile = randomFloats(4 * 64), u = randomFloats(6 * 50);
  std::vector<uint16_t> y(600, 0xffff);
  kernel.runTile({tile.data(), u.data(), y.data()}, 2, 5, 8, 45, 64);
  for (int64_t row = 0; row < 6; ++row)
    for (int64_t column = 0; column < 50; ++column) {
      bool isInTile = row >= 2 && row < 5 && column >= 8 && column < 45;
      float a = isInTile ? tile[(row - 2) * 64 + column - 8] : 0;
      float b = u[row * 50 + column];
      EXPECT_EQ(y[row * 100 + column], isInTile ? toBF16(a * b) : 0xffff);
      EXPECT_EQ(y[row * 100 + 50 + column], isInTile ? toBF16(a + b) : 0xffff);
    }
}

} // namespace
} // namespace mpc::test
