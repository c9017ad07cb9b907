// Tests the operands of optimizer steps.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/OptimizerOpInterface.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
OneOp makeSGD(const std::string &attributes) {
  return OneOp("%p: tensor<8xf32>, %g: tensor<8xf32>, %lr: tensor<f32>",
               "%r = mpc.sgd %p, %g, %lr " + attributes +
                   " : (tensor<8xf32>, tensor<8xf32>, tensor<f32>) -> "
                   "tensor<8xf32>");
}
} // namespace

TEST(OptimizerOpInterfaceTest, StepsNameTheirOperands) {
  OneOp sgd = makeSGD("");
  auto step = cast<OptimizerOpInterface>(sgd.get());
  EXPECT_EQ(&step.getParamOperand(), &sgd->getOpOperand(0));
  EXPECT_EQ(&step.getGradOperand(), &sgd->getOpOperand(1));
  EXPECT_TRUE(step.getApplyOperand().empty());
}

// A weight decay changes a parameter whose gradient is 0.
TEST(OptimizerOpInterfaceTest, DecayChangesParametersWithoutGradient) {
  OneOp plain = makeSGD(""), decays = makeSGD("{weight_decay = 0.1 : f64}");
  EXPECT_TRUE(cast<OptimizerOpInterface>(plain.get()).keepsWithoutGradient());
  EXPECT_FALSE(cast<OptimizerOpInterface>(decays.get()).keepsWithoutGradient());
}
