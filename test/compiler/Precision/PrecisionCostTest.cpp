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

namespace {
PrecisionCost costOfProduct(const std::string &op, StringRef target,
                            bool isBF16) {
  const std::string type = "tensor<1024x1024xf32>";
  OneOp parsed("%x: " + type + ", %y: " + type,
               "%r = mpc." + op + " %x, %y : (" + type + ", " + type + ") -> " +
                   type);
  MLIRContext *context = parsed->getContext();
  return estimateCost(cast<PrecisionOpInterface>(parsed.get()),
                      isBF16 ? FloatType(BFloat16Type::get(context))
                             : FloatType(Float16Type::get(context)),
                      llvm::cantFail(TargetInfo::get(target)),
                      ModelTypes(parsed->getParentOfType<ModuleOp>()));
}
} // namespace

// Gemm is a product, too, and AMX multiplies f16 by terms.
TEST(PrecisionCostTest, GemmCostsAsMuchAsMatMul) {
  for (bool isBF16 : {false, true}) {
    PrecisionCost gemm = costOfProduct("gemm", "sapphirerapids", isBF16);
    PrecisionCost matmul = costOfProduct("matmul", "sapphirerapids", isBF16);
    EXPECT_EQ(gemm.low, matmul.low);
    EXPECT_EQ(gemm.high, matmul.high);
    EXPECT_LT(gemm.low, gemm.high);
  }
}

TEST(PrecisionCostTest, GPUsHaveTheirOwnRates) {
  PrecisionCost cpu = costOfProduct("gemm", "zen5", true);
  PrecisionCost gpu = costOfProduct("gemm", "sm_90", true);
  EXPECT_LT(100 * gpu.high, cpu.high);
  EXPECT_LT(100 * gpu.low, cpu.low);
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
