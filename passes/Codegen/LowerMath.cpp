// Functions of the math dialect become polynomials (f32) or calls of libm.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Target/TargetInfo.h"
#include "passes/Codegen/Lanes.h"
#include "passes/Codegen/Passes.h"

#include "mlir/Conversion/MathToLibm/MathToLibm.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Transforms/DialectConversion.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

using namespace mlir;
using namespace mpc;

namespace mpc {
#define GEN_PASS_DEF_LOWERMATH
#include "passes/Codegen/Passes.h.inc"
} // namespace mpc

namespace {
class LowerMathPass : public mpc::impl::LowerMathBase<LowerMathPass> {
public:
  using LowerMathBase::LowerMathBase;
  void runOnOperation() override;

private:
  LogicalResult approximate(const TargetInfo &info);
  LogicalResult callLibm();
};
} // namespace

//===----------------------------------------------------------------------===//
// bf16 without instructions for it
//===----------------------------------------------------------------------===//

static bool isConversion(Value wide, Value narrow) {
  return getElementTypeOrSelf(wide.getType()).isF32() &&
         getElementTypeOrSelf(narrow.getType()).isBF16();
}

namespace {
/// Adds half of the last bit kept, less one where that bit is even, and cuts:
/// nearest, ties to even. All in lanes of i32, which every target has.
class ExpandToBF16 : public OpRewritePattern<arith::TruncFOp> {
public:
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::TruncFOp op,
                                PatternRewriter &rewriter) const override;
};

class ExpandFromBF16 : public OpRewritePattern<arith::ExtFOp> {
public:
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(arith::ExtFOp op,
                                PatternRewriter &rewriter) const override;
};
} // namespace

LogicalResult ExpandToBF16::matchAndRewrite(arith::TruncFOp op,
                                            PatternRewriter &rewriter) const {
  Value x = op.getIn();
  if (!isConversion(x, op.getOut()))
    return rewriter.notifyMatchFailure(op, "not from f32 to bf16");
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
  codegen::Lanes l(b, b.getF32Type());
  Type i32 = b.getI32Type();
  auto word = [&](int64_t value) {
    return l.broadcast(l.integer(i32, value), x);
  };
  Value bits = arith::BitcastOp::create(b, l.typeLike(i32, x), x);
  Value last = arith::AndIOp::create(
      b, arith::ShRUIOp::create(b, bits, word(16)), word(1));
  Value rounded = l.addInt(l.addInt(bits, word(0x7fff)), last);
  // Rounding could carry a NaN over to zero; it becomes a quiet one.
  Value quiet = arith::OrIOp::create(b, bits, word(0x400000));
  Value isNaN = l.compare(arith::CmpFPredicate::UNO, x, x);
  Value upper =
      arith::ShRUIOp::create(b, l.select(isNaN, quiet, rounded), word(16));
  Value half = arith::TruncIOp::create(b, l.typeLike(b.getI16Type(), x), upper);
  rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), half);
  return success();
}

LogicalResult ExpandFromBF16::matchAndRewrite(arith::ExtFOp op,
                                              PatternRewriter &rewriter) const {
  Value x = op.getIn();
  if (!isConversion(op.getOut(), x))
    return rewriter.notifyMatchFailure(op, "not from bf16 to f32");
  ImplicitLocOpBuilder b(op.getLoc(), rewriter);
  codegen::Lanes l(b, b.getF32Type());
  Type i32 = b.getI32Type();
  Value half = arith::BitcastOp::create(b, l.typeLike(b.getI16Type(), x), x);
  Value wide = arith::ExtUIOp::create(b, l.typeLike(i32, x), half);
  Value bits =
      arith::ShLIOp::create(b, wide, l.broadcast(l.integer(i32, 16), wide));
  rewriter.replaceOpWithNewOp<arith::BitcastOp>(op, op.getType(), bits);
  return success();
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

/// The functions of f32 that polynomials compute to a few units in the last
/// place, over their whole range.
static bool hasPolynomial(StringRef op) {
  return llvm::is_contained(
      {math::ExpOp::getOperationName(), math::LogOp::getOperationName(),
       math::Log1pOp::getOperationName(), math::TanhOp::getOperationName()},
      op);
}

LogicalResult LowerMathPass::approximate(const TargetInfo &info) {
  RewritePatternSet patterns(&getContext());
  populateMathPolynomialApproximationPatterns(patterns, hasPolynomial);
  if (!info.hasNativeBF16Conversion())
    patterns.add<ExpandToBF16, ExpandFromBF16>(&getContext());
  return applyPatternsGreedily(getOperation(), std::move(patterns));
}

LogicalResult LowerMathPass::callLibm() {
  RewritePatternSet patterns(&getContext());
  populateMathToLibmConversionPatterns(patterns);
  ConversionTarget target(getContext());
  target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
  target.addIllegalOp<math::ExpOp, math::LogOp, math::Log1pOp, math::TanhOp,
                      math::PowFOp>();
  return applyPartialConversion(getOperation(), target, std::move(patterns));
}

void LowerMathPass::runOnOperation() {
  llvm::Expected<TargetInfo> info = TargetInfo::get(target);
  if (!info) {
    getOperation().emitError(llvm::toString(info.takeError()));
    return signalPassFailure();
  }
  if (failed(approximate(*info)) || failed(callLibm()))
    signalPassFailure();
}
