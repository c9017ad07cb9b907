// Tests the estimated times of ops in either type: only the order matters.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/PrecisionCost.h"

#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
PrecisionCost costOf(const std::string &arguments, const std::string &op,
                     StringRef target) {
  OneOp parsed(arguments, op);
  return estimateCost(cast<PrecisionOpInterface>(parsed.get()),
                      BFloat16Type::get(parsed->getContext()),
                      llvm::cantFail(TargetInfo::get(target)),
                      ModelTypes(parsed->getParentOfType<ModuleOp>()));
}
} // namespace

// Products of bf16 are fast where the target has an instruction for them.
TEST(PrecisionCostTest, ProductsGainFromInstructions) {
  std::string arguments = "%x: tensor<512x512xf32>, %y: tensor<512x512xf32>";
  std::string op = "%r = mpc.matmul %x, %y : (tensor<512x512xf32>, "
                   "tensor<512x512xf32>) -> tensor<512x512xf32>";
  PrecisionCost native = costOf(arguments, op, "zen5");
  EXPECT_LT(native.low, native.high);
  PrecisionCost widened = costOf(arguments, op, "x86-64-v3");
  EXPECT_GT(widened.low, native.low);
}

TEST(PrecisionCostTest, LargerOpsTakeLonger) {
  auto relu = [](const std::string &size) {
    std::string type = "tensor<" + size + "xf32>";
    return costOf("%x: " + type, "%r = mpc.relu %x : (" + type + ") -> " + type,
                  "zen5");
  };
  PrecisionCost small = relu("65536"), large = relu("1048576");
  EXPECT_LT(small.high, large.high);
  EXPECT_LT(small.cast, large.cast);
  // Half the memory traffic.
  EXPECT_LT(large.low, large.high);
}
