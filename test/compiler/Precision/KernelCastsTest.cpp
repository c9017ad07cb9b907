// Tests the counts of casts in kernels, as the Fusion stage forms kernels.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/KernelCasts.h"

#include "compiler/Dialect/AMP/AMP.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/FormatVariadic.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

// A step of all kinds of casts, named after the kinds. The loop runs three
// times. @eval does not train, so nothing of it counts.
static constexpr llvm::StringLiteral castingKernels = R"mlir(
mpc.variable @w : tensor<4xf32> role parameter
mpc.variable @w.low : tensor<1x4xbf16> role derived
func.func @step(%x: tensor<4xf32>, %w: tensor<4xf32> {mpc.state = @w})
    -> (tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>,
        tensor<4xf32> {mpc.updates = @w}, tensor<1x4xbf16> {mpc.updates = @w.low}) {
  %0:2 = mpc.region pointwise(%x, %w) : (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xbf16>) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %new = mpc.add %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32> loc("update")
    %low = amp.cast %new : (tensor<4xf32>) -> tensor<4xbf16> loc("weights")
    mpc.yield %new, %low : tensor<4xf32>, tensor<4xbf16>
  }
  %1 = mpc.reshape %0#1 : (tensor<4xbf16>) -> tensor<1x4xbf16>
  %2 = mpc.region pointwise(%x) : (tensor<4xf32>) -> tensor<4xbf16> {
  ^bb0(%a: tensor<4xf32>):
    %c = amp.cast %a : (tensor<4xf32>) -> tensor<4xbf16> loc("alone")
    mpc.yield %c : tensor<4xbf16>
  }
  %3:2 = mpc.region pointwise(%x, %2) : (tensor<4xf32>, tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xbf16>) {
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xbf16>):
    %read = amp.cast %b : (tensor<4xbf16>) -> tensor<4xf32> loc("free")
    %sum = mpc.add %a, %read : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
    %written = amp.cast %sum : (tensor<4xf32>) -> tensor<4xbf16> loc("free")
    %copy = amp.cast %a : (tensor<4xf32>) -> tensor<4xbf16> loc("copy")
    mpc.yield %written, %copy : tensor<4xbf16>, tensor<4xbf16>
  } loc("sum")
  %4:2 = mpc.scan_call @step_scan 3 carried(%2 : tensor<4xbf16>)
      {reversed_inputs = array<i1>, reversed_outputs = array<i1: false>}
      -> (tensor<4xbf16>, tensor<3x4xf32>)
  return %3#0, %3#1, %4#0, %0#0, %1 : tensor<4xbf16>, tensor<4xbf16>, tensor<4xbf16>, tensor<4xf32>, tensor<1x4xbf16>
}
func.func private @step_scan(%h: tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xf32>) {
  %0:2 = mpc.region pointwise(%h) : (tensor<4xbf16>) -> (tensor<4xbf16>, tensor<4xf32>) {
  ^bb0(%a: tensor<4xbf16>):
    %n = mpc.neg %a : (tensor<4xbf16>) -> tensor<4xbf16>
    %wide = amp.cast %n : (tensor<4xbf16>) -> tensor<4xf32> loc("loop")
    mpc.yield %n, %wide : tensor<4xbf16>, tensor<4xf32>
  } loc("loop")
  return %0#0, %0#1 : tensor<4xbf16>, tensor<4xf32>
}
func.func @eval(%x: tensor<4xf32>) -> tensor<4xbf16> {
  %0 = mpc.region pointwise(%x) : (tensor<4xf32>) -> tensor<4xbf16> {
  ^bb0(%a: tensor<4xf32>):
    %c = amp.cast %a : (tensor<4xf32>) -> tensor<4xbf16> loc("eval")
    mpc.yield %c : tensor<4xbf16>
  }
  return %0 : tensor<4xbf16>
}
)mlir";

namespace {
struct KernelCastsTest : testing::Test {
  KernelCastsTest() {
    context.loadDialect<MPCDialect, amp::AMPDialect, func::FuncDialect>();
    module = parseSourceString<ModuleOp>(castingKernels, &context);
  }

  /// The counts of the ops called `name`.
  CastCounts count(llvm::StringRef name) {
    return KernelCasts(*module).getNames().lookup(
        StringAttr::get(&context, name));
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};
} // namespace

TEST_F(KernelCastsTest, ALowCopyOfAParameterIsACastOfWeights) {
  ASSERT_TRUE(module);
  EXPECT_EQ(describeCasts(count("weights")), "1 cast (1 of weights)");
  // The kernel has the new parameter in a register, and loads nothing more.
  EXPECT_EQ(count("weights").bytes, 8);
}

TEST_F(KernelCastsTest, ACopyBesideTheValueIsACastOfActivations) {
  ASSERT_TRUE(module);
  EXPECT_EQ(describeCasts(count("copy")), "1 cast (1 of activations)");
  EXPECT_EQ(count("copy").bytes, 8);
}

TEST_F(KernelCastsTest, AKernelOfACastAloneLoadsTheValueForTheCast) {
  ASSERT_TRUE(module);
  EXPECT_EQ(describeCasts(count("alone")),
            "1 cast (1 of activations), 1 kernel only casts");
  EXPECT_EQ(count("alone").bytes, 16 + 8);
}

TEST_F(KernelCastsTest, ACastInARegisterIsFree) {
  ASSERT_TRUE(module);
  EXPECT_EQ(describeCasts(count("free")), "2 casts (2 free)");
  EXPECT_EQ(count("free").bytes, 0);
}

TEST_F(KernelCastsTest, BytesInALoopCountForEachIteration) {
  ASSERT_TRUE(module);
  EXPECT_EQ(describeCasts(count("loop")), "1 cast (1 of activations)");
  EXPECT_EQ(count("loop").bytes, 3 * 16);
  EXPECT_EQ(describeStored(count("loop")), "f32 48 bytes, bf16 24 bytes");
}

TEST_F(KernelCastsTest, TheTotalIsTheSumOfTheFunctionsThatTrain) {
  ASSERT_TRUE(module);
  const CastCounts total = KernelCasts(*module).getTotal();
  EXPECT_EQ(describeCasts(total), "6 casts (1 of weights, 3 of activations, 2 "
                                  "free), 1 kernel only casts");
  EXPECT_EQ(total.bytes, 8 + 8 + 24 + 48);
  EXPECT_EQ(describeStored(total), "f32 64 bytes, bf16 56 bytes");
  EXPECT_EQ(describeCasts(count("eval")), "0 casts");
}

TEST_F(KernelCastsTest, AnOpWithoutANameCountsForItsKernel) {
  ASSERT_TRUE(module);
  module->walk(
      [&](amp::CastOp cast) { cast->setLoc(UnknownLoc::get(&context)); });
  EXPECT_EQ(describeCasts(count("sum")), "3 casts (1 of activations, 2 free)");
}

// nameOpsByIds leaves an op of another function alone.
TEST(NameOpsByIdsTest, OpsGetTheIdsOfTheirDecisions) {
  static constexpr llvm::StringLiteral decision =
      "amp.decision = #amp.decision<operands = [f32], results = [f32], compute "
      "= "
      "f32, class = clear, rule = \"default:neg\", why = \"\", reason = mode, "
      "path = [], evidence = proved>";
  const std::string source = llvm::formatv(R"mlir(
    func.func @step(%x: tensor<4xf32>) -> tensor<4xbf16> {{
      %0 = amp.cast %x : (tensor<4xf32>) -> tensor<4xbf16> loc("n")
      %1 = amp.cast %0 : (tensor<4xbf16>) -> tensor<4xf32> loc("n")
      %2 = mpc.neg %1 {{{0}} : (tensor<4xf32>) -> tensor<4xf32> loc("n")
      %3 = mpc.neg %2 {{{0}} : (tensor<4xf32>) -> tensor<4xf32> loc("n")
      %4 = amp.cast %3 : (tensor<4xf32>) -> tensor<4xbf16> loc("n")
      return %4 : tensor<4xbf16>
    }
    func.func @eval(%x: tensor<4xf32>) -> tensor<4xf32> {{
      %0 = mpc.neg %x {{{0}} : (tensor<4xf32>) -> tensor<4xf32> loc("n")
      return %0 : tensor<4xf32>
    })mlir",
                                           decision)
                                 .str();
  MLIRContext context;
  context.loadDialect<MPCDialect, amp::AMPDialect, func::FuncDialect>();
  auto module = parseSourceString<ModuleOp>(source, &context);
  ASSERT_TRUE(module) << source;
  nameOpsByIds(*module);
  std::vector<std::string> names;
  module->walk([&](Operation *op) {
    if (isa<amp::CastOp, NegOp>(op))
      names.push_back(getNodeName(op).str());
  });
  EXPECT_EQ(names,
            (std::vector<std::string>{"n", "n", "n", "n~2", "n~2", "n"}));
}
