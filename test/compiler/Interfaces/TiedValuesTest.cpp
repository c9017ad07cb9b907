// Tests how values are followed through loops and branches.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/TiedValues.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
// A loop that carries %h, scans %x and reads %w.
OneOp makeTiedScan() {
  return OneOp("%h: tensor<4xf32>, %x: tensor<3x4xf32>, %w: tensor<4xf32>",
               R"(%r:2 = mpc.scan 3 carried(%h : tensor<4xf32>)
    scanned(%x : tensor<3x4xf32>) invariant(%w : tensor<4xf32>)
    -> (tensor<4xf32>, tensor<3x4xf32>) {
  ^bb0(%a: tensor<4xf32>, %p: tensor<4xf32>, %v: tensor<4xf32>):
    %0 = mpc.mul %a, %v : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    mpc.yield %0, %p : tensor<4xf32>, tensor<4xf32>
  } {reversed_inputs = array<i1: false>, reversed_outputs = array<i1: false>})");
}
} // namespace

TEST(TiedValuesTest, ArgumentsComeFromOperandsAndTheIterationBefore) {
  OneOp scan = makeTiedScan();
  Block &body = scan->getRegion(0).front();
  Operation *mul = &body.front(), *yield = body.getTerminator();
  EXPECT_EQ(listTiedSources(body.getArgument(0)),
            (SmallVector<Value, 2>{scan->getOperand(0), mul->getResult(0)}));
  EXPECT_EQ(listTiedSources(body.getArgument(1)),
            (SmallVector<Value, 2>{scan->getOperand(1)}));
  EXPECT_EQ(listTiedSources(scan->getResult(1)),
            (SmallVector<Value, 2>{yield->getOperand(1)}));
  // Another op computes its result, and the caller provides an argument.
  EXPECT_TRUE(listTiedSources(mul->getResult(0)).empty());
  EXPECT_TRUE(listTiedSources(scan->getOperand(0)).empty());
}

TEST(TiedValuesTest, YieldedValuesBecomeResultsAndTheNextArguments) {
  OneOp scan = makeTiedScan();
  Block &body = scan->getRegion(0).front();
  Operation *mul = &body.front(), *yield = body.getTerminator();
  EXPECT_EQ(listTiedResults(yield->getOpOperand(0)),
            (SmallVector<Value, 2>{scan->getResult(0), body.getArgument(0)}));
  EXPECT_EQ(listTiedResults(yield->getOpOperand(1)),
            (SmallVector<Value, 2>{scan->getResult(1)}));
  EXPECT_EQ(listTiedResults(scan->getOpOperand(2)),
            (SmallVector<Value, 2>{body.getArgument(2)}));
  EXPECT_TRUE(listTiedResults(mul->getOpOperand(0)).empty());
}

TEST(TiedValuesTest, OriginsEndAllPaths) {
  OneOp scan = makeTiedScan();
  Block &body = scan->getRegion(0).front();
  Operation *mul = &body.front();
  EXPECT_EQ(findOrigin(scan->getResult(1)), scan->getOperand(1));
  EXPECT_EQ(findOrigin(body.getArgument(2)), scan->getOperand(2));
  // A carried value starts as the operand, and is a product afterwards.
  EXPECT_EQ(listOrigins(body.getArgument(0)).size(), 2u);
  EXPECT_EQ(findOrigin(body.getArgument(0)), Value());
  EXPECT_EQ(findOrigin(mul->getResult(0)), mul->getResult(0));
}

TEST(TiedValuesTest, UsesInBodiesAreVisited) {
  OneOp scan = makeTiedScan();
  Operation *mul = &scan->getRegion(0).front().front();
  SmallVector<OpOperand *> uses;
  forEachTiedUse(scan->getOperand(2),
                 [&](OpOperand &use) { uses.push_back(&use); });
  EXPECT_EQ(uses, SmallVector<OpOperand *>{&mul->getOpOperand(1)});
}
