// Brings reductions into the form that kernels take: reduced axes are adjacent
// and stay with size 1. Large reductions to few values take two steps, since
// the parallel axis of a kernel is the unreduced one. The first step leaves an
// axis, or parts of an axis, to the second: 4 million rows become 64 sums of
// 65536 rows each. Shapes alone decide, so the order of a sum does not depend
// on the machine.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "compiler/Dialect/MPC/Fold/ConstantElements.h"
#include "compiler/Dialect/MPC/Fold/IntegerFormulas.h"
#include "compiler/Dialect/MPC/Target.h"
#include "compiler/Kernels/ColumnBands.h"

#include "llvm/Support/MathExtras.h"

#include <limits>

namespace mpc {
#define GEN_PASS_DEF_NORMALIZEREDUCTIONSPASS
#include "passes/Fusion/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
struct NormalizeReductionsPass
    : public mpc::impl::NormalizeReductionsPassBase<NormalizeReductionsPass> {
  using NormalizeReductionsPassBase::NormalizeReductionsPassBase;
  void runOnOperation() override;
};
} // namespace

/// Smaller reductions are not worth a second kernel.
static constexpr int64_t kLargeReduction = 1 << 16;
/// Axes of fewer elements are not reduced in parts.
static constexpr int64_t kLongReduction = 1 << 18;
/// More slices than kMostSlices gain nothing. A part of an axis has at least
/// kPartElements elements, enough to be worth a task.
static constexpr int64_t kMostSlices = 64;
static constexpr int64_t kPartElements = 1 << 14;
/// Fewest rows of a part, so that the input of the second step is comparatively
/// small.
static constexpr int64_t kPartRows = 64;
/// With fewer parts, the second step costs more than it gains.
static constexpr int64_t kFewestParts = 4;
/// Elements of a row or column that are worth a separate step.
static constexpr int64_t kShortestRun = 64;

/// On a GPU: blocks of 64 columns that keep memory busy, about four per
/// multiprocessor of a large GPU (108 to 132).
static constexpr int64_t kGPUBlocks = 640;
/// With kEnoughGPUBlocks blocks, further parts do not pay. With
/// kEnoughNarrowBlocks blocks, which can be narrower (Heroes/ColumnReduce.cpp),
/// a second kernel does not pay.
static constexpr int64_t kEnoughGPUBlocks = 256;
static constexpr int64_t kEnoughNarrowBlocks = 64;
/// Elements that a block sums in the time of a second kernel, a few
/// microseconds.
static constexpr int64_t kBlockElements = 1 << 17;

namespace {
/// One step of a reduction: the axes to reduce, and the parts of the first
/// axis.
struct ReductionStep {
  ArrayRef<int64_t> axes;
  int64_t parts = 1;
};
} // namespace

namespace {
/// Divides the reductions for a target into steps.
class Steps {
public:
  explicit Steps(const TargetInfo &target) : target(target) {}

  /// Chooses the axes to reduce first, out of `axes` (none of size 1). Returns
  /// all axes if a single kernel can reduce all, and has enough slices or
  /// little to do.
  ReductionStep choose(ArrayRef<int64_t> shape, ArrayRef<int64_t> axes) const;

private:
  int64_t countSlices(const ReductionSpace &space) const;
  int64_t countParts(int64_t extent, const ReductionSpace &space) const;
  ReductionStep chooseColumns(ArrayRef<int64_t> shape,
                              ArrayRef<int64_t> axes) const;

  const TargetInfo &target;
};
} // namespace

// On a GPU, the threads of a block share the reduction of a block of columns.
int64_t Steps::countSlices(const ReductionSpace &space) const {
  int64_t columns = target.isGPU() ? kColumnBlock : getColumnsOfSlice(space);
  return space.outer * llvm::divideCeilSigned(space.inner, columns);
}

// Returns the number of equal parts to divide an axis of `extent` into; 1 to
// reduce all at once.
int64_t Steps::countParts(int64_t extent, const ReductionSpace &space) const {
  int64_t slices = countSlices(space);
  int64_t elements = space.outer * space.reduced * space.inner;
  int64_t wanted = std::min({llvm::divideCeilSigned(kMostSlices, slices),
                             elements / (slices * kPartElements),
                             space.reduced / kPartRows});
  if (elements < kLongReduction || wanted < kFewestParts)
    return 1;
  // Take the largest divisor up to `wanted`, or else one not far above.
  for (int64_t parts = wanted; parts >= kFewestParts; --parts)
    if (extent % parts == 0)
      return parts;
  for (int64_t parts = wanted; parts <= 16 * wanted; ++parts)
    if (extent % parts == 0)
      return parts;
  return 1;
}

// Returns the divisor of `extent` closest to `wanted` by ratio. Returns a
// smaller divisor if all larger ones are many times `wanted`.
static int64_t findDivisor(int64_t extent, int64_t wanted) {
  int64_t below = std::min(extent, wanted), above = wanted;
  while (extent % below != 0)
    --below;
  while (above < 4 * wanted && extent % above != 0)
    ++above;
  bool isCloser = above * below < wanted * wanted;
  return extent % above == 0 && isCloser ? above : below;
}

// Chooses how a GPU sums the columns over adjacent `axes`. One step suffices
// with enough blocks of columns, or with little work per block; otherwise the
// sum is divided into parts. If the first axis is shorter than the wanted
// number of parts, it is left to the second step, and the next axis is divided.
// Sums of (64, 28, 28, 512) over all but the channels are first 64 sums of (28,
// 28, 512). Sums of (16, 512, 768) are first 4 sums of every 512 rows.
ReductionStep Steps::chooseColumns(ArrayRef<int64_t> shape,
                                   ArrayRef<int64_t> axes) const {
  for (bool isFirst = true;; isFirst = false, axes = axes.drop_front()) {
    ReductionSpace space = getReductionSpace(shape, axes).value();
    int64_t blocks = countSlices(space);
    int64_t elements = space.outer * space.reduced * space.inner;
    bool isEnough = isFirst ? blocks >= kEnoughNarrowBlocks ||
                                  elements < blocks * kBlockElements
                            : blocks >= kEnoughGPUBlocks;
    if (isEnough)
      return {axes};
    int64_t first = shape[axes.front()];
    int64_t wanted = std::min(llvm::divideCeilSigned(kGPUBlocks, blocks),
                              space.reduced / kPartRows);
    if (wanted <= 1)
      return {axes};
    if (axes.size() == 1 || first > wanted)
      return {axes, findDivisor(first, wanted)};
  }
}

ReductionStep Steps::choose(ArrayRef<int64_t> shape,
                            ArrayRef<int64_t> axes) const {
  while (true) {
    std::optional<ReductionSpace> space = getReductionSpace(shape, axes);
    int64_t first = shape[axes.front()];
    if (space && space->inner > 1 && target.isGPU())
      return chooseColumns(shape, axes);
    if (space &&
        (countSlices(*space) >= kEnoughSlices ||
         space->outer * space->reduced * space->inner < kLargeReduction))
      return {axes};
    if (space && (axes.size() == 1 || space->reduced / first < kShortestRun))
      return {axes, countParts(first, *space)};
    axes = axes.drop_front();
  }
}

// Creates a reduction like `op` of `input`, which keeps its axes.
static Value reduceLike(ReductionOpInterface op, Value input,
                        ReductionStep step, Type element, OpBuilder &builder) {
  // Reduced axes keep size 1, or `parts` in the first step of a long axis.
  SmallVector<int64_t> shape(shapeOf(input));
  for (int64_t axis : step.axes)
    shape[axis] = 1;
  shape[step.axes.front()] = step.parts;
  auto type = RankedTensorType::get(shape, element);
  auto parts =
      step.parts > 1 ? builder.getI64IntegerAttr(step.parts) : IntegerAttr();
  return op.reduceLike(builder, type, input, step.axes, parts);
}

// Returns the integer reduction of no elements, in all elements of `type`.
static DenseElementsAttr getFirstInteger(Operation *op, RankedTensorType type) {
  Type element = type.getElementType();
  llvm::APSInt like(element.getIntOrFloatBitWidth(),
                    isUnsignedElement(element));
#define MPC_INTEGER_REDUCE(OP, FIRST, STEP)                                    \
  if (auto reduction = dyn_cast<OP##Op>(op))                                   \
    return makeElements(type, llvm::APInt(integers::getFirst(reduction, like)));
#include "compiler/Dialect/MPC/Fold/IntegerFormulas.def"
  llvm_unreachable("no reduction of integers");
}

// Returns the float reduction of no elements: 0 for a sum, others as listed.
static double getFirstFloat(Operation *op) {
  using Limits = std::numeric_limits<double>;
  static const llvm::StringMap<double> others = {
      {ReduceMaxOp::getOperationName(), -Limits::infinity()},
      {ReduceMeanOp::getOperationName(), Limits::quiet_NaN()},
      {ReduceProdOp::getOperationName(), 1.0},
  };
  return others.lookup(op->getName().getStringRef());
}

// Replaces a reduction of no elements by a constant, since kernels need at
// least one element. Null for any other reduction.
static Value reduceNothing(Operation *op) {
  if (!llvm::is_contained(shapeOf(op->getOperand(0)), 0))
    return Value();
  OpBuilder builder(op);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  if (isa<IntegerType>(type.getElementType()))
    return ConstantOp::create(builder, op->getLoc(), type,
                              getFirstInteger(op, type));
  Attribute element =
      builder.getFloatAttr(type.getElementType(), getFirstFloat(op));
  return ConstantOp::create(builder, op->getLoc(), type,
                            DenseElementsAttr::get(type, element));
}

static void normalize(ReductionOpInterface op, const Steps &steps) {
  // Between steps, floats are f32, or f64 if an operand or result is f64.
  // Integers keep their type.
  OpBuilder builder(op);
  Value result = op->getResult(0), value = op->getOperand(0);
  SmallVector<int64_t> axes = op.getReducedAxes();
  auto type = cast<RankedTensorType>(result.getType());
  bool wide = elementOf(value).isF64() || type.getElementType().isF64();
  Type compute = isa<IntegerType>(elementOf(value)) ? elementOf(value)
                 : wide                             ? Type(builder.getF64Type())
                                                    : builder.getF32Type();
  // Axes of size 1 need no reduction.
  llvm::erase_if(axes, [&](int64_t axis) { return shapeOf(value)[axis] == 1; });

  SmallVector<Operation *> created;
  while (!axes.empty()) {
    ReductionStep step = steps.choose(shapeOf(value), axes);
    bool last = step.axes.size() == axes.size() && step.parts == 1;
    value = reduceLike(op, value, step, last ? type.getElementType() : compute,
                       builder);
    created.push_back(value.getDefiningOp());
    llvm::erase_if(axes,
                   [&](int64_t axis) { return shapeOf(value)[axis] == 1; });
  }
  // Restore the type and drop the axes, if the last step could not.
  if (elementOf(value) != type.getElementType()) {
    value = amp::CastOp::create(
        builder, op->getLoc(),
        RankedTensorType::get(shapeOf(value), type.getElementType()), value);
    created.push_back(value.getDefiningOp());
  }
  if (value.getType() != type) {
    value = ReshapeOp::create(builder, op->getLoc(), type, value);
    created.push_back(value.getDefiningOp());
  }
  for (Operation *part : created)
    copyPhase(op, part);
  result.replaceAllUsesWith(value);
  op->erase();
}

// Accumulates a scatter of 16-bit floats in f32, and rounds the result at the
// end.
static void widen(ScatterOpInterface scatter) {
  Value result = scatter->getResult(0);
  auto type = dyn_cast<FloatType>(elementOf(result));
  if (!type || type.getWidth() >= 32 || !scatter.accumulates())
    return;
  OpBuilder builder(scatter->getContext());
  builder.setInsertionPointAfter(scatter);
  auto rounded = typeOf(result);
  result.setType(rounded.clone(builder.getF32Type()));
  auto cast = mpc::CastOp::create(builder, scatter->getLoc(), rounded, result);
  copyPhase(scatter, cast);
  result.replaceAllUsesExcept(cast.getOutput(), cast);
}

void NormalizeReductionsPass::runOnOperation() {
  TargetInfo target = getTarget(getOperation());
  // Collect the reductions first, since `normalize` erases ops.
  Steps steps(target);
  SmallVector<ReductionOpInterface> reductions;
  getOperation().walk(
      [&](ReductionOpInterface op) { reductions.push_back(op); });
  for (ReductionOpInterface op : reductions) {
    if (Value constant = reduceNothing(op)) {
      op->getResult(0).replaceAllUsesWith(constant);
      op->erase();
      continue;
    }
    normalize(op, steps);
  }
  getOperation().walk([](ScatterOpInterface scatter) { widen(scatter); });
}
