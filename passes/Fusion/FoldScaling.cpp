// Folds constant factors into the alpha of matrix products. The factor of an
// operand is folded if only products read the scaled operand. The factor of a
// result is folded if only the scaling reads the product. The scaling of
// queries and keys in attention, and of their gradients, then needs no kernel.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "compiler/Dialect/MPC/Fold/ConstantNumber.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

#include <cmath>

namespace mpc {
#define GEN_PASS_DEF_FOLDSCALINGPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// input * factor.
struct Scaled {
  Value input;
  double factor;
};
} // namespace

/// Returns x and c if `value` is x * c, or x and 1 / c if `value` is x / c, for
/// a constant c; nullopt otherwise.
static std::optional<Scaled> findScaled(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || !isa<MulOp, DivOp>(op))
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    Value input = op->getOperand(i);
    std::optional<double> number = getConstantNumber(op->getOperand(1 - i));
    if (!number || input.getType() != value.getType())
      continue;
    if (isa<MulOp>(op))
      return Scaled{input, *number};
    if (i == 0) // not a constant over the tensor
      return Scaled{input, 1 / *number};
  }
  return std::nullopt;
}

namespace {
/// matmul(x * c, y) {alpha} -> matmul(x, y) {alpha * c}
struct FoldScaling : OpRewritePattern<MatMulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatMulOp op,
                                PatternRewriter &rewriter) const override;
};

/// matmul(x, y) {alpha} * c -> matmul(x, y) {alpha * c}
struct FoldScalingOfResult : RewritePattern {
  explicit FoldScalingOfResult(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

struct FoldScalingPass
    : public mpc::impl::FoldScalingPassBase<FoldScalingPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<FoldScaling, FoldScalingOfResult>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

LogicalResult FoldScaling::matchAndRewrite(MatMulOp op,
                                           PatternRewriter &rewriter) const {
  for (OpOperand &operand : op->getOpOperands()) {
    std::optional<Scaled> scaled = findScaled(operand.get());
    if (!scaled ||
        !llvm::all_of(operand.get().getUsers(), llvm::IsaPred<MatMulOp>))
      continue;
    double alpha = op.getAlpha().convertToDouble() * scaled->factor;
    if (!std::isfinite(alpha))
      continue;
    rewriter.modifyOpInPlace(op, [&] {
      operand.set(scaled->input);
      op.setAlpha(APFloat(alpha));
    });
    return success();
  }
  return rewriter.notifyMatchFailure(op, "no operand is scaled for it");
}

LogicalResult
FoldScalingOfResult::matchAndRewrite(Operation *op,
                                     PatternRewriter &rewriter) const {
  std::optional<Scaled> scaled;
  if (op->getNumResults() == 1)
    scaled = findScaled(op->getResult(0));
  auto product = scaled ? scaled->input.getDefiningOp<MatMulOp>() : MatMulOp();
  if (!product || !scaled->input.hasOneUse())
    return rewriter.notifyMatchFailure(op, "scales no product's result");
  double alpha = product.getAlpha().convertToDouble() * scaled->factor;
  if (!std::isfinite(alpha))
    return rewriter.notifyMatchFailure(op, "alpha would not be finite");
  rewriter.modifyOpInPlace(product, [&] { product.setAlpha(APFloat(alpha)); });
  rewriter.replaceOp(op, scaled->input);
  return success();
}
