// The table of gradient rules, and the builder for writing rules.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Differentiation/GradientRules.h"

#include "compiler/Dialect/MPC/NodeNames.h"

using namespace mlir;
using namespace mpc;

bool mpc::isFloatTensor(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && isa<FloatType>(type.getElementType());
}

RankedTensorType mpc::getGradientType(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  if (tensor.getElementType().isF64())
    return tensor;
  return tensor.clone(Float32Type::get(type.getContext()));
}

//===----------------------------------------------------------------------===//
// GradientBuilder
//===----------------------------------------------------------------------===//

GradientBuilder::GradientBuilder(Operation *anchor,
                                 const DenseSet<Value> &active)
    : builder(anchor, this), active(active) {}

void GradientBuilder::notifyOperationInserted(Operation *inserted,
                                              OpBuilder::InsertPoint) {
  setPhase(inserted, Phase::Backward);
}

bool GradientBuilder::needs(unsigned operand) const {
  assert(op && operand < op->getNumOperands() && "setOp comes first");
  return active.contains(op->getOperand(operand)) &&
         GradientRules::get().flowsInto(op->getOpOperand(operand));
}

Location GradientBuilder::at(StringRef suffix) const {
  assert(op && "setOp comes first");
  return addSuffix(op->getLoc(), suffix);
}

void GradientBuilder::add(unsigned operand, StringRef suffix, Value gradient) {
  Value value = op->getOperand(operand);
  auto type = getGradientType(value.getType());
  auto found = cast<RankedTensorType>(gradient.getType());
  if (found.getShape() != type.getShape())
    gradient = SumToSizeOp::create(builder, at(suffix), type, gradient);
  else if (found != type)
    gradient = mpc::CastOp::create(builder, at(suffix), type, gradient);
  accumulate(value, at(suffix), gradient);
}

void GradientBuilder::addBox(unsigned operand, StringRef suffix, Value gradient,
                             ArrayRef<int64_t> offsets) {
  assert(gradient && operand < op->getNumOperands() && "an operand of the op");
  assert(offsets.size() ==
             cast<RankedTensorType>(gradient.getType()).getShape().size() &&
         "an offset per axis of the box");
  boxes[op->getOperand(operand)].push_back(
      {gradient, SmallVector<int64_t>(offsets), at(suffix)});
}

Value GradientBuilder::gradientOf(Value value) {
  auto found = boxes.find(value);
  if (found == boxes.end())
    return gradients.lookup(value);
  SmallVector<GradientBox> parts = std::move(found->second);
  boxes.erase(found);
  auto shape = cast<RankedTensorType>(value.getType()).getShape();
  for (Value whole : joinBoxes(builder, shape, parts))
    accumulate(value, parts.front().location, whole);
  return gradients.lookup(value);
}

void GradientBuilder::accumulate(Value value, Location location,
                                 Value gradient) {
  assert(gradient && gradient.getType() == getGradientType(value.getType()) &&
         "gradients have the value's shape, and are f32 or f64");
  Value &sum = gradients[value];
  sum = sum ? AddOp::create(builder, addSuffix(location, "sum"),
                            gradient.getType(), sum, gradient)
            : gradient;
}

Value GradientBuilder::constant(Location location, double value, Value like) {
  Type element = cast<RankedTensorType>(like.getType()).getElementType();
  auto type = RankedTensorType::get({}, element);
  return ConstantOp::create(
      builder, location,
      DenseElementsAttr::get(type, builder.getFloatAttr(element, value)));
}

Value GradientBuilder::zeros(Location location, RankedTensorType type) {
  return ConstantOp::create(
      builder, location,
      DenseElementsAttr::get(type, builder.getZeroAttr(type.getElementType())));
}

// Returns the result type of an elementwise op on two tensors: the broadcast
// shape, with elements of f64 if `lhs` has f64, otherwise f32.
static RankedTensorType broadcastType(Value lhs, Value rhs) {
  auto left = getGradientType(lhs.getType());
  auto right = cast<RankedTensorType>(rhs.getType());
  auto shape = broadcastShapes(left.getShape(), right.getShape());
  assert(succeeded(shape) && "operands of an elementwise op broadcast");
  return left.clone(*shape);
}

Value GradientBuilder::mul(Location location, Value lhs, Value rhs) {
  return MulOp::create(builder, location, broadcastType(lhs, rhs), lhs, rhs);
}

Value GradientBuilder::sub(Location location, Value lhs, Value rhs) {
  return SubOp::create(builder, location, broadcastType(lhs, rhs), lhs, rhs);
}

Value GradientBuilder::neg(Location location, Value value) {
  return NegOp::create(builder, location, value.getType(), value);
}

Value GradientBuilder::scale(Location location, Value value, double factor) {
  if (factor == 1.0)
    return value;
  return mul(location, value, constant(location, factor, value));
}

Value GradientBuilder::reshape(Location location, Value value,
                               ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType()).clone(shape);
  assert(type.getNumElements() ==
             cast<RankedTensorType>(value.getType()).getNumElements() &&
         "a reshape keeps all elements");
  if (type == value.getType())
    return value;
  return ReshapeOp::create(builder, location, type, value);
}

//===----------------------------------------------------------------------===//
// GradientRules
//===----------------------------------------------------------------------===//

const GradientRules &GradientRules::get() {
  static const GradientRules rules = [] {
    GradientRules table;
    addElementwiseRules(table);
    addTensorRules(table);
    addLayerRules(table);
    addIndexedRules(table);
    addScanRules(table);
    addIfRules(table);
    return table;
  }();
  return rules;
}

const GradientRule *GradientRules::lookup(Operation *op) const {
  auto found = rules.find(op->getName().getStringRef());
  return found == rules.end() ? nullptr : &found->second;
}

std::vector<StringRef> GradientRules::getOpNames() const {
  std::vector<StringRef> names(rules.keys().begin(), rules.keys().end());
  llvm::sort(names);
  return names;
}

bool GradientRules::flowsInto(OpOperand &operand) const {
  if (!isFloatTensor(operand.get()))
    return false;
  const GradientRule *rule = lookup(operand.getOwner());
  return !rule || !llvm::is_contained(rule->constantOperands,
                                      operand.getOperandNumber());
}

DenseSet<Value> mpc::findDifferentiableSources(Value y) {
  DenseSet<Value> sources = {y};
  SmallVector<Value> worklist = {y};
  while (!worklist.empty()) {
    Operation *op = worklist.pop_back_val().getDefiningOp();
    if (!op)
      continue;
    for (OpOperand &operand : op->getOpOperands())
      if (GradientRules::get().flowsInto(operand) &&
          sources.insert(operand.get()).second)
        worklist.push_back(operand.get());
  }
  return sources;
}
