// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/SampleAxis.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mpc;

SampleAxes::SampleAxes(Block &block, ArrayRef<std::pair<Value, int64_t>> inputs,
                       int64_t batch)
    : batch(batch) {
  if (batch < 2)
    return;
  for (auto [input, axis] : inputs)
    axes[input].axis = axis;
  for (Operation &op : block)
    if (std::optional<SampleAxis> found = follow(&op))
      axes[op.getResult(0)] = *found;
}

std::optional<SampleAxis> SampleAxes::find(Value value) const {
  auto found = axes.find(value);
  return found == axes.end() ? std::nullopt : std::optional(found->second);
}

// The order of elements stays, so as many lie outside the samples as before.
std::optional<SampleAxis> SampleAxes::followView(Value from,
                                                 ArrayRef<int64_t> to) const {
  std::optional<SampleAxis> place = find(from);
  if (!place)
    return std::nullopt;
  // How many positions stand before the samples, in axes or within one.
  int64_t outside =
      ShapedType::getNumElements(shapeOf(from).take_front(place->axis)) *
      place->outer;
  int64_t before = 1;
  // The axis of the new shape that so many positions end in.
  for (auto [axis, extent] : llvm::enumerate(to)) {
    if (outside % before != 0)
      return std::nullopt;
    int64_t outer = outside / before;
    if (outer > 0 && extent > 0 && extent % (outer * batch) == 0)
      return SampleAxis{static_cast<int64_t>(axis), outer};
    before *= extent;
    if (before == 0)
      return std::nullopt;
  }
  return std::nullopt;
}

// Of operands that are broadcast to the result, those with samples agree.
std::optional<SampleAxis> SampleAxes::followBroadcast(Operation *op) const {
  std::optional<SampleAxis> result;
  ArrayRef<int64_t> shape = shapeOf(op->getResult(0));
  for (Value operand : op->getOperands()) {
    std::optional<SampleAxis> place = find(operand);
    if (!place)
      continue;
    int64_t extent = shapeOf(operand)[place->axis];
    place->axis += shape.size() - shapeOf(operand).size();
    if (shape[place->axis] != extent || (result && !(*result == *place)))
      return std::nullopt;
    result = place;
  }
  return result;
}

// Each matrix of the leading axes is an attention by itself.
std::optional<SampleAxis>
SampleAxes::followAttention(AttentionOp attention) const {
  std::optional<SampleAxis> first = find(attention.getQuery());
  int64_t rank = typeOf(attention.getQuery()).getRank();
  if (!first || first->axis >= rank - 2)
    return std::nullopt;
  for (Value operand : attention.getOperands()) {
    std::optional<SampleAxis> place = find(operand);
    if (!place)
      continue;
    place->axis += rank - typeOf(operand).getRank();
    if (!(*place == *first))
      return std::nullopt;
  }
  return first;
}

// The axes of the indices stand where the axis of the data was that they name.
std::optional<SampleAxis> SampleAxes::followGather(GatherOp gather) const {
  const int64_t axis = gather.getAxis(), batchAxes = gather.getBatchDims();
  std::optional<SampleAxis> data = find(gather.getData()),
                            indices = find(gather.getIndices());
  const int64_t added =
      static_cast<int64_t>(shapeOf(gather.getIndices()).size()) - batchAxes - 1;
  if (data && data->axis == axis)
    return std::nullopt;
  if (data && data->axis > axis)
    data->axis += added;
  if (indices && indices->axis >= batchAxes)
    indices->axis += axis - batchAxes;
  if (data && indices && !(*data == *indices))
    return std::nullopt;
  return data ? data : indices;
}

std::optional<SampleAxis> SampleAxes::follow(Operation *op) const {
  using Found = std::optional<SampleAxis>;
  if (op->getNumResults() == 0 || op->getNumOperands() == 0)
    return std::nullopt;
  Found first = find(op->getOperand(0));
  // Ops that read elements by index, and ops of equal places, in every shape.
  if (auto gather = dyn_cast<GatherOp>(op))
    return followGather(gather);
  if (hasRole(op, RegionRole::Elementwise) ||
      isa<mpc::CastOp, StopGradientOp>(op))
    return followBroadcast(op);
  return llvm::TypeSwitch<Operation *, Found>(op)
      .Case([&](ReshapeOp view) {
        return followView(view.getInput(), shapeOf(view.getOutput()));
      })
      .Case([&](TransposeOp transpose) -> Found {
        if (first)
          first->axis = llvm::find(transpose.getPerm(), first->axis) -
                        transpose.getPerm().begin();
        return first;
      })
      // Others by kind. These leave every axis where it is.
      .Case<SoftmaxOp, LogSoftmaxOp, BatchNormOp, BatchNormInferenceOp>(
          [&](Operation *) { return first; })
      .Case<LayerNormOp, RMSNormOp>([&](auto norm) {
        bool isMixed = first && llvm::is_contained(norm.getAxes(), first->axis);
        return isMixed ? Found() : first;
      })
      .Case([&](AttentionOp attention) { return followAttention(attention); })
      .Case([&](MatMulOp matmul) -> Found {
        // Rows, or one matrix for each sample; not columns of the left matrix.
        bool isContracted =
            first &&
            first->axis + 1 == int64_t(shapeOf(matmul.getLhs()).size());
        bool isMoved = matmul.getTransA() || find(matmul.getRhs()) ||
                       shapeOf(matmul.getLhs()).size() !=
                           shapeOf(matmul.getOutput()).size();
        return isContracted || isMoved ? Found() : first;
      })
      // Rows of the left matrix are samples.
      .Case([&](GemmOp gemm) {
        bool isRow = first && first->axis == 0 && !gemm.getTransA();
        return isRow ? first : Found();
      })
      // Images lie along axis 0 of input and output.
      .Case([&](ConvOp) { return first && first->axis == 0 ? first : Found(); })
      .Default([](Operation *) { return Found(); });
}
