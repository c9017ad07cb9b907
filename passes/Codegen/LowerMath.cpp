// Lowers functions of the math dialect: to polynomials (f32), to approximate
// instructions of a GPU (exp and tanh of f32), to calls of libm, or to
// arithmetic on targets without libm.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Elementwise/ExpandConversions.h"
#include "passes/Codegen/Kernels/Math/SoftwareMath.h"
#include "passes/Codegen/Passes.h"

#include "compiler/Dialect/MPC/Target.h"

#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_LOWERMATHPASS
#include "passes/Codegen/Passes.h.inc"
} // namespace mpc

namespace {
class LowerMathPass : public mpc::impl::LowerMathPassBase<LowerMathPass> {
public:
  using LowerMathPassBase::LowerMathPassBase;
  void runOnOperation() override;

private:
  LogicalResult approximate(const TargetInfo &info);
  LogicalResult callLibm();
  LogicalResult expand(const TargetInfo &info);
};
} // namespace

/// True if a polynomial computes the f32 function to a few units in the last
/// place. Subnormal numbers are the exception: exp gives 0 for a subnormal
/// result, and log reads a subnormal operand as the smallest normal number
/// (Lanes::log scales it).
static bool hasPolynomial(StringRef op) {
  return llvm::is_contained(
      {math::ExpOp::getOperationName(), math::LogOp::getOperationName(),
       math::Log1pOp::getOperationName(), math::TanhOp::getOperationName(),
       math::ErfOp::getOperationName()},
      op);
}

/// True if a GPU's approximate instructions compute the function `op` in half
/// as many instructions as a polynomial.
static bool hasInstructions(StringRef op) {
  return op == math::ExpOp::getOperationName() ||
         op == math::TanhOp::getOperationName();
}

LogicalResult LowerMathPass::approximate(const TargetInfo &info) {
  RewritePatternSet patterns(&getContext());
  auto isPolynomial = [&](StringRef op) {
    return hasPolynomial(op) && !(info.isGPU() && hasInstructions(op));
  };
  populateMathPolynomialApproximationPatterns(patterns, isPolynomial);
  if (info.isGPU())
    codegen::populateGPUMathPatterns(patterns);
  codegen::populateExpandConversionPatterns(patterns, info);
  return applyPatternsGreedily(getOperation(), std::move(patterns));
}

LogicalResult LowerMathPass::callLibm() {
  RewritePatternSet patterns(&getContext());
  populateMathToLibmConversionPatterns(patterns);
  ConversionTarget target(getContext());
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  target.addIllegalOp<math::ExpOp, math::LogOp, math::Log1pOp, math::TanhOp,
                      math::PowFOp, math::ErfOp, math::SinOp, math::CosOp,
                      math::TanOp, math::AsinOp, math::AcosOp, math::AtanOp,
                      math::SinhOp, math::CoshOp, math::AsinhOp, math::AcoshOp,
                      math::AtanhOp>();
  return applyPartialConversion(getOperation(), target, std::move(patterns));
}

/// Expands functions to arithmetic for a target without libm. A function
/// without expansion is an error, since no library would provide it.
LogicalResult LowerMathPass::expand(const TargetInfo &info) {
  RewritePatternSet patterns(&getContext());
  codegen::populateSoftwareMathPatterns(patterns);
  if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
    return failure();
  WalkResult result = getOperation().walk([&](Operation *op) -> WalkResult {
    if (!isa<math::MathDialect>(op->getDialect()) ||
        isa<math::AbsFOp, math::CeilOp, math::CopySignOp, math::FloorOp,
            math::FmaOp, math::RoundEvenOp, math::SqrtOp>(op) ||
        (isa<math::Exp2Op>(op) &&
         !getElementTypeOrSelf(op->getResultTypes()[0]).isF64()))
      return WalkResult::advance();
    return op->emitOpError("of ")
           << op->getOperand(0).getType() << " has no code on target '"
           << info.getName() << "'";
  });
  return failure(result.wasInterrupted());
}

void LowerMathPass::runOnOperation() {
  TargetInfo target = getTarget(getOperation());
  if (failed(approximate(target)) ||
      failed(target.isGPU() ? expand(target) : callLibm()))
    signalPassFailure();
}
