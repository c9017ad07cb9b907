// Moves broadcasts behind elementwise ops, until an op broadcasts by itself.
//
// Models build the mask of an attention by repeating it for every query and
// head first, and computing numbers afterwards:
//
//   add(scores, mul(sub(1, expand(mask)), -1e9))
//
// Behind the arithmetic the mask is still [batch, 1, 1, keys], which the sum
// broadcasts. So only the sum has the shape of the scores.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/Match.h"
#include "passes/Recognition/Passes.h"

#include "compiler/Interfaces/IndexedOpInterface.h"

#include "mlir/Interfaces/InferTypeOpInterface.h"

namespace mpc {
#define GEN_PASS_DEF_SINKEXPANDPASS
#include "passes/Recognition/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// Moves an expand behind an elementwise op.
struct SinkExpandThroughElementwise : RewritePattern {
  explicit SinkExpandThroughElementwise(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

/// Drops expands of biases and mask, which mpc.attention broadcasts itself.
struct DropInFrontOfAttention : OpRewritePattern<AttentionOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(AttentionOp op,
                                PatternRewriter &rewriter) const override;
};

struct SinkExpandPass : public mpc::impl::SinkExpandPassBase<SinkExpandPass> {
  void runOnOperation() override {
    if (failed(applyRecognizers<SinkExpandThroughElementwise,
                                DropInFrontOfAttention>(getOperation())))
      signalPassFailure();
  }
};
} // namespace

/// Infers the shape of the result of `op` on `operands`; nullopt if the op has
/// no inference or the operands do not fit.
static std::optional<SmallVector<int64_t>> inferShape(Operation *op,
                                                      ValueRange operands) {
  // A cast keeps the shape of its operand.
  if (op->getNumOperands() == 1 &&
      shapeOf(op->getOperand(0)) == shapeOf(op->getResult(0)))
    return llvm::to_vector(shapeOf(operands.front()));
  auto inferred = dyn_cast<InferShapedTypeOpInterface>(op);
  SmallVector<ShapedTypeComponents> shapes;
  if (!inferred || failed(inferred.inferReturnTypeComponents(
                       op->getContext(), /*location=*/std::nullopt, operands,
                       op->getDiscardableAttrDictionary(),
                       op->getPropertiesStorage(), op->getRegions(), shapes)))
    return std::nullopt;
  return llvm::to_vector(shapes.front().getDims());
}

LogicalResult
SinkExpandThroughElementwise::matchAndRewrite(Operation *op,
                                              PatternRewriter &rewriter) const {
  if (!hasRole(op, RegionRole::Elementwise) || isa<ExpandOp>(op) ||
      op->getNumResults() != 1 || dependsOnPlace(op))
    return rewriter.notifyMatchFailure(
        op, "expected an elementwise op with one result that uses no index");
  // Replace each operand by its value before the expand.
  SmallVector<Value> operands;
  for (Value operand : op->getOperands()) {
    auto expand = operand.getDefiningOp<ExpandOp>();
    operands.push_back(expand ? expand.getInput() : operand);
  }
  if (llvm::equal(operands, op->getOperands()))
    return rewriter.notifyMatchFailure(op, "no operand is an mpc.expand");
  RankedTensorType type = typeOf(op->getResult(0));
  std::optional<SmallVector<int64_t>> shape = inferShape(op, operands);
  if (!shape)
    return rewriter.notifyMatchFailure(
        op, "the shape of the result does not follow from the operands of the "
            "expands");
  // Another operand is as large, so the op itself broadcasts.
  if (ArrayRef<int64_t>(*shape) == type.getShape()) {
    rewriter.modifyOpInPlace(op, [&] { op->setOperands(operands); });
    return success();
  }
  // Otherwise compute the smaller result, and repeat the result.
  rewriter.setInsertionPoint(op);
  Operation *smaller = rewriter.clone(*op);
  smaller->setOperands(operands);
  smaller->getResult(0).setType(type.clone(*shape));
  rewriter.replaceOp(op, ExpandOp::create(rewriter, op->getLoc(), type,
                                          smaller->getResult(0)));
  return success();
}

LogicalResult
DropInFrontOfAttention::matchAndRewrite(AttentionOp op,
                                        PatternRewriter &rewriter) const {
  auto passExpand = [](Value value) -> Value {
    auto expand = value ? value.getDefiningOp<ExpandOp>() : ExpandOp();
    return expand ? expand.getInput() : value;
  };
  SmallVector<Value> biases = llvm::map_to_vector(op.getBiases(), passExpand);
  Value mask = passExpand(op.getMask());
  if (mask == op.getMask() && llvm::equal(biases, op.getBiases()))
    return rewriter.notifyMatchFailure(op,
                                       "no bias and no mask is an mpc.expand");
  rewriter.modifyOpInPlace(op, [&] {
    op.getBiasesMutable().assign(biases);
    if (mask)
      op.getMaskMutable().assign(mask);
  });
  return success();
}
