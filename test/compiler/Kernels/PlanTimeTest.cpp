// Tests predicted times of programs: the order of precisions on each kind of
// machine.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/PlanTime.h"

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Kernels/MachineRates.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
class PlanTimeTest : public ::testing::Test {
protected:
  PlanTimeTest() {
    context.loadDialect<MPCDialect, amp::AMPDialect, plan::PlanDialect,
                        func::FuncDialect>();
  }

  // Predicts a program with `steps` on buffers %x and %y of size x size
  // elements of `type`, and %z of f32. @round rounds %z to %x.
  PlanTime predict(StringRef target, StringRef type, int64_t size,
                   StringRef steps) {
    std::string text = llvm::formatv(
        R"(module attributes {{mpc.target = #mpc.target<"{0}">} {{
          func.func private @round(%z: tensor<{2}x{2}xf32>)
              -> tensor<{2}x{2}x{1}> attributes {{
              mpc.kernel = #mpc.kernel<pointwise>} {{
            %r = mpc.relu %z : (tensor<{2}x{2}xf32>) -> tensor<{2}x{2}xf32>
            %x = {4} %r : (tensor<{2}x{2}xf32>) -> tensor<{2}x{2}x{1}>
            return %x : tensor<{2}x{2}x{1}>
          }
          plan.program @step attributes {{arena_bytes = {3} : i64} {{
            %x = plan.arena at 0 : memref<{2}x{2}x{1}>
            %y = plan.arena at 0 : memref<{2}x{2}x{1}>
            %z = plan.arena at 0 : memref<{2}x{2}xf32>
        )",
        target, type, size, 12 * size * size,
        type == "f32" ? "mpc.relu" : "amp.cast");
    text += steps.str() + "\n}\n}";
    OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return predictTime(*module->getOps<plan::ProgramOp>().begin());
  }

  double predictProduct(StringRef target, StringRef type, int64_t size) {
    bool isGPU = target.starts_with("sm_");
    PlanTime time = predict(
        target, type, size,
        llvm::formatv(
            R"(plan.matmul %x, %y into %z : memref<{0}x{0}xf32>
               shape <m = {0}, n = {0}, k = {0}, lda = {0}, ldb = {0}, ldc = {0}{1}>
               axes <stride_c = {2}> {{alpha = 1.0 : f64}
               : memref<{0}x{0}x{3}>, memref<{0}x{0}x{3}>)",
            size,
            isGPU ? std::string()
                  : llvm::formatv(", tile_m = {0}, tile_n = {0}", size).str(),
            size * size, type)
            .str());
    EXPECT_EQ(time.kernels, 0);
    EXPECT_GT(time.products, 0);
    return time.products;
  }

  MLIRContext context;
};
} // namespace

// Tiles multiply bf16; f16 and f32 are sums of terms, fewer for f16.
TEST_F(PlanTimeTest, AMXOrdersTypesByTerms) {
  double f32 = predictProduct("sapphirerapids", "f32", 1024);
  double bf16 = predictProduct("sapphirerapids", "bf16", 1024);
  double f16 = predictProduct("sapphirerapids", "f16", 1024);
  EXPECT_LT(2 * bf16, f16);
  EXPECT_LT(1.1 * f16, f32);
}

TEST_F(PlanTimeTest, VectorsMultiplyPairsOfBF16) {
  double f32 = predictProduct("zen5", "f32", 1024);
  EXPECT_LT(1.5 * predictProduct("zen5", "bf16", 1024), f32);
  // The library widens f16 operands first.
  EXPECT_GT(predictProduct("zen5", "f16", 1024), f32);
}

TEST_F(PlanTimeTest, WithoutInstructionsLowProductsGainNothing) {
  double f32 = predictProduct("x86-64-v3", "f32", 1024);
  for (StringRef low : {"bf16", "f16"}) {
    EXPECT_GT(predictProduct("x86-64-v3", low, 1024), f32);
    EXPECT_LT(predictProduct("x86-64-v3", low, 1024), 1.1 * f32);
  }
}

TEST_F(PlanTimeTest, TensorCoresMultiplyBothLowTypes) {
  double f32 = predictProduct("sm_90", "f32", 4096);
  EXPECT_LT(5 * predictProduct("sm_90", "bf16", 4096), f32);
  EXPECT_EQ(predictProduct("sm_90", "bf16", 4096),
            predictProduct("sm_90", "f16", 4096));
  EXPECT_LT(100 * f32, predictProduct("zen5", "f32", 4096));
}

// A kernel that only casts costs more than a small product gains.
TEST_F(PlanTimeTest, CastsCostAStart) {
  constexpr StringLiteral kRound = R"(
    plan.launch @round ins(%z : memref<16x16xf32>)
        outs(%x : memref<16x16xbf16>) extent 256 grain 256)";
  PlanTime cast = predict("zen5", "bf16", 16, kRound);
  EXPECT_EQ(cast.getTotal(), cast.kernels);
  EXPECT_LT(predictProduct("zen5", "f32", 16),
            predictProduct("zen5", "bf16", 16) + cast.kernels);
}

// Rounding to bf16 takes several operations if the machine has no instruction.
TEST_F(PlanTimeTest, ConversionsCostOperations) {
  constexpr StringLiteral kRound = R"(
    plan.launch @round ins(%z : memref<512x512xf32>)
        outs(%x : memref<512x512xbf16>) extent 262144 grain 16384)";
  EXPECT_LT(1.2 * predict("zen5", "bf16", 512, kRound).kernels,
            predict("x86-64-v3", "bf16", 512, kRound).kernels);
}

TEST_F(PlanTimeTest, LoopsCountTheirIterations) {
  constexpr StringLiteral kOnce = R"(
    plan.launch @round ins(%z : memref<16x16xf32>)
        outs(%x : memref<16x16xbf16>) extent 256 grain 256)";
  double once = predict("zen5", "bf16", 16, kOnce).getTotal();
  double often =
      predict("zen5", "bf16", 16, "plan.for 35 {" + kOnce.str() + "\n}")
          .getTotal();
  EXPECT_NEAR(often, 35 * once, 1e-6 * often);
}

// Vectors hold channels of the result, so bf16 gains only with many channels.
TEST_F(PlanTimeTest, FewChannelsGainNothing) {
  TargetInfo zen5 = llvm::cantFail(TargetInfo::get("zen5"));
  auto getTime = [&](int64_t in, int64_t out, Type type) {
    return getConvolutionTime({in, out, 1, 1e6, ConvKind::Forward}, type, zen5);
  };
  Type f32 = Float32Type::get(&context), bf16 = BFloat16Type::get(&context);
  EXPECT_LT(getTime(64, 64, bf16), getTime(64, 64, f32));
  EXPECT_GT(getTime(1, 6, bf16), getTime(1, 6, f32));
}
