// Simplifies transposes and concats that exporters write around attention.
//
// PyTorch's multi_head_attention_forward merges samples and heads into one
// axis, transposes, and splits the axis again. After the transpose, the parts
// of the merged axis are not adjacent, so no strides describe the axis. If the
// transpose moves the split axes instead, strides describe every axis. The
// exporter also joins queries, keys and values by a concat and a transpose; a
// concat along another axis has the same effect.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Movement.h"
#include "passes/Fusion/Passes.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mpc {
#define GEN_PASS_DEF_SIMPLIFYMOVEMENTPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

/// Splits the axes of `to` until the result is also a view of `from` with split
/// axes: the coarsest common refinement. Returns the extents into which each
/// axis of `to` splits. For `from` (8, 4, 16) and `to` (8, 8, 8): {8}, {4, 2},
/// {8}. nullopt if there is none.
static std::optional<SmallVector<SmallVector<int64_t, 2>>>
findRefinement(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<SmallVector<int64_t, 2>> refined;
  // The part of the current axis of `from` that is still to be matched.
  int64_t left = 1;
  for (int64_t extent : to) {
    SmallVector<int64_t, 2> &parts = refined.emplace_back();
    // Take parts of `from` until their product is the extent of the axis.
    for (int64_t missing = extent; missing != 1;) {
      while (left == 1 && !from.empty()) {
        left = from.front();
        from = from.drop_front();
      }
      int64_t part = std::min(left, missing);
      if (part <= 1 || left % part != 0 || missing % part != 0)
        return std::nullopt;
      parts.push_back(part);
      left /= part;
      missing /= part;
    }
    if (parts.empty())
      parts.push_back(1);
  }
  return refined;
}

static SmallVector<int64_t> dropUnits(ArrayRef<int64_t> shape) {
  SmallVector<int64_t> dropped;
  llvm::copy_if(shape, std::back_inserter(dropped),
                [](int64_t extent) { return extent != 1; });
  return dropped;
}

static SmallVector<int64_t> permute(ArrayRef<int64_t> shape,
                                    ArrayRef<int64_t> perm) {
  return llvm::map_to_vector(perm, [&](int64_t axis) { return shape[axis]; });
}

bool mpc::keepsOrder(ArrayRef<int64_t> shape, ArrayRef<int64_t> perm) {
  SmallVector<int64_t> order;
  llvm::copy_if(perm, std::back_inserter(order),
                [&](int64_t axis) { return shape[axis] != 1; });
  return llvm::is_sorted(order);
}

/// Reshapes `value` to `shape`, if necessary.
static Value view(PatternRewriter &rewriter, Location location, Value value,
                  ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  return ReshapeOp::create(rewriter, location, typeOf(value).clone(shape),
                           value);
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {
/// view(transpose(view(x))) -> view(transpose(x)): transposes the axes before
/// the first view merges them.
struct MoveParts : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    auto merge = op.getInput().getDefiningOp<ReshapeOp>();
    bool isViewed = llvm::all_of(op->getUsers(), llvm::IsaPred<ReshapeOp>);
    if (!merge || !isViewed || typeOf(op.getOutput()).getNumElements() == 0)
      return rewriter.notifyMatchFailure(op, "is not between views");
    auto parts =
        findRefinement(shapeOf(merge.getInput()), shapeOf(merge.getOutput()));
    if (!parts || llvm::all_of(*parts, [](ArrayRef<int64_t> axis) {
          return axis.size() == 1;
        }))
      return rewriter.notifyMatchFailure(op, "the view merges no axes");
    // Transpose the split axes: all parts of a merged axis move together.
    SmallVector<int64_t> first, shape, perm;
    for (const auto &axis : *parts) {
      first.push_back(shape.size());
      llvm::append_range(shape, axis);
    }
    for (int64_t axis : op.getPerm())
      llvm::append_range(
          perm,
          llvm::seq<int64_t>(first[axis], first[axis] + (*parts)[axis].size()));
    Value source = view(rewriter, merge.getLoc(), merge.getInput(), shape);
    auto moved = TransposeOp::create(rewriter, op.getLoc(),
                                     typeOf(source).clone(permute(shape, perm)),
                                     source, perm);
    moved->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    rewriter.replaceOp(op, view(rewriter, merge.getLoc(), moved.getOutput(),
                                shapeOf(op.getOutput())));
    return success();
  }
};

/// transpose(concat(a, b)) -> concat(view(a), view(b)), if a transpose of each
/// operand alone would leave its elements in place.
struct JoinInPlace : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override;
};
} // namespace

/// Returns the axis of `view` that corresponds to `axis` of `shape`. The shapes
/// may differ in axes of size 1: axis 1 of (8, 4) is axis 2 of (8, 1, 4).
/// nullopt if the shapes differ otherwise, or if `axis` has size 1.
static std::optional<int64_t> findAxis(ArrayRef<int64_t> shape,
                                       ArrayRef<int64_t> view, int64_t axis) {
  if (shape[axis] == 1 || dropUnits(shape) != dropUnits(view))
    return std::nullopt;
  size_t rank = dropUnits(shape.take_front(axis)).size();
  for (auto [number, extent] : llvm::enumerate(view))
    if (extent != 1 && rank-- == 0)
      return number;
  return std::nullopt;
}

LogicalResult JoinInPlace::matchAndRewrite(TransposeOp op,
                                           PatternRewriter &rewriter) const {
  // Find a concat that only the transpose reads, possibly through a view that
  // adds or drops axes of size 1.
  Value joined = op.getInput();
  auto between = joined.getDefiningOp<ReshapeOp>();
  if (between && joined.hasOneUse())
    joined = between.getInput();
  auto join = joined.getDefiningOp<ConcatOp>();
  if (!join || !joined.hasOneUse())
    return rewriter.notifyMatchFailure(op, "moves no join");
  ArrayRef<int64_t> whole = shapeOf(op.getInput());
  std::optional<int64_t> axis =
      findAxis(shapeOf(joined), whole, join.getAxis());
  if (!axis)
    return rewriter.notifyMatchFailure(op, "the view has other axes");
  // Compute the shape of each concat operand after the transpose.
  SmallVector<SmallVector<int64_t>> shapes;
  for (Value part : join.getInputs()) {
    SmallVector<int64_t> shape(whole);
    shape[*axis] = shapeOf(part)[join.getAxis()];
    shapes.push_back(permute(shape, op.getPerm()));
    if (!keepsOrder(shape, op.getPerm()))
      return rewriter.notifyMatchFailure(op, "elements of a part are moved");
  }
  SmallVector<Value> parts;
  for (auto [part, shape] : llvm::zip_equal(join.getInputs(), shapes))
    parts.push_back(view(rewriter, op.getLoc(), part, shape));
  auto moved = llvm::find(op.getPerm(), *axis) - op.getPerm().begin();
  auto inPlace = ConcatOp::create(rewriter, join.getLoc(),
                                  op.getOutput().getType(), parts, moved);
  inPlace->setDiscardableAttrs(join->getDiscardableAttrDictionary());
  rewriter.replaceOp(op, inPlace.getOutput());
  return success();
}

namespace {
struct SimplifyMovementPass
    : public mpc::impl::SimplifyMovementPassBase<SimplifyMovementPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<MoveParts, JoinInPlace>(&getContext());
    ReshapeOp::getCanonicalizationPatterns(patterns, &getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};
} // namespace
