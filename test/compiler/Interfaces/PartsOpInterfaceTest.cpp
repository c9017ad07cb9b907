// Tests the parts of tensors along an axis.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/PartsOpInterface.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
OneOp makeSum() {
  return OneOp("%x: tensor<4x6xf32>, %y: tensor<6xf32>",
               "%r = mpc.add %x, %y {mpc.phase = #mpc.phase<loss>} : "
               "(tensor<4x6xf32>, tensor<6xf32>) -> tensor<4x6xf32>");
}
} // namespace

TEST(PartsOpInterfaceTest, AxesAlignFromTheLast) {
  OneOp sum = makeSum();
  EXPECT_EQ(findAlignedAxes(sum.get(), 0), (SmallVector<int64_t>{0, kWhole}));
  EXPECT_EQ(findAlignedAxes(sum.get(), 1), (SmallVector<int64_t>{1, 0}));
}

TEST(PartsOpInterfaceTest, BroadcastAxesStayWhole) {
  OneOp column("%x: tensor<4x6xf32>, %y: tensor<4x1xf32>",
               "%r = mpc.add %x, %y : (tensor<4x6xf32>, tensor<4x1xf32>) -> "
               "tensor<4x6xf32>");
  EXPECT_EQ(findAlignedAxes(column.get(), 1),
            (SmallVector<int64_t>{1, kWhole}));
}

TEST(PartsOpInterfaceTest, ClonesKeepAttributesAndHaveAPartOfTheResult) {
  OneOp sum = makeSum();
  OpBuilder builder(sum.get());
  Operation *part = clonePart(builder, sum.get(), sum->getOperands(), 1, 3);
  EXPECT_EQ(part->getResult(0).getType(),
            RankedTensorType::get({4, 2}, builder.getF32Type()));
  EXPECT_EQ(part->getName(), sum->getName());
  EXPECT_EQ(part->getAttrs(), sum->getAttrs());
  part->erase();
  EXPECT_EQ(getPart(sum->getOperand(0).getType(), 0, 2),
            RankedTensorType::get({2, 6}, builder.getF32Type()));
}
