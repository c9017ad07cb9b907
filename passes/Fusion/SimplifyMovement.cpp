// Simplifies transposes. Transposes move in front of views that merge the moved
// axes, and concats replace transposes of concats.
//
// An attention may hold samples and heads in one axis, as PyTorch's
// multi_head_attention_forward does, then transpose and split that axis. No
// strides describe a merged axis whose parts are not adjacent. The attention
// also joins queries, keys and values by a concat and a transpose; a concat
// along another axis has the same effect.
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

/// Returns the extents into which each axis of `to` splits, in the coarsest
/// shape that both `from` and `to` are views of. (8, 4, 16) viewed as (8, 8, 8)
/// gives {8}, {4, 2}, {8}. nullopt if there is no such shape.
static std::optional<SmallVector<SmallVector<int64_t, 2>>>
findRefinement(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<SmallVector<int64_t, 2>> refined;
  // The rest of the current axis of `from`.
  int64_t left = 1;
  for (int64_t extent : to) {
    SmallVector<int64_t, 2> &parts = refined.emplace_back();
    // Collect parts until they make up the extent.
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

/// Views `value` in another shape.
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
/// view(transpose(view(x))) -> view(transpose(x)), on the axes that the first
/// view merges.
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
    // Number the parts of all axes, then list them in the transposed order.
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

/// transpose(join(a, b)) -> join(view(a), view(b)), if transposing each part
/// alone moves no element.
struct JoinInPlace : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override;
};
} // namespace

/// Returns the axis of `view` that corresponds to `axis` of `shape`; nullopt if
/// the shapes differ in more than axes of size 1, or if `axis` has size 1.
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
  // Find a join without other readers, possibly behind a view that only adds or
  // drops axes of size 1.
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
  // Compute the shape of each part after the transpose.
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
