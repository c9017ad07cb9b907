// Tests the ranges of ops without the interface, and unions of ranges.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/RangeOpInterface.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

TEST(RangeOpInterfaceTest, UnionsHoldBoth) {
  Bounds both = unite(Bounds{-2, 3}, Bounds{1, 7});
  EXPECT_EQ(both.low, -2);
  EXPECT_EQ(both.high, 7);
  IntegerRange integers = unite(IntegerRange{4, 5}, IntegerRange{-1, 2});
  EXPECT_TRUE(integers.contains({-1, 5}));
  EXPECT_FALSE(integers.contains({-2, 5}));
  EXPECT_FALSE(integers.contains({-1, 6}));
}

TEST(RangeOpInterfaceTest, MovedElementsKeepTheRangeOfAllOperands) {
  OneOp transpose("%x: tensor<2x3xf32>",
                  "%r = mpc.transpose %x {perm = array<i64: 1, 0>} : "
                  "(tensor<2x3xf32>) -> tensor<3x2xf32>");
  std::optional<Bounds> range = inferRange(transpose.get(), {Bounds{-1, 4}});
  ASSERT_TRUE(range);
  EXPECT_EQ(range->low, -1);
  EXPECT_EQ(range->high, 4);
  EXPECT_EQ(listHandedOn(transpose.get()),
            SmallVector<Value>{transpose->getOperand(0)});
  EXPECT_FALSE(holdsConstant(transpose.get()));
}

TEST(RangeOpInterfaceTest, NothingIsKnownOfOtherOps) {
  OneOp sum("%x: tensor<2x3xf32>",
            "%r = mpc.reduce_sum %x {axes = array<i64: 0>} : "
            "(tensor<2x3xf32>) -> tensor<3xf32>");
  EXPECT_FALSE(inferMovedRange(sum.get(), {Bounds{-1, 4}}));
  EXPECT_TRUE(listMoved(sum.get()).empty());
  EXPECT_FALSE(getSaturation(sum->getOperand(0)));
}

TEST(RangeOpInterfaceTest, SaturationsAreThoseOfTheDefiningOp) {
  OneOp tanh("%x: tensor<4xf32>",
             "%r = mpc.tanh %x : (tensor<4xf32>) -> tensor<4xf32>");
  std::optional<Bounds> ends = getSaturation(tanh->getResult(0));
  ASSERT_TRUE(ends);
  EXPECT_EQ(ends->low, -1);
  EXPECT_EQ(ends->high, 1);
}
