// Recognises the softmax of a loss. log(softmax(x)) becomes log_softmax(x). The
// likelihood loss of a log_softmax over axis 1 becomes the softmax cross
// entropy of the scores. The new ops keep small probabilities, which a softmax
// would round to zero. Reshapes and transposes may lie between softmax and
// logarithm: before opset 13, a softmax over another axis than the last needs
// them.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/Match.h"
#include "passes/Recognition/Passes.h"

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZECROSSENTROPYPASS
#include "passes/Recognition/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// Matches log(softmax(x)) -> log_softmax(x).
struct RecognizeLogSoftmax : OpRewritePattern<LogOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(LogOp op,
                                PatternRewriter &rewriter) const override;
};

/// Matches transpose(log_softmax(transpose(x))) -> log_softmax(x) over another
/// axis, if the transposes are inverse to each other.
struct RecognizeMovedLogSoftmax : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override;
};

/// Matches nll_loss(log_softmax(x)) -> softmax_cross_entropy_loss(x).
struct RecognizeCrossEntropy : OpRewritePattern<NLLLossOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(NLLLossOp op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizeCrossEntropyPass
    : public mpc::impl::RecognizeCrossEntropyPassBase<
          RecognizeCrossEntropyPass> {
  void runOnOperation() override {
    if (failed(applyRecognizers<RecognizeLogSoftmax, RecognizeMovedLogSoftmax,
                                RecognizeCrossEntropy>(getOperation())))
      signalPassFailure();
  }
};
} // namespace

LogicalResult
RecognizeLogSoftmax::matchAndRewrite(LogOp op,
                                     PatternRewriter &rewriter) const {
  Match match(op);
  // Look through reshapes and transposes between the softmax and its logarithm.
  SmallVector<Operation *> moves;
  Value moved = op.getInput();
  while (Operation *move = moved.getDefiningOp()) {
    if (!match.take<ReshapeOp>(moved) && !match.take<TransposeOp>(moved))
      break;
    moves.push_back(move);
    moved = move->getOperand(0);
  }
  auto softmax = match.take<SoftmaxOp>(moved);
  if (!softmax || !match.isClosed())
    return rewriter.notifyMatchFailure(
        op, "expected the log of a softmax that no other op reads");
  // Create log_softmax in place of the softmax, then repeat the reshapes and
  // transposes.
  Operation *result =
      LogSoftmaxOp::create(rewriter, match.getLocation(), softmax.getType(),
                           softmax.getInput(), softmax.getAxisAttr());
  copyPhase(op, result);
  for (Operation *move : llvm::reverse(moves)) {
    Value before = result->getResult(0);
    result = rewriter.clone(*move);
    result->setOperand(0, before);
  }
  match.replace(result, rewriter);
  return success();
}

LogicalResult
RecognizeMovedLogSoftmax::matchAndRewrite(TransposeOp op,
                                          PatternRewriter &rewriter) const {
  Match match(op);
  auto rates = match.take<LogSoftmaxOp>(op.getInput());
  auto before =
      rates ? match.take<TransposeOp>(rates.getInput()) : TransposeOp();
  if (!before || !match.isClosed())
    return rewriter.notifyMatchFailure(
        op, "expected a transpose around a log_softmax of a transpose, without "
            "other readers");
  ArrayRef<int64_t> perm = before.getPerm();
  for (auto [axis, from] : llvm::enumerate(op.getPerm()))
    if (perm[from] != static_cast<int64_t>(axis))
      return rewriter.notifyMatchFailure(
          op, "the two transposes do not cancel out");
  auto both = LogSoftmaxOp::create(
      rewriter, match.getLocation(), op.getType(), before.getInput(),
      rewriter.getI64IntegerAttr(perm[rates.getAxis()]));
  match.replace(both, rewriter);
  return success();
}

LogicalResult
RecognizeCrossEntropy::matchAndRewrite(NLLLossOp op,
                                       PatternRewriter &rewriter) const {
  Match match(op);
  auto rates = match.take<LogSoftmaxOp>(op.getLogProb());
  if (!rates || rates.getAxis() != 1 || !match.isClosed())
    return rewriter.notifyMatchFailure(
        op, "expected a log_softmax over axis 1 that no other op reads");
  SmallVector<Value> operands(op->getOperands());
  operands[0] = rates.getInput();
  auto loss = SoftmaxCrossEntropyLossOp::create(
      rewriter, match.getLocation(),
      TypeRange{op.getLoss().getType(), rates.getType()}, operands,
      op->getAttrs());
  match.replace(loss, rewriter);
  return success();
}
