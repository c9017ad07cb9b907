// Tests strided access to values that were moved.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/Access.h"

#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
using Extents = SmallVector<int64_t>;
} // namespace

TEST(AccessTest, DenseValuesAreRowMajor) {
  Access access({2, 3, 4});
  EXPECT_EQ(access.strides, (Extents{12, 4, 1}));
  EXPECT_EQ(access.offset, 0);
}

TEST(AccessTest, TransposesAndSlicesAreStrides) {
  Access access({2, 3, 4});
  access.transpose({2, 0, 1});
  EXPECT_EQ(access.shape, (Extents{4, 2, 3}));
  EXPECT_EQ(access.strides, (Extents{1, 12, 4}));
  access.slice({1, 1, 0}, {2, 1, 3});
  EXPECT_EQ(access.offset, 1 + 12);
  EXPECT_EQ(access.shape, (Extents{2, 1, 3}));
  EXPECT_EQ(access.strides, (Extents{1, 12, 4}));
}

TEST(AccessTest, CopiesHaveStrideZero) {
  Access access({3, 1});
  access.expand({2, 3, 4});
  EXPECT_EQ(access.shape, (Extents{2, 3, 4}));
  EXPECT_EQ(access.strides[0], 0);
  EXPECT_EQ(access.strides[1], 1);
  EXPECT_EQ(access.strides[2], 0);
}

TEST(AccessTest, ReshapesNeedOneStridePerAxis) {
  Access access({2, 3, 4});
  EXPECT_TRUE(access.reshape(Extents{6, 4}));
  EXPECT_EQ(access.strides, (Extents{4, 1}));
  access.transpose({1, 0});
  // Columns of a matrix have no single stride as one axis.
  EXPECT_FALSE(access.reshape(Extents{24}));
}

TEST(AccessTest, OpsAreFollowed) {
  OneOp transpose("%x: tensor<2x3xf32>",
                  "%r = mpc.transpose %x {perm = array<i64: 1, 0>} : "
                  "(tensor<2x3xf32>) -> tensor<3x2xf32>");
  ASSERT_TRUE(Access::canFollow(transpose.get()));
  Access access({2, 3});
  EXPECT_TRUE(access.follow(transpose.get()));
  EXPECT_EQ(access.strides, (Extents{1, 3}));
  OneOp steps("%x: tensor<8xf32>",
              "%r = mpc.slice %x {offsets = array<i64: 0>, sizes = array<i64: "
              "4>, strides = array<i64: 2>} : (tensor<8xf32>) -> "
              "tensor<4xf32>");
  EXPECT_FALSE(Access::canFollow(steps.get()));
  OneOp relu("%x: tensor<8xf32>",
             "%r = mpc.relu %x : (tensor<8xf32>) -> tensor<8xf32>");
  EXPECT_FALSE(Access::canFollow(relu.get()));
  EXPECT_FALSE(Access::canFollow(nullptr));
}
