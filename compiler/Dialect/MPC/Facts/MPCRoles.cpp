// Implements the interfaces that describe contractions (rows, columns and
// depth), reductions (reduced axes), and ops with a memory layout (activations
// and filters).
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Shapes/FilterLayout.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

// Returns the extents of a matrix product that writes `result`. In matrix
// products, and in convolutions in NHWC, the last axis is the columns, and all
// other axes together are the rows.
static ContractionSpace spaceOf(Value result, int64_t depth) {
  ArrayRef<int64_t> shape = shapeOf(result);
  return {ShapedType::getNumElements(shape.drop_back()), shape.back(), depth};
}

ContractionSpace MatMulOp::getContractionSpace() {
  ArrayRef<int64_t> lhs = shapeOf(getLhs());
  return spaceOf(getOutput(), lhs[lhs.size() - (getTransA() ? 2 : 1)]);
}

ContractionSpace GemmOp::getContractionSpace() {
  return spaceOf(getOutput(), shapeOf(getA())[getTransA() ? 0 : 1]);
}

ContractionSpace ConvOp::getContractionSpace() {
  return spaceOf(getOutput(),
                 ShapedType::getNumElements(shapeOf(getWeight()).drop_front()));
}

ContractionSpace ConvInputGradOp::getContractionSpace() {
  ArrayRef<int64_t> weight = shapeOf(getWeight());
  int64_t taps = ShapedType::getNumElements(
      hasInputChannelsLast(*this) ? weight.drop_front().drop_back()
                                  : weight.drop_front(2));
  return spaceOf(getDInput(),
                 weight[0] / static_cast<int64_t>(getGroup()) * taps);
}

ContractionSpace ConvWeightGradOp::getContractionSpace() {
  ArrayRef<int64_t> weight = shapeOf(getDWeight());
  return {weight[0], ShapedType::getNumElements(weight.drop_front()),
          ShapedType::getNumElements(shapeOf(getDOutput())) / weight[0]};
}

std::optional<size_t> ConvOp::getColumnAxis() {
  return getChannelAxis(getLayout(), getType().getRank());
}

std::optional<size_t> ConvInputGradOp::getColumnAxis() {
  return getChannelAxis(getLayout(), getType().getRank());
}

std::optional<size_t> ConvWeightGradOp::getColumnAxis() { return std::nullopt; }

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

SmallVector<int64_t> SumToSizeOp::getReducedAxes() {
  ArrayRef<int64_t> input = shapeOf(getInput()), output = shapeOf(getOutput());
  size_t missing = input.size() - output.size();
  SmallVector<int64_t> axes;
  for (auto [axis, extent] : llvm::enumerate(input))
    if (axis < missing || output[axis - missing] != extent)
      axes.push_back(axis);
  return axes;
}

int64_t SumToSizeOp::getReductionParts() { return 1; }

Value SumToSizeOp::reduceLike(OpBuilder &builder, RankedTensorType type,
                              Value input, ArrayRef<int64_t> axes,
                              IntegerAttr parts) {
  return ReduceSumOp::create(builder, getLoc(), type, input, axes,
                             /*keepdims=*/true, parts);
}

//===----------------------------------------------------------------------===//
// Activations and filters
//===----------------------------------------------------------------------===//

// An op with a layout has one activation among its operands and one among its
// results, unless stated here. conv_weight_grad reads two activations and
// produces none. batch_norm_grad and max_pool_grad read two activations: the
// gradient of the output, and what the forward op saved. max_pool also produces
// indices.
unsigned ConvWeightGradOp::countActivationOperands() { return 2; }
unsigned ConvWeightGradOp::countActivationResults() { return 0; }
unsigned BatchNormGradOp::countActivationOperands() { return 2; }
unsigned MaxPoolGradOp::countActivationOperands() { return 2; }
unsigned MaxPoolOp::countActivationResults() { return 2; }

Value ConvOp::getFilter() { return getWeight(); }
Value ConvInputGradOp::getFilter() { return getWeight(); }
Value ConvWeightGradOp::getFilter() { return getDWeight(); }
