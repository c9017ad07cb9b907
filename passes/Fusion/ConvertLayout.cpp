// Brings activations into NHWC, and filters into the layout of the target's
// library. In NHWC, all channels of a pixel are adjacent in memory, as
// convolutions, pooling and channel statistics prefer.
//
// Every op with a layout gets NHWC operands by transposes, and transposes its
// results back. The transposes of results then move down through ops that
// ignore the order of axes, until they cancel against transposes of operands.
// The remaining transposes end at ops that depend on the order of elements,
// such as flattening, and at inputs and outputs. A transpose that moves only
// axes of size 1 becomes a reshape. State keeps ONNX's layout, so no transpose
// moves past an optimizer.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Movement.h"
#include "passes/Fusion/Passes.h"

#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "compiler/Dialect/MPC/Shapes/FilterLayout.h"
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/ContractionTable.h"
#include "compiler/Kernels/KernelSpace.h"

#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace mpc {
#define GEN_PASS_DEF_CONVERTLAYOUTPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

using Perm = SmallVector<int64_t>;

// `toLast` permutes NCHW to NHWC: axis 1 goes to the end. `toFirst` is the
// inverse.
static Perm toLast(int64_t rank) {
  Perm perm = {0};
  llvm::append_range(perm, llvm::seq<int64_t>(2, rank));
  perm.push_back(1);
  return perm;
}
static Perm toFirst(int64_t rank) {
  Perm perm = {0, rank - 1};
  llvm::append_range(perm, llvm::seq<int64_t>(1, rank - 1));
  return perm;
}

static SmallVector<int64_t> permute(ArrayRef<int64_t> values,
                                    ArrayRef<int64_t> perm) {
  return llvm::map_to_vector(perm, [&](int64_t axis) { return values[axis]; });
}

// Permutes the strides of a slice or pad. Empty strides, which mean 1 on all
// axes, stay empty.
static SmallVector<int64_t> permuteStrides(ArrayRef<int64_t> strides,
                                           ArrayRef<int64_t> perm) {
  return strides.empty() ? SmallVector<int64_t>() : permute(strides, perm);
}

static RankedTensorType permute(Type type, ArrayRef<int64_t> perm) {
  auto tensor = cast<RankedTensorType>(type);
  return tensor.clone(permute(tensor.getShape(), perm));
}

// Gives `op` the phase of `of`, and returns `op`.
template <typename OpTy>
static OpTy inPhase(OpTy op, Operation *of) {
  copyPhase(of, op);
  return op;
}

static Value transpose(OpBuilder &builder, Operation *of, Value value,
                       ArrayRef<int64_t> perm) {
  return inPhase(TransposeOp::create(builder, of->getLoc(),
                                     permute(value.getType(), perm), value,
                                     perm),
                 of);
}

static Value reshape(OpBuilder &builder, Operation *of, Value value,
                     ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  auto type = cast<RankedTensorType>(value.getType()).clone(shape);
  return inPhase(ReshapeOp::create(builder, of->getLoc(), type, value), of);
}

//===----------------------------------------------------------------------===//
// Converting ops to NHWC
//===----------------------------------------------------------------------===//

// Sets the layout of `op` to NHWC, transposes its activation operands to NHWC,
// and its activation results back.
static void convert(LayoutOpInterface op) {
  int64_t rank = shapeOf(op->getOperand(0)).size();
  OpBuilder builder(op);
  for (OpOperand &operand :
       op->getOpOperands().take_front(op.countActivationOperands()))
    operand.set(transpose(builder, op, operand.get(), toLast(rank)));
  builder.setInsertionPointAfter(op);
  for (OpResult result :
       op->getResults().take_front(op.countActivationResults())) {
    result.setType(permute(result.getType(), toLast(rank)));
    Value restored = transpose(builder, op, result, toFirst(rank));
    result.replaceAllUsesExcept(restored, restored.getDefiningOp());
  }
  op->setAttr("layout", LayoutAttr::get(op->getContext(), Layout::NHWC));
}

// Brings the filter of a convolution, or the gradient of a filter, into the
// layout OHWI, with input channels last.
static void convertFilter(LayoutOpInterface op) {
  OpBuilder builder(op);
  Value filter = op.getFilter();
  int64_t rank = shapeOf(filter).size();
  if (filter.getDefiningOp() == op) {
    // `op` computes the filter's gradient: transpose the result back to ONNX's
    // layout for the readers.
    filter.setType(permute(filter.getType(), toLast(rank)));
    builder.setInsertionPointAfter(op);
    Value restored = transpose(builder, op, filter, toFirst(rank));
    filter.replaceAllUsesExcept(restored, restored.getDefiningOp());
  } else {
    Value converted = transpose(builder, op, filter, toLast(rank));
    // Skip the activation operands: one value may be both activation and
    // filter.
    for (OpOperand &operand :
         op->getOpOperands().drop_front(op.countActivationOperands()))
      if (operand.get() == filter)
        operand.set(converted);
  }
  op->setAttr("filter_layout",
              FilterLayoutAttr::get(op->getContext(), FilterLayout::OHWI));
}

//===----------------------------------------------------------------------===//
// Moving transposes down
//===----------------------------------------------------------------------===//

namespace {
/// Turns a transpose that moves only axes of size 1 into a reshape.
struct TransposeToReshape : OpRewritePattern<TransposeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(TransposeOp op,
                                PatternRewriter &rewriter) const override {
    if (!keepsOrder(shapeOf(op.getInput()), op.getPerm()))
      return rewriter.notifyMatchFailure(op, "moves elements");
    rewriter.replaceOp(
        op, reshape(rewriter, op, op.getInput(), op.getType().getShape()));
    return success();
  }
};

/// e(transpose(a), transpose(b)) -> transpose(e(a, b)) for an elementwise op e.
/// An operand of full size without a transpose gets the inverse transpose,
/// unless the number of transposes would grow.
struct SinkTranspose : RewritePattern {
  explicit SinkTranspose(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/1, context) {}

  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

/// reduce(transpose(x)) -> transpose(reduce(x)). The new reduction keeps the
/// reduced axes with size 1, so that the transpose still fits.
struct SinkThroughReduction : OpInterfaceRewritePattern<ReductionOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(ReductionOpInterface op,
                                PatternRewriter &rewriter) const override;
};

struct SinkThroughConcat : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override;
};

struct SinkThroughSlice : OpRewritePattern<SliceOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SliceOp op,
                                PatternRewriter &rewriter) const override;
};

struct SinkThroughPad : OpRewritePattern<PadOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(PadOp op,
                                PatternRewriter &rewriter) const override;
};

struct ConvertLayoutPass
    : public mpc::impl::ConvertLayoutPassBase<ConvertLayoutPass> {
  using ConvertLayoutPassBase::ConvertLayoutPassBase;
  void runOnOperation() override;
};
} // namespace

// Returns the transpose from NHWC to NCHW that computes `value`; null if
// another op computes `value`.
static TransposeOp restoringTranspose(Value value) {
  auto transpose = value.getDefiningOp<TransposeOp>();
  if (!transpose || transpose.getPerm().size() < 3 ||
      transpose.getPerm() !=
          ArrayRef<int64_t>(toFirst(transpose.getPerm().size())))
    return nullptr;
  return transpose;
}

// True if `op` is elementwise and ignores positions. Dropout, for example,
// depends on the position of each element.
static bool ignoresPlace(Operation *op) {
  return hasRole(op, RegionRole::Elementwise) && !dependsOnPlace(op);
}

// True if `op` is an optimizer's update, or reads state of the same shape as
// the result. State keeps ONNX's layout.
static bool readsState(Operation *op) {
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  auto isState = [&](Value operand) {
    return shapeOf(operand) == shape && getArgumentPort(operand).getState();
  };
  return isa<OptimizerOpInterface>(op) ||
         llvm::any_of(op->getOperands(), isState);
}

// Permutes the axes of `operand`, which may have fewer axes than the result of
// `op` and broadcast. `perm` permutes the `rank` axes of the result.
static Value permuteOperand(OpBuilder &builder, Operation *op, Value operand,
                            int64_t rank, ArrayRef<int64_t> perm) {
  if (auto restoring = restoringTranspose(operand))
    if (static_cast<int64_t>(restoring.getPerm().size()) == rank)
      return restoring.getInput();
  auto type = cast<RankedTensorType>(operand.getType());
  if (type.getNumElements() == 1 && type.getRank() == 0)
    return operand;
  SmallVector<int64_t> padded(rank - type.getRank(), 1);
  llvm::append_range(padded, type.getShape());
  return transpose(builder, op, reshape(builder, op, operand, padded), perm);
}

LogicalResult SinkTranspose::matchAndRewrite(Operation *op,
                                             PatternRewriter &rewriter) const {
  if (!ignoresPlace(op))
    return rewriter.notifyMatchFailure(op, "is not elementwise");
  if (readsState(op))
    return rewriter.notifyMatchFailure(op, "computes with state");
  // Count the operands of full size that are transposed, and the others. Moving
  // the transpose behind the op saves the transposes of the first, but adds one
  // to each of the others.
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  int64_t rank = shape.size(), transposed = 0, others = 0;
  for (Value operand : op->getOperands()) {
    bool full = shapeOf(operand) == shape;
    (full && restoringTranspose(operand) ? transposed : others) += full;
  }
  // For three axes, a transpose to NHWC is its own inverse, so the pattern
  // could undo itself forever. Require that no other operand gets a transpose.
  if (transposed == 0 || others > (rank == 3 ? 0 : transposed))
    return rewriter.notifyMatchFailure(op, "too few operands are transposed");
  if (!llvm::all_of(op->getResults(),
                    [&](Value result) { return shapeOf(result) == shape; }))
    return rewriter.notifyMatchFailure(op, "results differ in shape");

  OperationState state(op->getLoc(), op->getName());
  state.addAttributes(op->getAttrs());
  for (Value operand : op->getOperands())
    state.operands.push_back(
        permuteOperand(rewriter, op, operand, rank, toLast(rank)));
  for (Type type : op->getResultTypes())
    state.types.push_back(permute(type, toLast(rank)));
  Operation *sunk = rewriter.create(state);
  SmallVector<Value> restored;
  for (Value result : sunk->getResults())
    restored.push_back(transpose(rewriter, op, result, toFirst(rank)));
  rewriter.replaceOp(op, restored);
  return success();
}

LogicalResult
SinkThroughReduction::matchAndRewrite(ReductionOpInterface op,
                                      PatternRewriter &rewriter) const {
  TransposeOp restoring = restoringTranspose(op->getOperand(0));
  if (!restoring)
    return rewriter.notifyMatchFailure(op, "reduces no restored layout");
  SmallVector<int64_t> moved =
      llvm::map_to_vector(op.getReducedAxes(), [&](int64_t axis) {
        return restoring.getPerm()[axis];
      });
  llvm::sort(moved);
  // Keep the reduced axes with size 1, so that the transpose of the operand
  // also fits the result.
  SmallVector<int64_t> shape(shapeOf(restoring.getInput()));
  for (int64_t axis : moved)
    shape[axis] = 1;
  Value reduced = op.reduceLike(rewriter, typeOf(op->getResult(0)).clone(shape),
                                restoring.getInput(), moved, /*parts=*/nullptr);
  copyPhase(op, reduced.getDefiningOp());
  Value restored = transpose(rewriter, op, reduced, restoring.getPerm());
  rewriter.replaceOp(
      op, reshape(rewriter, op, restored, shapeOf(op->getResult(0))));
  return success();
}

LogicalResult
SinkThroughConcat::matchAndRewrite(ConcatOp op,
                                   PatternRewriter &rewriter) const {
  SmallVector<Value> inputs;
  for (Value input : op.getInputs()) {
    TransposeOp restoring = restoringTranspose(input);
    if (!restoring)
      return rewriter.notifyMatchFailure(op, "an input is not transposed");
    inputs.push_back(restoring.getInput());
  }
  int64_t rank = op.getType().getRank();
  auto sunk = inPhase(ConcatOp::create(rewriter, op.getLoc(),
                                       permute(op.getType(), toLast(rank)),
                                       inputs, toFirst(rank)[op.getAxis()]),
                      op);
  rewriter.replaceOp(op, transpose(rewriter, op, sunk, toFirst(rank)));
  return success();
}

LogicalResult
SinkThroughSlice::matchAndRewrite(SliceOp op, PatternRewriter &rewriter) const {
  TransposeOp restoring = restoringTranspose(op.getInput());
  if (!restoring)
    return rewriter.notifyMatchFailure(op, "the input is not transposed");
  int64_t rank = op.getType().getRank();
  auto sunk =
      inPhase(SliceOp::create(
                  rewriter, op.getLoc(), permute(op.getType(), toLast(rank)),
                  restoring.getInput(), permute(op.getOffsets(), toLast(rank)),
                  permute(op.getSizes(), toLast(rank)),
                  permuteStrides(op.getStrides(), toLast(rank))),
              op);
  rewriter.replaceOp(op, transpose(rewriter, op, sunk, toFirst(rank)));
  return success();
}

LogicalResult SinkThroughPad::matchAndRewrite(PadOp op,
                                              PatternRewriter &rewriter) const {
  TransposeOp restoring = restoringTranspose(op.getInput());
  if (!restoring)
    return rewriter.notifyMatchFailure(op, "the input is not transposed");
  int64_t rank = op.getType().getRank();
  auto sunk =
      inPhase(PadOp::create(
                  rewriter, op.getLoc(), permute(op.getType(), toLast(rank)),
                  restoring.getInput(), permute(op.getOffsets(), toLast(rank)),
                  permute(op.getShape(), toLast(rank)), op.getValue(),
                  permuteStrides(op.getStrides(), toLast(rank))),
              op);
  rewriter.replaceOp(op, transpose(rewriter, op, sunk, toFirst(rank)));
  return success();
}

// Merges equal transposes of one value. For example, a convolution and its
// input gradient transpose the same filter. CSE keeps both, since one transpose
// belongs to the forward phase and one to the backward phase.
static void mergeTransposes(func::FuncOp function) {
  function.walk([](Block *block) {
    DenseMap<std::pair<Value, Attribute>, TransposeOp> known;
    for (auto op : llvm::make_early_inc_range(block->getOps<TransposeOp>())) {
      TransposeOp &first = known[{op.getInput(), op.getPermAttr()}];
      if (!first) {
        first = op;
        continue;
      }
      op.replaceAllUsesWith(first.getOutput());
      op.erase();
    }
  });
}

void ConvertLayoutPass::runOnOperation() {
  TargetInfo target = getTarget(getOperation());
  getOperation().walk([&](LayoutOpInterface op) {
    if (op.getFilter() && takesInputChannelsLast(target) &&
        !hasInputChannelsLast(op))
      convertFilter(op);
    if (op.getActivationLayout() == Layout::NCHW &&
        shapeOf(op->getOperand(0)).size() > 2)
      convert(op);
  });
  // Move the transposes of results down until they cancel against transposes of
  // operands.
  RewritePatternSet patterns(&getContext());
  patterns.add<TransposeToReshape, SinkTranspose, SinkThroughReduction,
               SinkThroughConcat, SinkThroughSlice, SinkThroughPad>(
      &getContext());
  TransposeOp::getCanonicalizationPatterns(patterns, &getContext());
  ReshapeOp::getCanonicalizationPatterns(patterns, &getContext());
  if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
    return signalPassFailure();
  // On a GPU, every transpose costs a pass over memory. On a CPU, filters need
  // no transposes, since convolutions take ONNX's layout.
  if (target.isGPU())
    mergeTransposes(getOperation());
}
