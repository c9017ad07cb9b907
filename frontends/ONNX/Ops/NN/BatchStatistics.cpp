// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/NN/BatchStatistics.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// Follows `axis` of shape `from` through a reshape to shape `to`. Returns the
// axis of equal extent with as many elements in front: axis 1 of [2, 3, 4, 5]
// is axis 1 of [2, 3, 20]. nullopt if there is none.
static std::optional<int64_t>
followReshape(ArrayRef<int64_t> from, ArrayRef<int64_t> to, int64_t axis) {
  const int64_t before = ShapedType::getNumElements(from.take_front(axis));
  int64_t passed = 1;
  for (auto [index, extent] : llvm::enumerate(to)) {
    if (passed == before && extent == from[axis])
      return index;
    passed *= extent;
  }
  return std::nullopt;
}

// Returns the axis of `view` that is axis 1 of `x`. nullopt if `view` is not
// `x` after reshapes and transposes, or if a reshape merges the axis with
// another.
static std::optional<int64_t> followChannels(Value view, Value x) {
  SmallVector<Operation *> path;
  while (view != x) {
    Operation *op = view.getDefiningOp();
    if (!isa_and_nonnull<ReshapeOp, TransposeOp>(op))
      return std::nullopt;
    path.push_back(op);
    view = op->getOperand(0);
  }
  std::optional<int64_t> axis = 1;
  for (Operation *op : llvm::reverse(path)) {
    if (auto transpose = dyn_cast<TransposeOp>(op))
      axis =
          llvm::find(transpose.getPerm(), *axis) - transpose.getPerm().begin();
    else
      axis = followReshape(shapeOf(op->getOperand(0)),
                           shapeOf(op->getResult(0)), *axis);
    if (!axis)
      return std::nullopt;
  }
  return axis;
}

// True if `mean` reduces every axis of its input but `axis`. Axes of extent 1
// do not matter.
static bool leavesAxis(ReduceMeanOp mean, int64_t axis) {
  for (auto [index, extent] : llvm::enumerate(shapeOf(mean.getInput()))) {
    const bool isReduced = llvm::is_contained(mean.getAxes(), int64_t(index));
    if (extent > 1 && isReduced == (int64_t(index) == axis))
      return false;
  }
  return !mean.getParts();
}

// True if `mean`, broadcast to `x`, varies along no other axis than `axis`.
static bool isAlongAxis(Value mean, Value x, int64_t axis) {
  ArrayRef<int64_t> shape = shapeOf(mean), whole = shapeOf(x);
  if (shape.size() > whole.size())
    return false;
  const int64_t missing = whole.size() - shape.size();
  for (auto [index, extent] : llvm::enumerate(shape))
    if (extent > 1 && int64_t(index) + missing != axis)
      return false;
  return true;
}

bool mpc::onnx_frontend::isMeanOfChannels(Value mean, Value x) {
  auto reduction = skipReshapes(mean).getDefiningOp<ReduceMeanOp>();
  if (!reduction || shapeOf(x).size() < 2)
    return false;
  std::optional<int64_t> axis = followChannels(reduction.getInput(), x);
  return axis && leavesAxis(reduction, *axis);
}

bool mpc::onnx_frontend::isVarianceOfChannels(Value variance, Value x) {
  auto reduction = skipReshapes(variance).getDefiningOp<ReduceMeanOp>();
  if (!reduction || shapeOf(x).size() < 2)
    return false;
  // The reduction must be the mean of (x - mean)^2, where `mean` has one
  // element per channel.
  auto square = reduction.getInput().getDefiningOp<MulOp>();
  if (!square || square.getLhs() != square.getRhs())
    return false;
  auto distance = square.getLhs().getDefiningOp<SubOp>();
  if (!distance || shapeOf(distance.getLhs()) != shapeOf(distance.getOutput()))
    return false;
  std::optional<int64_t> axis = followChannels(distance.getLhs(), x);
  return axis && leavesAxis(reduction, *axis) &&
         isAlongAxis(distance.getRhs(), distance.getLhs(), *axis) &&
         isMeanOfChannels(distance.getRhs(), x);
}

bool mpc::onnx_frontend::isComputed(Value value) {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<CastOp, ReshapeOp>(op))
    op = op->getOperand(0).getDefiningOp();
  return op && !isa<ConstantOp>(op);
}
