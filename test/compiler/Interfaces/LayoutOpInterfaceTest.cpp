// Tests which operands and results of ops have a layout.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/LayoutOpInterface.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

TEST(LayoutOpInterfaceTest, ConvolutionsHaveAFilter) {
  OneOp conv("%x: tensor<2x8x8x3xf32>, %w: tensor<5x3x1x1xf32>",
             "%r = mpc.conv %x, %w {dilations = array<i64: 1, 1>, pads = "
             "array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1>, layout = "
             "#mpc.layout<NHWC>} : (tensor<2x8x8x3xf32>, "
             "tensor<5x3x1x1xf32>) -> tensor<2x8x8x5xf32>");
  auto op = cast<LayoutOpInterface>(conv.get());
  EXPECT_EQ(op.getActivationLayout(), Layout::NHWC);
  EXPECT_EQ(op.countActivationOperands(), 1u);
  EXPECT_EQ(op.countActivationResults(), 1u);
  EXPECT_EQ(op.getFilter(), conv->getOperand(1));
}

TEST(LayoutOpInterfaceTest, StatisticsHaveNoLayout) {
  OneOp norm("%dy: tensor<2x3x8x8xf32>, %c: tensor<3xf32>",
             "%r:3 = mpc.batch_norm_grad %dy, %dy, %c, %c, %c : "
             "(tensor<2x3x8x8xf32>, tensor<2x3x8x8xf32>, tensor<3xf32>, "
             "tensor<3xf32>, tensor<3xf32>) -> (tensor<2x3x8x8xf32>, "
             "tensor<3xf32>, tensor<3xf32>)");
  auto op = cast<LayoutOpInterface>(norm.get());
  EXPECT_EQ(op.getActivationLayout(), Layout::NCHW);
  EXPECT_EQ(op.countActivationOperands(), 2u);
  EXPECT_EQ(op.countActivationResults(), 1u);
  EXPECT_EQ(op.getFilter(), Value());
}
