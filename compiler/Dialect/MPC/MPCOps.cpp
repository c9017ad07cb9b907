// Verifies the mpc ops whose result shapes are given, not inferred.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/MPC/Shapes/ShapeInference.h"

#include "mlir/IR/DialectImplementation.h"
#include "mlir/IR/DialectResourceBlobManager.h"

using namespace mlir;
using namespace mpc;

#define GET_OP_CLASSES
#include "compiler/Dialect/MPC/MPCOps.cpp.inc"

LogicalResult mpc::verifyHasData(Operation *op, ElementsAttr value) {
  auto resource = dyn_cast<DenseResourceElementsAttr>(value);
  if (!resource || resource.getRawHandle().getBlob())
    return success();
  return op->emitOpError("has no values: they were left out when this text "
                         "was printed; mpc compile --emit-data prints them");
}

LogicalResult mpc::ConstantOp::verify() {
  return verifyHasData(*this, getValue());
}

LogicalResult VariableOp::verify() {
  auto type = dyn_cast<RankedTensorType>(getType());
  if (!type || !type.hasStaticShape())
    return emitOpError("expected a tensor type of static shape, found ")
           << getType();
  if (!isStateRole(getRole()))
    return emitOpError("expected a role of state, found ")
           << stringify(getRole());
  if (getInit() && getFill())
    return emitOpError("expected init or fill, found both");
  if (getInit() && getInit()->getShapedType() != type)
    return emitOpError("expected init of type ")
           << type << ", found " << getInit()->getShapedType();
  return success();
}

bool SGDOp::keepsWithoutGradient() { return getWeightDecay().isZero(); }
// True if an element with a zero gradient stays unchanged. False if epsilon
// rounds to 0 in the parameter's type: the update of such an element would be 0
// / 0 = NaN.
bool AdagradOp::keepsWithoutGradient() {
  APFloat epsilon = getEpsilon();
  bool loses;
  epsilon.convert(cast<FloatType>(elementOf(getParam())).getFloatSemantics(),
                  APFloat::rmNearestTiesToEven, &loses);
  return getWeightDecay().isZero() && !epsilon.isZero();
}

LogicalResult CastOp::verify() {
  if (getInput().getType().getShape() != getType().getShape())
    return emitOpError("expected equal shapes, found ")
           << getInput().getType() << " and " << getType();
  return success();
}

LogicalResult BitCastOp::verify() {
  auto input = getInput().getType(), output = getType();
  if (input.getShape() != output.getShape())
    return emitOpError("expected equal shapes, found ")
           << input << " and " << output;
  if (input.getElementTypeBitWidth() != output.getElementTypeBitWidth())
    return emitOpError("expected types of one width, found ")
           << input.getElementType() << " and " << output.getElementType();
  return success();
}

LogicalResult ModOp::verify() {
  if (!getFmod() && isa<FloatType>(elementOf(getLhs())))
    return emitOpError("expected attribute fmod, because the operands are "
                       "floats, found ")
           << getLhs().getType();
  return success();
}

LogicalResult ReshapeOp::verify() {
  auto input = getInput().getType(), output = getType();
  if (input.getElementType() != output.getElementType())
    return emitOpError("expected equal element types, found ")
           << input.getElementType() << " and " << output.getElementType();
  if (input.getNumElements() != output.getNumElements())
    return emitOpError("expected ")
           << input.getNumElements() << " elements, found "
           << output.getNumElements();
  return success();
}

// Checks that the shape of `small` broadcasts to that of `large`.
static LogicalResult verifyBroadcastsTo(Operation *op, RankedTensorType small,
                                        RankedTensorType large) {
  auto shape = broadcastShapes(small.getShape(), large.getShape());
  if (failed(shape) || ArrayRef<int64_t>(*shape) != large.getShape())
    return op->emitOpError("shape [")
           << small.getShape() << "] does not broadcast to ["
           << large.getShape() << "]";
  return success();
}

LogicalResult RandomUniformOp::verify() {
  for (Value counter : getOperands())
    if (cast<RankedTensorType>(counter.getType()).getRank() != 0)
      return emitOpError("expected scalar seed and micro_step, found ")
             << counter.getType();
  return success();
}

LogicalResult ExpandOp::verify() {
  return verifyBroadcastsTo(*this, getInput().getType(), getType());
}

LogicalResult SumToSizeOp::verify() {
  return verifyBroadcastsTo(*this, getType(), getInput().getType());
}

LogicalResult RegionOp::verify() {
  if (getKind() == KernelKind::Epilogue)
    return emitOpError(
        "expected another kind than epilogue, which only Planning makes");
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getInputs().getTypes())
    return emitOpError(
               "expected one block argument per input, of its type, found ")
           << block.getArgumentTypes() << " for " << getInputs().getTypes();
  if (block.getTerminator()->getOperandTypes() != getResultTypes())
    return emitOpError(
               "expected the yielded types to be the result types, found ")
           << block.getTerminator()->getOperandTypes() << " for "
           << getResultTypes();
  return success();
}

Value RegionOp::getTiedInput(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  return argument ? getInputs()[argument.getArgNumber()] : Value();
}

Operation *RegionOp::getContraction() {
  return findContraction(getBody().front());
}

// Checks that there is one result per operand, of the operand's shape.
static LogicalResult verifyShapesMatch(Operation *op, TypeRange operands,
                                       TypeRange results) {
  if (operands.size() != results.size())
    return op->emitOpError("expected ")
           << operands.size() << " results, found " << results.size();
  for (auto [operand, result] : llvm::zip(operands, results))
    if (cast<RankedTensorType>(operand).getShape() !=
        cast<RankedTensorType>(result).getShape())
      return op->emitOpError("expected a result of the shape of ")
             << operand << ", found " << result;
  return success();
}

LogicalResult GradientOp::verify() {
  return verifyShapesMatch(*this, getXs().getTypes(),
                           getGradients().getTypes());
}

LogicalResult ClipGradNormOp::verify() {
  if (getMaxNorm() && getMaxNorm()->convertToDouble() <= 0.0)
    return emitOpError("expected max_norm above 0, found ")
           << getMaxNorm()->convertToDouble();
  if (cast<RankedTensorType>(getNorm().getType()).getRank() != 0)
    return emitOpError("expected a scalar norm, found ") << getNorm().getType();
  return verifyShapesMatch(*this, getGrads().getTypes(),
                           getClipped().getTypes());
}

LogicalResult AllReduceOp::verify() {
  if (getInputs().empty())
    return emitOpError("expected an operand, found none");
  if (getInputs().getTypes() != getOutputs().getTypes())
    return emitOpError("expected results of the operands' types, found ")
           << getOutputs().getTypes() << " for " << getInputs().getTypes();
  Type element = elementOf(getInputs().front());
  for (Value input : getInputs())
    if (elementOf(input) != element)
      return emitOpError("expected operands of one element type, found ")
             << element << " and " << elementOf(input);
  if (getKind() == Reduce::Mean && !isa<FloatType>(element))
    return emitOpError("expected floats for a mean, found ") << element;
  if (getOwners() && getOwners()->size() != getInputs().size())
    return emitOpError("expected an owner for each of ")
           << getInputs().size() << " operands, found " << getOwners()->size();
  if (getRows() && (getInputs().size() != 1 || getOwners() ||
                    typeOf(getInputs().front()).getRank() == 0))
    return emitOpError("expected one tensor with an axis and no owner, because "
                       "rows travel, found ")
           << getInputs().getTypes() << (getOwners() ? " with owners" : "");
  return success();
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

std::optional<int64_t> mpc::findSlicedAxis(SliceOp slice) {
  std::optional<int64_t> found;
  for (auto [axis, extent] : llvm::enumerate(shapeOf(slice.getInput()))) {
    if (slice.getSizes()[axis] == extent)
      continue;
    if (found)
      return std::nullopt;
    found = axis;
  }
  return found;
}
