// Tests ops that process one part of their operands after the other.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Regions/Parts.h"

#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
using Axes = SmallVector<int64_t>;

std::optional<Axes> findAxes(const std::string &arguments,
                             const std::string &op, int64_t axis) {
  return findPartedAxes(OneOp(arguments, op).get(), axis);
}
} // namespace

TEST(PartsTest, ElementwiseOpsReadWhatRunsAlong) {
  std::string arguments =
      "%x: tensor<4x6xf32>, %y: tensor<6xf32>, %z: tensor<4x1xf32>";
  std::string row = "%r = mpc.add %x, %y : (tensor<4x6xf32>, tensor<6xf32>) -> "
                    "tensor<4x6xf32>";
  EXPECT_EQ(findAxes(arguments, row, 0), (Axes{0, kWhole}));
  EXPECT_EQ(findAxes(arguments, row, 1), (Axes{1, 0}));
  std::string column = "%r = mpc.add %x, %z : (tensor<4x6xf32>, "
                       "tensor<4x1xf32>) -> tensor<4x6xf32>";
  EXPECT_EQ(findAxes(arguments, column, 1), (Axes{1, kWhole}));
}

TEST(PartsTest, ProductsReadRowsOfTheLeftAndColumnsOfTheRight) {
  std::string arguments = "%x: tensor<2x8x4xf32>, %y: tensor<2x6x8xf32>";
  std::string op =
      "%r = mpc.matmul %x, %y {transA = true, transB = true} : "
      "(tensor<2x8x4xf32>, tensor<2x6x8xf32>) -> tensor<2x4x6xf32>";
  EXPECT_EQ(findAxes(arguments, op, 0), (Axes{0, 0}));
  EXPECT_EQ(findAxes(arguments, op, 1), (Axes{2, kWhole}));
  EXPECT_EQ(findAxes(arguments, op, 2), (Axes{kWhole, 1}));
  OneOp product(arguments, op);
  EXPECT_EQ(llvm::ArrayRef<int64_t>(getSummedAxes(product.get())),
            llvm::ArrayRef<int64_t>({1, 2}));
  EXPECT_TRUE(isSummed(product->getOpOperand(0), 1));
  EXPECT_FALSE(isSummed(product->getOpOperand(0), 2));
  EXPECT_EQ(findResultAxis(product->getOpOperand(1), 1), 2);
  EXPECT_EQ(findResultAxis(product->getOpOperand(1), 2), std::nullopt);
}

TEST(PartsTest, MovesAreFollowed) {
  std::string x = "%x: tensor<8x12x64xf32>";
  auto reshape = [&](const std::string &shape) {
    return "%r = mpc.reshape %x : (tensor<8x12x64xf32>) -> tensor<" + shape +
           "xf32>";
  };
  EXPECT_EQ(findAxes(x, reshape("96x64"), 0), Axes{0});
  EXPECT_EQ(findAxes(x, reshape("96x64"), 1), Axes{2});
  EXPECT_EQ(findAxes(x, reshape("8x768"), 1), Axes{1});
  // Twelve 64s are not 32s of 24.
  EXPECT_EQ(findAxes(x, reshape("8x32x24"), 2), std::nullopt);
  EXPECT_EQ(findAxes(x,
                     "%r = mpc.transpose %x {perm = array<i64: 1, 0, 2>} : "
                     "(tensor<8x12x64xf32>) -> tensor<12x8x64xf32>",
                     0),
            Axes{1});
  std::string slice =
      "%r = mpc.slice %x {offsets = array<i64: 0, 0, 32>, sizes = array<i64: "
      "8, 12, 32>} : (tensor<8x12x64xf32>) -> tensor<8x12x32xf32>";
  EXPECT_EQ(findAxes(x, slice, 1), Axes{1});
  EXPECT_EQ(findAxes(x, slice, 2), std::nullopt);
}

TEST(PartsTest, ReductionsKeepTheOtherAxes) {
  std::string x = "%x: tensor<4x6x8xf32>";
  std::string dropped = "%r = mpc.reduce_sum %x {axes = array<i64: 1>} : "
                        "(tensor<4x6x8xf32>) -> tensor<4x8xf32>";
  EXPECT_EQ(findAxes(x, dropped, 0), Axes{0});
  EXPECT_EQ(findAxes(x, dropped, 1), Axes{2});
  std::string kept =
      "%r = mpc.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : "
      "(tensor<4x6x8xf32>) -> tensor<4x1x8xf32>";
  EXPECT_EQ(findAxes(x, kept, 2), Axes{2});
  EXPECT_EQ(findAxes(x, kept, 1), std::nullopt);
  EXPECT_EQ(findAxes(x,
                     "%r = mpc.softmax %x {axis = 2 : i64} : "
                     "(tensor<4x6x8xf32>) -> tensor<4x6x8xf32>",
                     2),
            std::nullopt);
}

TEST(PartsTest, OpsOnIndicesStayWhole) {
  std::string one = "%r = mpc.one_hot %x {axis = 1 : i64, depth = 6 : i64} : "
                    "(tensor<4xi64>) -> tensor<4x6xf32>";
  EXPECT_EQ(findAxes("%x: tensor<4xi64>", one, 0), std::nullopt);
}

TEST(PartsTest, PartsOfADropoutStartWithAGroup) {
  OneOp op("%x: tensor<4x6xf32>, %s: tensor<i64>",
           "%r = mpc.dropout %x, %s, %s {ratio = 0.5 : f64, id = 3 : i64} : "
           "(tensor<4x6xf32>, tensor<i64>, tensor<i64>) -> tensor<4x6xf32>");
  EXPECT_TRUE(canSplit(op.get(), 0, 2));
  EXPECT_EQ(getGroupsPerPart(op.get(), 0, 2), 3);
  // Neither a row of six nor half a row is a whole number of groups.
  EXPECT_FALSE(canSplit(op.get(), 0, 4));
  EXPECT_FALSE(canSplit(op.get(), 1, 2));
}

TEST(PartsTest, PartsOfASliceAndOfADropoutSayWhatTheyAreOf) {
  OneOp slice("%x: tensor<8x64xf32>",
              "%r = mpc.slice %x {offsets = array<i64: 0, 32>, sizes = "
              "array<i64: 8, 32>} : (tensor<8x64xf32>) -> tensor<8x32xf32>");
  OpBuilder builder(slice.get());
  auto box = cast<SliceOp>(
      createPart(builder, slice.get(), slice->getOperands(), 0, 4, Value()));
  EXPECT_EQ(box.getSizes(), ArrayRef<int64_t>({2, 32}));
  EXPECT_EQ(box.getOffsets(), ArrayRef<int64_t>({0, 32}));
  OneOp whole("%x: tensor<8x6xf32>, %s: tensor<i64>, %g: tensor<i64>",
              "%r = mpc.dropout %x, %s, %s {ratio = 0.5 : f64, id = 3 : i64} : "
              "(tensor<8x6xf32>, tensor<i64>, tensor<i64>) -> tensor<8x6xf32>");
  builder.setInsertionPoint(whole.get());
  Value group = whole->getBlock()->getArgument(2);
  auto part = cast<DropoutOp>(
      createPart(builder, whole.get(), whole->getOperands(), 0, 2, group));
  EXPECT_EQ(part.getWhole(), ArrayRef<int64_t>({8, 6}));
  EXPECT_EQ(part.getGroup(), group);
  EXPECT_EQ(shapeOf(part.getOutput()), ArrayRef<int64_t>({4, 6}));
}
