// Brings reductions into the form kernels take: reduced axes lie together and
// stay with size 1; large reductions to few values are done in two steps, since
// a kernel's parallel axis is what is not reduced. All by shape, so the order
// of a sum never depends on the machine.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Fusion/Passes.h"

#include "compiler/Analysis/KernelSpace.h"

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
  void runOnOperation() override;
};
} // namespace

/// Smaller reductions are not worth a second kernel.
static constexpr int64_t kLargeReduction = 1 << 16;
/// This many independent slices keep the threads of a socket busy.
static constexpr int64_t kEnoughSlices = 8;
/// Columns that one slice of a column reduction takes.
static constexpr int64_t kColumnBlock = 64;

// Whether a reduction of `shape` over `axes`, which lie together, should leave
// its first axis to a second step.
static bool isWorthTwoSteps(ArrayRef<int64_t> shape, ArrayRef<int64_t> axes) {
  ReductionSpace space = *getReductionSpace(shape, axes);
  int64_t slices =
      space.outer * llvm::divideCeilSigned(space.inner, kColumnBlock);
  return axes.size() > 1 && slices < kEnoughSlices &&
         space.outer * space.reduced * space.inner >= kLargeReduction;
}

// The axes to reduce first, out of `axes`, none of which has size 1: all of
// them where one kernel can do that.
static ArrayRef<int64_t> firstStep(ArrayRef<int64_t> shape,
                                   ArrayRef<int64_t> axes) {
  while (!getReductionSpace(shape, axes))
    axes = axes.drop_front();
  return isWorthTwoSteps(shape, axes) ? axes.drop_front() : axes;
}

// A reduction like `op` of `input`, which keeps its axes.
static Value reduceLike(Operation *op, Value input, ArrayRef<int64_t> axes,
                        Type element, OpBuilder &builder) {
  SmallVector<int64_t> shape(shapeOf(input));
  for (int64_t axis : axes)
    shape[axis] = 1;
  auto type = RankedTensorType::get(shape, element);
  if (isa<ReduceMeanOp>(op))
    return ReduceMeanOp::create(builder, op->getLoc(), type, input, axes, true);
  if (isa<ReduceMaxOp>(op))
    return ReduceMaxOp::create(builder, op->getLoc(), type, input, axes, true);
  return ReduceSumOp::create(builder, op->getLoc(), type, input, axes, true);
}

// What a reduction of no elements gives; null for any other. Kernels have at
// least one.
static Value reduceNothing(Operation *op) {
  if (!llvm::is_contained(shapeOf(op->getOperand(0)), 0))
    return Value();
  double value = isa<ReduceMaxOp>(op) ? -std::numeric_limits<double>::infinity()
                 : isa<ReduceMeanOp>(op)
                     ? std::numeric_limits<double>::quiet_NaN()
                     : 0.0;
  OpBuilder builder(op);
  auto type = cast<RankedTensorType>(op->getResult(0).getType());
  Attribute element = builder.getFloatAttr(type.getElementType(), value);
  return ConstantOp::create(builder, op->getLoc(), type,
                            DenseElementsAttr::get(type, element));
}

static void normalize(Operation *op, SmallVector<int64_t> axes) {
  OpBuilder builder(op);
  Value result = op->getResult(0), value = op->getOperand(0);
  auto type = cast<RankedTensorType>(result.getType());
  bool wide = elementOf(value).isF64() || type.getElementType().isF64();
  Type compute = wide ? Type(builder.getF64Type()) : builder.getF32Type();
  llvm::erase_if(axes, [&](int64_t axis) { return shapeOf(value)[axis] == 1; });

  SmallVector<Operation *> created;
  while (!axes.empty()) {
    ArrayRef<int64_t> step = firstStep(shapeOf(value), axes);
    bool last = step.size() == axes.size();
    value = reduceLike(op, value, step, last ? type.getElementType() : compute,
                       builder);
    created.push_back(value.getDefiningOp());
    SmallVector<int64_t> done(step);
    llvm::erase_if(
        axes, [&](int64_t axis) { return llvm::is_contained(done, axis); });
  }
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
  if (Attribute phase = op->getAttr(kPhaseAttr))
    for (Operation *part : created)
      part->setAttr(kPhaseAttr, phase);
  result.replaceAllUsesWith(value);
  op->erase();
}

void NormalizeReductionsPass::runOnOperation() {
  SmallVector<std::pair<Operation *, SmallVector<int64_t>>> reductions;
  getOperation().walk([&](Operation *op) {
    if (auto axes = getReducedAxes(op))
      reductions.emplace_back(op, std::move(*axes));
  });
  for (auto &[op, axes] : reductions) {
    if (Value constant = reduceNothing(op)) {
      op->getResult(0).replaceAllUsesWith(constant);
      op->erase();
      continue;
    }
    normalize(op, std::move(axes));
  }
}
