// Recognises RMS normalisation written as single ops:
//
//   x / sqrt(mean(x^2) + epsilon) * scale
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/Match.h"
#include "passes/Recognition/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZERMSNORMPASS
#include "passes/Recognition/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct RecognizeRMSNorm : AnyOpPattern {
  using AnyOpPattern::AnyOpPattern;
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizeRMSNormPass
    : public mpc::impl::RecognizeRMSNormPassBase<RecognizeRMSNormPass> {
  void runOnOperation() override {
    if (failed(applyRecognizers<RecognizeRMSNorm>(getOperation())))
      signalPassFailure();
  }
};
} // namespace

LogicalResult
RecognizeRMSNorm::matchAndRewrite(Operation *op,
                                  PatternRewriter &rewriter) const {
  Match match(op);
  auto quotient = matchOverRoot(op, match);
  if (!quotient)
    return rewriter.notifyMatchFailure(
        op, "expected a quotient by the root of a sum");
  ReduceMeanOp mean = matchMean(quotient->square, match);
  if (!mean || matchSquare(mean.getInput(), match) != quotient->numerator)
    return rewriter.notifyMatchFailure(
        op, "expected x over the root of the mean of x * x");
  // A product with the result may follow. Its other factor is the scale.
  Value x = quotient->numerator;
  Match whole = match;
  auto product = whole.extend<MulOp>();
  Value scale =
      product ? matchBroadcast(product, op->getResult(0), x, match) : Value();
  if (scale)
    match = whole;
  if (!match.isClosed())
    return rewriter.notifyMatchFailure(
        op, "other ops read inner values of the formula");
  // mpc.rms_norm needs a scale: 1 if the model has none.
  rewriter.setInsertionPoint(match.getRoot());
  auto type = typeOf(x);
  if (!scale)
    scale = createOne(match, type.getElementType(), rewriter);
  auto norm = RMSNormOp::create(
      rewriter, match.getLocation(), TypeRange{type, mean.getType()}, x, scale,
      mean.getAxesAttr(), rewriter.getF64FloatAttr(quotient->epsilon));
  match.replace(norm, rewriter);
  return success();
}
