// Moves scaling before transposes and reshapes, where scaling can join the
// kernel that computes the operand. Between a transpose and a matrix product,
// scaling would be a separate kernel. For example, PyTorch's exporter scales
// the queries of an attention between the projection's transpose and the
// product of queries and keys.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"
#include "passes/Fusion/Scaling.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mpc {
#define GEN_PASS_DEF_SINKMOVEMENTPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

/// True if `op` only changes order or shape of its operand's elements.
static bool rearranges(Operation *op) {
  return op && isa<TransposeOp, ReshapeOp>(op);
}

/// True if scaling `value` can join the kernel that computes `value`: an
/// elementwise op or a contraction, without other users.
static bool canBeJoined(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer && value.hasOneUse() &&
         (hasRole(producer, RegionRole::Elementwise) ||
          hasRole(producer, RegionRole::Contraction));
}

/// True if an op equal to `op`, but reading `value`, exists already. After the
/// move, CSE merges both. For example, two products read a cast gradient, one
/// of them in another shape; one cast serves both.
static bool isScaledAlready(Value value, Operation *op) {
  OpOperand *scaled = findScaledOperand(op);
  return llvm::any_of(value.getUsers(), [&](Operation *user) {
    bool isLike =
        user->getName() == op->getName() && user->getNumResults() == 1 &&
        user->getNumOperands() == op->getNumOperands() &&
        elementOf(user->getResult(0)) == elementOf(op->getResult(0)) &&
        user->getPropertiesAsAttribute() == op->getPropertiesAsAttribute();
    return isLike && llvm::all_of(op->getOpOperands(), [&](OpOperand &operand) {
             Value read = user->getOperand(operand.getOperandNumber());
             return read == (&operand == scaled ? value : operand.get());
           });
  });
}

static unsigned bitsOf(Value value) {
  return elementOf(value).getIntOrFloatBitWidth();
}

/// True if `op` scales `input` to elements that are at most as wide.
static bool isScalingOf(Operation *op, Value input) {
  OpOperand *scaled = findScaledOperand(op);
  return scaled && scaled->get() == input &&
         bitsOf(op->getResult(0)) <= bitsOf(input);
}

/// True if only matrix products and attention of a library read `value`,
/// possibly through transposes, reshapes and further scaling. Then no later
/// kernel can fuse the op that computes `value`.
static bool isOnlyMultiplied(Value value) {
  // Skip further scaling of the value, which moves before the transposes too.
  while (value.hasOneUse() && isScalingOf(*value.user_begin(), value))
    value = value.user_begin()->getResult(0);
  return !value.use_empty() &&
         llvm::all_of(value.getUsers(), [](Operation *user) {
           return rearranges(user) || hasRole(user, RegionRole::Contraction) ||
                  hasRole(user, RegionRole::Library);
         });
}

namespace {
/// e(move(x), scalars) -> move(e(x, scalars)), where `move` is a transpose or
/// reshape
struct SinkMovement : RewritePattern {
  explicit SinkMovement(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

struct SinkMovementPass
    : public mpc::impl::SinkMovementPassBase<SinkMovementPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<SinkMovement>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace

LogicalResult SinkMovement::matchAndRewrite(Operation *op,
                                            PatternRewriter &rewriter) const {
  OpOperand *scaled = findScaledOperand(op);
  if (!scaled || !isScalingOf(op, scaled->get()))
    return rewriter.notifyMatchFailure(op, "does not scale one operand");
  // Walk back over the transposes and reshapes before the scaling to the value
  // that they move.
  SmallVector<Operation *> moves;
  Value source = scaled->get();
  while (rearranges(source.getDefiningOp()) && source.hasOneUse()) {
    moves.push_back(source.getDefiningOp());
    source = moves.back()->getOperand(0);
  }
  if (moves.empty() || !(canBeJoined(source) || isScaledAlready(source, op)))
    return rewriter.notifyMatchFailure(op, "no kernel in front takes it");
  if (!isOnlyMultiplied(op->getResult(0)))
    return rewriter.notifyMatchFailure(op, "a kernel behind it may take it");

  // Scale first, then repeat the transposes and reshapes on the element type of
  // the scaled value.
  Value moved = scaleInstead(op, source, rewriter);
  for (Operation *move : llvm::reverse(moves)) {
    OperationState again(move->getLoc(), move->getName());
    again.addAttributes(move->getAttrs());
    again.operands.push_back(moved);
    again.types.push_back(typeOf(move->getResult(0)).clone(elementOf(moved)));
    moved = rewriter.create(again)->getResult(0);
  }
  rewriter.replaceOp(op, moved);
  return success();
}
