// Tests which operands stand for the arguments of bodies.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/BodyOpInterface.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

TEST(BodyOpInterfaceTest, LoopsCarryLeadingArguments) {
  OneOp scan("%h: tensor<4xf32>, %x: tensor<3x4xf32>",
             R"(%r:2 = mpc.scan 3 carried(%h : tensor<4xf32>)
    scanned(%x : tensor<3x4xf32>) -> (tensor<4xf32>, tensor<3x4xf32>) {
  ^bb0(%a: tensor<4xf32>, %p: tensor<4xf32>):
    mpc.yield %p, %a : tensor<4xf32>, tensor<4xf32>
  } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>})");
  auto body = cast<BodyOpInterface>(scan.get());
  EXPECT_EQ(body.getNumCarried(), 1u);
  Block &block = scan->getRegion(0).front();
  for (unsigned i = 0; i < 2; ++i)
    EXPECT_EQ(&body.getTiedOperand(block.getArgument(i)),
              &scan->getOpOperand(i));
}

TEST(BodyOpInterfaceTest, BranchesCaptureOperandsAfterTheCondition) {
  OneOp branches("%c: tensor<i1>, %x: tensor<4xf32>",
                 R"(%r = mpc.if %c captured(%x : tensor<4xf32>)
    -> (tensor<4xf32>) {
  ^bb0(%a: tensor<4xf32>):
    mpc.yield %a : tensor<4xf32>
  } else {
  ^bb0(%b: tensor<4xf32>):
    mpc.yield %b : tensor<4xf32>
  })");
  auto body = cast<BodyOpInterface>(branches.get());
  EXPECT_EQ(body.getNumCarried(), 0u);
  for (Region &region : branches->getRegions())
    EXPECT_EQ(&body.getTiedOperand(region.getArgument(0)),
              &branches->getOpOperand(1));
}
