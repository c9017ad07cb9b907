// Computes before it moves: an elementwise op that would be a kernel of its own
// between a transpose and a product goes in front of the transpose, where it
// joins the kernel that made its operand. An attention that scales its queries,
// as PyTorch's exporter writes them, has this between every projection and the
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

/// Whether `op` gives the elements of its operand in another order or shape.
static bool rearranges(Operation *op) {
  return op && isa<TransposeOp, ReshapeOp>(op);
}

/// Whether `value` is made by a kernel that elementwise ops can join, for
/// nobody else.
static bool canBeJoined(Value value) {
  Operation *producer = value.getDefiningOp();
  return producer && value.hasOneUse() &&
         (hasRole(producer, RegionRole::Elementwise) ||
          hasRole(producer, RegionRole::Contraction));
}

/// Whether `op`, which scales, does the same to `value` as another op, which
/// then does it for both: the cast of a gradient for the product that makes a
/// weight's gradient, and for the one that reads it in another shape.
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

/// Whether `op` scales `input` and makes elements no wider.
static bool isScalingOf(Operation *op, Value input) {
  OpOperand *scaled = findScaledOperand(op);
  return scaled && scaled->get() == input &&
         bitsOf(op->getResult(0)) <= bitsOf(input);
}

/// Whether no kernel behind `value` could take over the op that makes it: only
/// products read it, through moves and ops that go in front of these too.
static bool isOnlyMultiplied(Value value) {
  // The last of the ops that scale one the other's result.
  while (value.hasOneUse() && isScalingOf(*value.user_begin(), value))
    value = value.user_begin()->getResult(0);
  return !value.use_empty() &&
         llvm::all_of(value.getUsers(), [](Operation *user) {
           return rearranges(user) || hasRole(user, RegionRole::Contraction);
         });
}

namespace {
/// e(move(x), scalars) -> move(e(x, scalars))
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
  // The transposes and reshapes in front of the scaling, the last one first,
  // and the value in front of them all.
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

  // The scaling goes to the front, and the moves follow with its element type.
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
