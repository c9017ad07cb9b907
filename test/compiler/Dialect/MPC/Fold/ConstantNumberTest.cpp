// Tests which values are one known number.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Fold/ConstantNumber.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
std::optional<double> readNumber(const std::string &op) {
  return getConstantNumber(OneOp("%x: tensor<2xf32>", op)->getResult(0));
}
} // namespace

TEST(ConstantNumberTest, SplatsOfFloatsAreNumbers) {
  EXPECT_EQ(readNumber("%r = mpc.constant dense<0.5> : tensor<3x4xf32>"), 0.5);
  EXPECT_EQ(readNumber("%r = mpc.constant dense<1.5> : tensor<bf16>"), 1.5);
}

TEST(ConstantNumberTest, OtherValuesAreNone) {
  EXPECT_FALSE(readNumber("%r = mpc.constant dense<[1.0, 2.0]> : "
                          "tensor<2xf32>"));
  EXPECT_FALSE(readNumber("%r = mpc.constant dense<3> : tensor<i64>"));
  EXPECT_FALSE(readNumber("%r = mpc.relu %x : (tensor<2xf32>) -> "
                          "tensor<2xf32>"));
  OneOp relu("%x: tensor<2xf32>",
             "%r = mpc.relu %x : (tensor<2xf32>) -> tensor<2xf32>");
  EXPECT_FALSE(getConstantNumber(relu->getOperand(0)));
}
