// Tests the axes of operands that ops read by indices.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/IndexedOpInterface.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
OneOp makeGather() {
  return OneOp("%x: tensor<4x9x6xf32>, %i: tensor<5x2xi64>",
               "%r = mpc.gather %x, %i {axis = 1 : i64} : "
               "(tensor<4x9x6xf32>, tensor<5x2xi64>) -> tensor<4x5x2x6xf32>");
}
} // namespace

TEST(IndexedOpInterfaceTest, TablesAreReadAtTheOpsOwnIndices) {
  OneOp gather = makeGather();
  EXPECT_EQ(getOperandAxes(gather->getOpOperand(0)),
            (SmallVector<int64_t>{0, kOwnAxis, 3}));
  EXPECT_EQ(getOperandAxes(gather->getOpOperand(1)),
            (SmallVector<int64_t>{1, 2}));
  EXPECT_TRUE(readsMemory(gather->getOpOperand(0)));
  EXPECT_FALSE(readsMemory(gather->getOpOperand(1)));
  EXPECT_TRUE(readsMemory(gather.get()));
  EXPECT_EQ(findTable(gather.get()), &gather->getOpOperand(0));
  EXPECT_FALSE(isTable(gather->getOpOperand(1)));
  EXPECT_TRUE(dependsOnPlace(gather.get()));
}

TEST(IndexedOpInterfaceTest, OtherOpsAlignAxesFromTheLast) {
  OneOp add("%x: tensor<4x6xf32>, %y: tensor<6xf32>",
            "%r = mpc.add %x, %y : (tensor<4x6xf32>, tensor<6xf32>) -> "
            "tensor<4x6xf32>");
  EXPECT_EQ(getOperandAxes(add->getOpOperand(0)), (SmallVector<int64_t>{0, 1}));
  EXPECT_EQ(getOperandAxes(add->getOpOperand(1)), (SmallVector<int64_t>{1}));
  EXPECT_FALSE(readsMemory(add.get()));
  EXPECT_EQ(findTable(add.get()), nullptr);
  EXPECT_FALSE(dependsOnPlace(add.get()));
}

// An op that computes with the index of a class has no table.
TEST(IndexedOpInterfaceTest, ClassesAreIndexed) {
  OneOp oneHot("%i: tensor<4xi64>",
               "%r = mpc.one_hot %i {axis = 1 : i64, depth = 3 : i64} : "
               "(tensor<4xi64>) -> tensor<4x3xf32>");
  auto indexed = cast<IndexedOpInterface>(oneHot.get());
  EXPECT_EQ(indexed.getIndexedAxes(), (SmallVector<int64_t>{1}));
  EXPECT_EQ(indexed.getIndexedShape(), (SmallVector<int64_t>{3}));
  EXPECT_TRUE(readsMemory(oneHot->getOpOperand(0)));
  EXPECT_EQ(findTable(oneHot.get()), nullptr);
}
