// Tests the shapes of heroes, reduced to a few axes.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/KernelSpace.h"

#include "test/compiler/OneOp.h"

#include <array>
#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
using Extents3 = std::array<int64_t, 3>;

// Outer, reduced and inner extents; zeros if the axes are not adjacent.
Extents3 reduceAxes(ArrayRef<int64_t> shape, ArrayRef<int64_t> axes) {
  std::optional<ReductionSpace> space = getReductionSpace(shape, axes);
  return space ? Extents3{space->outer, space->reduced, space->inner}
               : Extents3{};
}
} // namespace

TEST(KernelSpaceTest, AdjacentAxesAreReduced) {
  EXPECT_EQ(reduceAxes({2, 3, 4}, {1}), (Extents3{2, 3, 4}));
  EXPECT_EQ(reduceAxes({2, 3, 4}, {1, 2}), (Extents3{2, 12, 1}));
  EXPECT_EQ(reduceAxes({2, 3, 4}, {0, 2}), Extents3{});
  // Axes of size 1 do not count.
  EXPECT_EQ(reduceAxes({2, 1, 4}, {0, 2}), (Extents3{1, 8, 1}));
}

TEST(KernelSpaceTest, SharedOperandsMakeBatchesRows) {
  OneOp shared("%x: tensor<5x2x3xf32>, %w: tensor<3x4xf32>",
               "%r = mpc.matmul %x, %w : (tensor<5x2x3xf32>, tensor<3x4xf32>) "
               "-> tensor<5x2x4xf32>");
  ProductExtents extents = getProductExtents(cast<MatMulOp>(shared.get()));
  EXPECT_EQ(extents.batch, 1);
  EXPECT_EQ(extents.m, 10);
  EXPECT_EQ(extents.n, 4);
  EXPECT_EQ(extents.k, 3);
  OneOp own("%x: tensor<5x2x3xf32>, %w: tensor<5x3x4xf32>",
            "%r = mpc.matmul %x, %w : (tensor<5x2x3xf32>, tensor<5x3x4xf32>) "
            "-> tensor<5x2x4xf32>");
  extents = getProductExtents(cast<MatMulOp>(own.get()));
  EXPECT_EQ(extents.batch, 5);
  EXPECT_EQ(extents.m, 2);
}

TEST(KernelSpaceTest, LinesOfCumulativeSums) {
  OneOp sum("%x: tensor<2x3x4xf32>",
            "%r = mpc.cumsum %x {axis = 1 : i64} : (tensor<2x3x4xf32>) -> "
            "tensor<2x3x4xf32>");
  CumulativeSpace space = getCumulativeSpace(cast<CumSumOp>(sum.get()));
  EXPECT_EQ((Extents3{space.outer, space.size, space.inner}),
            (Extents3{2, 3, 4}));
}

TEST(KernelSpaceTest, TransposesTurnMatricesOrKeepRows) {
  OneOp turn("%x: tensor<2x3xf32>",
             "%r = mpc.transpose %x {perm = array<i64: 1, 0>} : "
             "(tensor<2x3xf32>) -> tensor<3x2xf32>");
  EXPECT_TRUE(getTransposeSpace(cast<TransposeOp>(turn.get())).turnsMatrices());
  EXPECT_FALSE(keepsRows(turn.get()));
  OneOp rows("%x: tensor<2x3x4xf32>",
             "%r = mpc.transpose %x {perm = array<i64: 1, 0, 2>} : "
             "(tensor<2x3x4xf32>) -> tensor<3x2x4xf32>");
  EXPECT_FALSE(
      getTransposeSpace(cast<TransposeOp>(rows.get())).turnsMatrices());
  EXPECT_TRUE(keepsRows(rows.get()));
}

TEST(KernelSpaceTest, AxesOfOneStrideMerge) {
  SmallVector<MovedAxis> merged = mergeAxes({{2, 12}, {3, 4}, {4, 1}});
  ASSERT_EQ(merged.size(), 1u);
  EXPECT_EQ(merged[0].size, 24);
  EXPECT_EQ(merged[0].stride, 1);
  EXPECT_EQ(mergeAxes({{2, 20}, {4, 1}}).size(), 2u);
}

TEST(KernelSpaceTest, PartsAreContiguousAlongTheInnermostAxis) {
  EXPECT_TRUE(isContiguousPart({2, 3}, {4, 5}));
  EXPECT_FALSE(isContiguousPart({8, 1}, {8, 2}));
}
