// Recognises x * sigmoid(alpha * x): SiLU if alpha is 1 or absent, and an
// approximation of GELU if alpha is 1.702.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/Match.h"
#include "passes/Recognition/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZESWISHPASS
#include "passes/Recognition/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct RecognizeSwish : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizeSwishPass
    : public mpc::impl::RecognizeSwishPassBase<RecognizeSwishPass> {
  void runOnOperation() override {
    if (failed(applyRecognizers<RecognizeSwish>(getOperation())))
      signalPassFailure();
  }
};
} // namespace

LogicalResult RecognizeSwish::matchAndRewrite(MulOp op,
                                              PatternRewriter &rewriter) const {
  for (unsigned i : {0, 1}) {
    Match match(op);
    Value x = op->getOperand(i);
    auto sigmoid = match.take<SigmoidOp>(op->getOperand(1 - i));
    if (!sigmoid || x.getType() != op.getType())
      continue;
    // The sigmoid may read alpha * x, with a constant alpha.
    double alpha = 1;
    if (sigmoid.getInput() != x) {
      Product argument = matchProduct(sigmoid.getInput(), match);
      if (argument.factors.size() != 1 || argument.factors[0] != x)
        continue;
      alpha = argument.number;
    }
    if (!match.isClosed())
      return rewriter.notifyMatchFailure(
          op, "other ops read inner values of the formula");
    auto swish = SwishOp::create(rewriter, match.getLocation(), op.getType(), x,
                                 rewriter.getF64FloatAttr(alpha));
    match.replace(swish, rewriter);
    return success();
  }
  return rewriter.notifyMatchFailure(op, "expected x * sigmoid(alpha * x)");
}
