// Tests the estimated work of elements: only the order matters.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ElementWork.h"

#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
std::optional<int64_t> workOf(const std::string &op) {
  return getElementWork(
      OneOp("%x: tensor<8xf32>, %y: tensor<8xf32>, %s: tensor<i64>", op).get());
}
const std::string kUnary = " %x : (tensor<8xf32>) -> tensor<8xf32>";
const std::string kBinary =
    " %x, %y : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>";
} // namespace

TEST(ElementWorkTest, FunctionsCostMoreThanSums) {
  std::optional<int64_t> sum = workOf("%r = mpc.add" + kBinary);
  std::optional<int64_t> quotient = workOf("%r = mpc.div" + kBinary);
  std::optional<int64_t> exponential = workOf("%r = mpc.exp" + kUnary);
  ASSERT_TRUE(sum && quotient && exponential);
  EXPECT_LT(*sum, *quotient);
  EXPECT_LT(*sum, *exponential);
  // Repeating a sum is cheaper than storing and loading its result.
  EXPECT_LT(*sum, kAccessWork);
}

TEST(ElementWorkTest, RandomNumbersAreNeverDrawnTwice) {
  EXPECT_FALSE(workOf("%r = mpc.dropout %x, %s, %s {id = 0 : i64, ratio = 0.5 "
                      ": f64} : (tensor<8xf32>, tensor<i64>, tensor<i64>) -> "
                      "tensor<8xf32>"));
}
