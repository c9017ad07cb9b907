// Recognises the softmax in a loss: the logarithm of a softmax is log_softmax,
// and the likelihood loss of log_softmax over axis 1 is the cross entropy of
// its scores. Neither loses the small probabilities that a softmax rounds to
// zero.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/Match.h"
#include "passes/Recognition/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZECROSSENTROPYPASS
#include "passes/Recognition/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// log(softmax(x)) -> log_softmax(x)
struct RecognizeLogSoftmax : OpRewritePattern<LogOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LogOp op,
                                PatternRewriter &rewriter) const override;
};

/// nll_loss(log_softmax(x)) -> softmax_cross_entropy_loss(x)
struct RecognizeCrossEntropy : OpRewritePattern<NLLLossOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(NLLLossOp op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizeCrossEntropyPass
    : public mpc::impl::RecognizeCrossEntropyPassBase<
          RecognizeCrossEntropyPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<RecognizeLogSoftmax, RecognizeCrossEntropy>(&getContext());
    GreedyRewriteConfig config;
    config.enableFolding(false).enableConstantCSE(false);
    if (failed(
            applyPatternsGreedily(getOperation(), std::move(patterns), config)))
      signalPassFailure();
  }
};
} // namespace

LogicalResult
RecognizeLogSoftmax::matchAndRewrite(LogOp op,
                                     PatternRewriter &rewriter) const {
  Match match(op);
  auto softmax = match.take<SoftmaxOp>(op.getInput());
  if (!softmax || !match.isClosed())
    return rewriter.notifyMatchFailure(op, "of no softmax, or of one with "
                                           "other readers");
  auto both = LogSoftmaxOp::create(rewriter, match.getLocation(), op.getType(),
                                   softmax.getInput(), softmax.getAxisAttr());
  match.replace(both, rewriter);
  return success();
}

LogicalResult
RecognizeCrossEntropy::matchAndRewrite(NLLLossOp op,
                                       PatternRewriter &rewriter) const {
  Match match(op);
  auto rates = match.take<LogSoftmaxOp>(op.getLogProb());
  if (!rates || rates.getAxis() != 1 || !match.isClosed())
    return rewriter.notifyMatchFailure(op, "of no log_softmax over axis 1, or "
                                           "of one with other readers");
  SmallVector<Value> operands(op->getOperands());
  operands[0] = rates.getInput();
  auto loss = SoftmaxCrossEntropyLossOp::create(
      rewriter, match.getLocation(),
      TypeRange{op.getLoss().getType(), rates.getType()}, operands,
      op->getAttrs());
  match.replace(loss, rewriter);
  return success();
}
