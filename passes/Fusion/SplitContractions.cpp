// Moves bias, C and beta out of contractions into elementwise ops, which can
// join a kernel's epilogue. Also brings matrix products into the form of a plan
// step: transposes of the last two axes become flags, and an operand has either
// all batches of the result or one batch.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/TF32.h"
#include "passes/Fusion/Passes.h"
#include "passes/Fusion/Scaling.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mpc {
#define GEN_PASS_DEF_SPLITCONTRACTIONSPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

// Returns the type that `op` accumulates in.
static Type computeType(Operation *op) {
  bool wide = llvm::any_of(op->getOperandTypes(), [](Type type) {
    return cast<RankedTensorType>(type).getElementType().isF64();
  });
  wide |= elementOf(op->getResult(0)).isF64();
  return wide ? Type(Float64Type::get(op->getContext()))
              : Type(Float32Type::get(op->getContext()));
}

// Gives the ops that compute `values` the phase of `from`, the op they replace.
static void copyPhase(Operation *from, ArrayRef<Value> values) {
  for (Value value : values)
    copyPhase(from, value.getDefiningOp());
}

namespace {
/// gemm(a, b, c) -> matmul(a, b) + beta * c
struct SplitGemm : OpRewritePattern<GemmOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(GemmOp op,
                                PatternRewriter &rewriter) const override {
    // Before the addition of C, keep the product in the compute type, so that
    // only the sum is rounded.
    Type compute = computeType(op);
    auto exact = RankedTensorType::get(op.getType().getShape(), compute);
    bool addsC = op.getC() && !op.getBeta().isZero();
    Value product = MatMulOp::create(
        rewriter, op.getLoc(), addsC ? exact : op.getType(), op.getA(),
        op.getB(), op.getTransA(), op.getTransB(), op.getAlpha());
    copyPhase(op, product);
    amp::copyTF32(op, product.getDefiningOp());
    if (!addsC) {
      rewriter.replaceOp(op, product);
      return success();
    }
    Value c = op.getC();
    if (!op.getBeta().isExactlyValue(1.0)) {
      auto scalar = RankedTensorType::get({}, compute);
      Value beta = ConstantOp::create(
          rewriter, op.getLoc(), scalar,
          DenseElementsAttr::get(
              scalar,
              rewriter.getFloatAttr(compute, op.getBeta().convertToDouble())));
      c = MulOp::create(rewriter, op.getLoc(),
                        RankedTensorType::get(shapeOf(c), compute), c, beta);
      copyPhase(op, c);
    }
    Value sum = AddOp::create(rewriter, op.getLoc(), op.getType(), product, c);
    copyPhase(op, sum);
    rewriter.replaceOp(op, sum);
    return success();
  }
};

/// conv(x, w, bias) -> conv(x, w) + bias
struct SplitConvBias : OpRewritePattern<ConvOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ConvOp op,
                                PatternRewriter &rewriter) const override {
    if (!op.getBias())
      return rewriter.notifyMatchFailure(op, "has no bias");
    // Keep the convolution in the compute type, so that only the sum with the
    // bias is rounded.
    auto exact =
        RankedTensorType::get(op.getType().getShape(), computeType(op));
    Value conv = ConvOp::create(
        rewriter, op.getLoc(), exact, op.getInput(), op.getWeight(), Value(),
        op.getStridesAttr(), op.getPadsAttr(), op.getDilationsAttr(),
        op.getGroupAttr(), op.getLayoutAttr(), op.getFilterLayoutAttr());
    amp::copyTF32(op, conv.getDefiningOp());
    // In NCHW, a bias per channel is a column: (c) becomes (c, 1, 1).
    Value bias = op.getBias();
    if (op.getLayout() != Layout::NHWC) {
      SmallVector<int64_t> shape = {shapeOf(bias)[0]};
      shape.append(op.getType().getRank() - 2, 1);
      bias = ReshapeOp::create(rewriter, op.getLoc(),
                               RankedTensorType::get(shape, elementOf(bias)),
                               bias);
      copyPhase(op, bias);
    }
    Value sum = AddOp::create(rewriter, op.getLoc(), op.getType(), conv, bias);
    copyPhase(op, {conv, sum});
    rewriter.replaceOp(op, sum);
    return success();
  }
};

/// matmul(transpose(a), b) -> matmul(a, b) {transA}, and likewise for b. If the
/// transpose also moves batches, a transpose that keeps rows whole remains:
/// transpose(a) {perm = [0, 2, 3, 1]} -> transpose(a) {perm = [0, 2, 1, 3]}
struct FoldTranspose : OpRewritePattern<MatMulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MatMulOp op,
                                PatternRewriter &rewriter) const override {
    for (OpOperand &operand : op->getOpOperands()) {
      auto transpose = operand.get().getDefiningOp<TransposeOp>();
      if (!transpose || !turnsRows(transpose.getPerm()))
        continue;
      Value kept = keepRows(transpose, rewriter);
      rewriter.modifyOpInPlace(op, [&] {
        operand.set(kept);
        if (operand.getOperandNumber() == 0)
          op.setTransA(!op.getTransA());
        else
          op.setTransB(!op.getTransB());
      });
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no operand has columns that were "
                                           "rows");
  }

private:
  /// True if the permutation moves the last axis to the second to last place:
  /// rows become columns.
  static bool turnsRows(ArrayRef<int64_t> perm) {
    int64_t rank = perm.size();
    return rank >= 2 && perm[rank - 2] == rank - 1;
  }

  /// Returns the operand of `transpose`, permuted like `transpose` but with the
  /// last two axes in their original order. Reuses an equal transpose.
  static Value keepRows(TransposeOp transpose, PatternRewriter &rewriter) {
    SmallVector<int64_t> perm(transpose.getPerm()), shape;
    std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
    Value input = transpose.getInput();
    if (llvm::equal(perm, llvm::seq<int64_t>(0, perm.size())))
      return input;
    // Reuse an equal transpose, in case both operands of the product come from
    // one value.
    for (Operation *user : input.getUsers())
      if (auto other = dyn_cast<TransposeOp>(user);
          other && other.getPerm() == ArrayRef<int64_t>(perm) &&
          other.getType().getElementType() ==
              transpose.getType().getElementType() &&
          (other->isBeforeInBlock(transpose)))
        return other.getOutput();
    for (int64_t axis : perm)
      shape.push_back(shapeOf(input)[axis]);
    OpBuilder::InsertionGuard guard(rewriter);
    rewriter.setInsertionPoint(transpose);
    Value kept =
        TransposeOp::create(rewriter, transpose.getLoc(),
                            transpose.getType().clone(shape), input, perm);
    copyPhase(transpose, kept);
    return kept;
  }
};

/// transpose(matmul(a, b)) -> matmul(b^T, a^T), since (a b)^T = b^T a^T. The
/// sums keep their order. The transpose may also move batches, and the product
/// may be scaled before the transpose; the new product is scaled instead.
struct TurnProduct : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    // Collect the ops that scale the product, last first.
    SmallVector<Operation *> scalings;
    Value value = op.getInput();
    while (Operation *scaling = findScaling(value)) {
      scalings.push_back(scaling);
      value = findScaledOperand(scaling)->get();
    }
    auto product = value.getDefiningOp<MatMulOp>();
    if (!product || !turnsRows(op) || !isOnlyTurned(product.getOutput()))
      return rewriter.notifyMatchFailure(op, "turns no product");

    // (A B)^T = B^T A^T: exchange the operands and invert their flags.
    int64_t rank = op.getPerm().size();
    SmallVector<int64_t> shape(product.getType().getShape());
    std::swap(shape[rank - 1], shape[rank - 2]);
    Value turned = MatMulOp::create(
        rewriter, product.getLoc(), product.getType().clone(shape),
        product.getRhs(), product.getLhs(), !product.getTransB(),
        !product.getTransA(), product.getAlpha());
    copyPhase(product, turned);
    amp::copyTF32(product, turned.getDefiningOp());
    for (Operation *scaling : llvm::reverse(scalings))
      turned = scaleInstead(scaling, turned, rewriter);
    // After the exchange of rows and columns, `perm` may still move batches.
    SmallVector<int64_t> perm(op.getPerm());
    for (int64_t &axis : perm)
      axis = axis == rank - 1 ? rank - 2 : axis == rank - 2 ? rank - 1 : axis;
    if (llvm::equal(perm, llvm::seq<int64_t>(0, rank))) {
      rewriter.replaceOp(op, turned);
      return success();
    }
    auto rest = rewriter.replaceOpWithNewOp<TransposeOp>(op, op.getType(),
                                                         turned, perm);
    copyPhase(product, rest.getOutput());
    return success();
  }

private:
  /// Returns the op that computes `value` by scaling; null if another op does.
  static Operation *findScaling(Value value) {
    Operation *op = value.getDefiningOp();
    return op && findScaledOperand(op) ? op : nullptr;
  }

  /// True if the transpose moves the second to last axis to the last place.
  static bool turnsRows(TransposeOp op) {
    int64_t rank = op.getPerm().size();
    return rank >= 2 && op.getPerm()[rank - 1] == rank - 2;
  }

  /// True if every reader of `product` transposes the last two axes, possibly
  /// after scaling by a scalar.
  static bool isOnlyTurned(Value product) {
    SmallVector<Value> scaled = {product};
    while (!scaled.empty())
      for (Operation *user : scaled.pop_back_val().getUsers()) {
        auto transpose = dyn_cast<TransposeOp>(user);
        if (!transpose && findScaledOperand(user) && !user->use_empty())
          scaled.push_back(user->getResult(0));
        else if (!transpose || !turnsRows(transpose))
          return false;
      }
    return true;
  }
};

/// Broadcasts an operand with some but not all batches of the result to all
/// batches: [1, 4] of batches [8, 4] becomes [8, 4].
struct ExpandBatches : OpRewritePattern<MatMulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(MatMulOp op,
                                PatternRewriter &rewriter) const override {
    ArrayRef<int64_t> batches = op.getType().getShape().drop_back(2);
    for (OpOperand &operand : op->getOpOperands()) {
      ArrayRef<int64_t> shape = shapeOf(operand.get());
      if (hasAllOrOne(shape.drop_back(2), batches))
        continue;
      SmallVector<int64_t> full(batches);
      llvm::append_range(full, shape.take_back(2));
      Value expanded = ExpandOp::create(
          rewriter, op.getLoc(),
          RankedTensorType::get(full, elementOf(operand.get())), operand.get());
      copyPhase(op, expanded);
      rewriter.modifyOpInPlace(op, [&] { operand.set(expanded); });
      return success();
    }
    return rewriter.notifyMatchFailure(op, "batches need no expansion");
  }

private:
  static bool hasAllOrOne(ArrayRef<int64_t> own, ArrayRef<int64_t> batches) {
    bool one = llvm::all_of(own, [](int64_t extent) { return extent == 1; });
    size_t missing = batches.size() - own.size();
    bool all = own == batches.drop_front(missing) &&
               llvm::all_of(batches.take_front(missing),
                            [](int64_t extent) { return extent == 1; });
    return one || all;
  }
};

struct SplitContractionsPass
    : public mpc::impl::SplitContractionsPassBase<SplitContractionsPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<SplitGemm, SplitConvBias, FoldTranspose, TurnProduct,
                 ExpandBatches>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
