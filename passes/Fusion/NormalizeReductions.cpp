// Brings reductions into the form that kernels take: reduced axes are adjacent
// and stay with size 1.
//
// A kernel runs in parallel along the axes that it does not reduce. A large
// reduction to few values would have too few parallel slices, so it takes two
// steps. The first step keeps an axis, or parts of an axis, for the second
// step: 4 million rows become 64 sums of 65536 rows each. Shapes alone decide,
// so the order of a sum does not depend on the machine.
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

/// Input elements below which a reduction is not worth a second kernel.
static constexpr int64_t kLargeReduction = 1 << 16;
/// Input elements below which a reduction is not divided into parts.
static constexpr int64_t kLongReduction = 1 << 18;
/// The most parallel slices that are useful, and the fewest elements of a part:
/// enough work for a task.
static constexpr int64_t kMostSlices = 64;
static constexpr int64_t kPartElements = 1 << 14;
/// The fewest rows of a part. The second step then reads at most 1/64 of the
/// elements that the first step reads.
static constexpr int64_t kPartRows = 64;
/// The fewest parts that pay for a second step.
static constexpr int64_t kFewestParts = 4;
/// The first step keeps the whole first axis only if it reduces at least this
/// many elements of other axes. Otherwise it divides the first axis into parts.
static constexpr int64_t kShortestRun = 64;

/// On a GPU: the blocks of 64 columns that keep memory busy, about four for
/// each of the 108 to 132 multiprocessors of a large GPU.
static constexpr int64_t kGPUBlocks = 640;
/// On a GPU: from kEnoughGPUBlocks blocks on, a second step need not be divided
/// further. From kEnoughNarrowBlocks blocks on, no second step pays, since a
/// kernel can use narrower blocks (Heroes/ColumnReduce.cpp).
static constexpr int64_t kEnoughGPUBlocks = 256;
static constexpr int64_t kEnoughNarrowBlocks = 64;
/// On a GPU: the elements that a block sums in the time of launching a second
/// kernel, a few microseconds.
static constexpr int64_t kBlockElements = 1 << 17;

namespace {
/// One step of a reduction: the axes to reduce, and the number of parts that
/// the first of the axes keeps for the next step (1 for none).
struct ReductionStep {
  ArrayRef<int64_t> axes;
  int64_t parts = 1;
};
} // namespace

namespace {
/// Decides in which steps a target computes a reduction.
class Steps {
public:
  explicit Steps(const TargetInfo &target) : target(target) {}

  /// Chooses the next step of a reduction over `axes`, which have no size 1.
  /// Returns all axes if one kernel suffices: enough parallel slices, or little
  /// work.
  ReductionStep choose(ArrayRef<int64_t> shape, ArrayRef<int64_t> axes) const;

private:
  int64_t countSlices(const ReductionSpace &space) const;
  int64_t countParts(int64_t extent, const ReductionSpace &space) const;
  ReductionStep chooseColumns(ArrayRef<int64_t> shape,
                              ArrayRef<int64_t> axes) const;

  const TargetInfo &target;
};
} // namespace

// Returns the number of parallel slices of a reduction. On a GPU, the threads
// of a block share a block of columns.
int64_t Steps::countSlices(const ReductionSpace &space) const {
  int64_t columns = target.isGPU() ? kColumnBlock : getColumnsOfSlice(space);
  return space.outer * llvm::divideCeilSigned(space.inner, columns);
}

// Returns the number of equal parts into which to divide the first reduced
// axis, of `extent`; 1 to reduce the whole axis at once.
int64_t Steps::countParts(int64_t extent, const ReductionSpace &space) const {
  int64_t slices = countSlices(space);
  int64_t elements = space.outer * space.reduced * space.inner;
  int64_t wanted = std::min({llvm::divideCeilSigned(kMostSlices, slices),
                             elements / (slices * kPartElements),
                             space.reduced / kPartRows});
  if (elements < kLongReduction || wanted < kFewestParts)
    return 1;
  // Parts must divide the extent. Take the largest divisor up to `wanted`, or
  // else the next divisor, at most 16 times `wanted`.
  for (int64_t parts = wanted; parts >= kFewestParts; --parts)
    if (extent % parts == 0)
      return parts;
  for (int64_t parts = wanted; parts <= 16 * wanted; ++parts)
    if (extent % parts == 0)
      return parts;
  return 1;
}

// Returns the divisor of `extent` with the smallest ratio to `wanted`, from
// above or below. Considers divisors above only up to 4 * `wanted`.
static int64_t findDivisor(int64_t extent, int64_t wanted) {
  int64_t below = std::min(extent, wanted), above = wanted;
  while (extent % below != 0)
    --below;
  while (above < 4 * wanted && extent % above != 0)
    ++above;
  bool isCloser = above * below < wanted * wanted;
  return extent % above == 0 && isCloser ? above : below;
}

// Chooses how a GPU sums columns over adjacent `axes`. One step suffices if
// there are enough blocks of columns, or little work per block; otherwise the
// first axis is divided into parts. If the first axis has fewer elements than
// wanted parts, the whole axis is left to the second step, and the next axis is
// divided. Example: sums of (64, 28, 28, 512) over all but the channels are
// first 64 sums of (28, 28, 512). Sums of (16, 512, 768) are first 4 sums of
// every 512 rows.
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

// Creates a reduction like `op` for one step. The result keeps the reduced
// axes.
static Value reduceLike(ReductionOpInterface op, Value input,
                        ReductionStep step, Type element, OpBuilder &builder) {
  // Reduced axes get size 1, the divided axis gets size `parts`.
  SmallVector<int64_t> shape(shapeOf(input));
  for (int64_t axis : step.axes)
    shape[axis] = 1;
  shape[step.axes.front()] = step.parts;
  auto type = RankedTensorType::get(shape, element);
  auto parts =
      step.parts > 1 ? builder.getI64IntegerAttr(step.parts) : IntegerAttr();
  return op.reduceLike(builder, type, input, step.axes, parts);
}

// Returns a constant of `type` filled with the integer reduction of zero
// elements: 0 for a sum, 1 for a product.
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

// Returns the float reduction of zero elements: 0 for a sum, the value in the
// table for others.
static double getFirstFloat(Operation *op) {
  using Limits = std::numeric_limits<double>;
  static const llvm::StringMap<double> others = {
      {ReduceMaxOp::getOperationName(), -Limits::infinity()},
      {ReduceMeanOp::getOperationName(), Limits::quiet_NaN()},
      {ReduceProdOp::getOperationName(), 1.0},
  };
  return others.lookup(op->getName().getStringRef());
}

// Returns a constant if `op` reduces zero elements, since a kernel needs at
// least one. Null for any other reduction.
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
  // Steps before the last compute in f32, or in f64 if operand or result is
  // f64. Integers keep their type.
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
  // The last step may leave another type, or axes of size 1: convert to the
  // type of the original result.
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

// Makes a scatter that adds 16-bit floats add in f32, and rounds the result
// once at the end.
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
