// Tests the facts about ops that the Precision stage reads.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Interfaces/PrecisionOpInterface.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

TEST(PrecisionOpInterfaceTest, ProductsCountTwoOperationsPerTerm) {
  OneOp product("%x: tensor<4x8xf32>, %y: tensor<8x6xf32>",
                "%r = mpc.matmul %x, %y : (tensor<4x8xf32>, tensor<8x6xf32>) "
                "-> tensor<4x6xf32>");
  auto op = cast<PrecisionOpInterface>(product.get());
  EXPECT_DOUBLE_EQ(op.countFlops(), 2.0 * 4 * 8 * 6);
  EXPECT_EQ(op.getNumContractedOperands(), 2u);
  EXPECT_FALSE(op.movesElements());
  EXPECT_EQ(op.getPolicyKey(), "matmul");
}

TEST(PrecisionOpInterfaceTest, OtherOpsContractNothing) {
  OneOp sum("%x: tensor<4xf32>", "%r = mpc.add %x, %x : (tensor<4xf32>, "
                                 "tensor<4xf32>) -> tensor<4xf32>");
  EXPECT_EQ(countFlopsOfProduct(sum.get()), 0);
  EXPECT_FALSE(cast<PrecisionOpInterface>(sum.get()).movesElements());
  OneOp view("%x: tensor<4xf32>",
             "%r = mpc.reshape %x : (tensor<4xf32>) -> tensor<2x2xf32>");
  EXPECT_TRUE(cast<PrecisionOpInterface>(view.get()).movesElements());
}
