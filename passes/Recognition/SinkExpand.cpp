// Moves broadcasts (mpc.expand) behind elementwise ops that broadcast their
// operands anyway. Models repeat the mask of an attention for every query and
// head first, and then compute with the large mask:
//
//   add(scores, mul(sub(1, expand(mask)), -1e9))
//
// After the move, the arithmetic works on the mask of [batch, 1, 1, keys], and
// only the final sum has the shape of the scores.
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

/// Removes expands of biases and masks that mpc.attention reads, since
/// mpc.attention broadcasts them.
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

/// Returns the shape of the result of `op` if applied to `operands`; nullopt if
/// unknown, or if the operands do not fit.
static std::optional<SmallVector<int64_t>> inferShape(Operation *op,
                                                      ValueRange operands) {
  // A unary op, such as a cast, keeps the shape of its operand.
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
  // Collect the operands as they are before expands.
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
  // If the shape of the result does not change, `op` broadcasts the smaller
  // operand itself.
  if (ArrayRef<int64_t>(*shape) == type.getShape()) {
    rewriter.modifyOpInPlace(op, [&] { op->setOperands(operands); });
    return success();
  }
  // Otherwise compute a smaller result, and expand the result.
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
