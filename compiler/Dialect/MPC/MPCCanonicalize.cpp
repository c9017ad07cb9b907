// Folders and canonicalization patterns of mpc ops: identities of data
// movement. Arithmetic of floats is never rewritten, so that numerics stay the
// model's; that of constant integers is in MPCFold.cpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/PatternMatch.h"

using namespace mlir;
using namespace mpc;

OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

// Folds an op without effect on a value of its own result type.
template <typename OpTy>
static OpFoldResult foldIdentity(OpTy op) {
  return op.getInput().getType() == op.getType() ? op.getInput() : Value();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) { return foldIdentity(*this); }
OpFoldResult ExpandOp::fold(FoldAdaptor) { return foldIdentity(*this); }
OpFoldResult SumToSizeOp::fold(FoldAdaptor) { return foldIdentity(*this); }

// A box as large as its tensor; one that runs backwards is no identity.
OpFoldResult SliceOp::fold(FoldAdaptor) {
  return isDense(getStrides()) ? foldIdentity(*this) : Value();
}
OpFoldResult PadOp::fold(FoldAdaptor) {
  return isDense(getStrides()) ? foldIdentity(*this) : Value();
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  if (llvm::equal(getPerm(), llvm::seq<int64_t>(0, getPerm().size())))
    return foldIdentity(*this);
  return {};
}

namespace {
/// reshape(reshape(x)) -> reshape(x)
struct MergeReshapes : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReshapeOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<ReshapeOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "input is not a reshape");
    rewriter.replaceOpWithNewOp<ReshapeOp>(op, op.getType(), inner.getInput());
    return success();
  }
};

/// transpose(transpose(x)) -> transpose(x) with the composed permutation
struct MergeTransposes : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<TransposeOp>();
    if (!inner)
      return rewriter.notifyMatchFailure(op, "input is not a transpose");
    SmallVector<int64_t> perm;
    for (int64_t axis : op.getPerm())
      perm.push_back(inner.getPerm()[axis]);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(), inner.getInput(),
                                             perm);
    return success();
  }
};
} // namespace

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                            MLIRContext *context) {
  patterns.add<MergeReshapes>(context);
}

void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns,
                                              MLIRContext *context) {
  patterns.add<MergeTransposes>(context);
}
