// Imports ops that ONNX Runtime's trainer puts between gradients and update:
// MixedPrecisionScale scales gradients, IsAllFinite tests them, ReduceAllL2
// computes their norm. Also imports Group and PassThrough, which only order
// nodes, and YieldOp, which passes outputs to the program that runs the graph.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// Returns a rank-0 boolean: true if any element of `x` is true.
static Value reduceAny(NodeImporter &node, Value x) {
  if (!x || NodeImporter::shapeOf(x).empty())
    return x;
  Type integer = node.attributes().getI64Type();
  auto axes =
      llvm::to_vector(llvm::seq<int64_t>(0, NodeImporter::typeOf(x).getRank()));
  Value any = reduce<ReduceMaxOp>(node, castTo(node, x, integer), axes,
                                  /*keepDims=*/false);
  return castTo(node, any, node.attributes().getI1Type());
}

// Returns a boolean for each element: true for infinite and NaN elements, or
// for only one kind if an attribute says so.
static Value findNonFinite(NodeImporter &node, Value x) {
  bool isInfinityOnly = node.integer("isinf_only", 0) != 0;
  bool isNaNOnly = node.integer("isnan_only", 0) != 0;
  if (isInfinityOnly && isNaNOnly) {
    (void)node.invalid(
        "expected attribute 'isinf_only' or 'isnan_only', found both set");
    return {};
  }
  if (isInfinityOnly)
    return node.emit<IsInfOp>({x});
  if (isNaNOnly)
    return node.emit<IsNaNOp>({x});
  return node.emit<OrOp>({node.emit<IsInfOp>({x}), node.emit<IsNaNOp>({x})});
}

static LogicalResult importIsFinite(NodeImporter &node) {
  return node.define(0,
                     node.emit<NotOp>({findNonFinite(node, node.operand(0))}));
}

// Imports IsAllFinite: true if all elements of all inputs are finite.
static LogicalResult importIsAllFinite(NodeImporter &node) {
  Value any;
  for (Value x : node.operands()) {
    Value found = reduceAny(node, findNonFinite(node, x));
    if (!found)
      return failure();
    any = any ? node.emit<OrOp>({any, found}) : found;
  }
  return node.define(0, node.emit<NotOp>({any}));
}

static LogicalResult importAll(NodeImporter &node) {
  if (!elementTypeOf(node.operand(0)).isInteger(1))
    return node.invalid("expected booleans" + node.found({0}));
  Value any = reduceAny(node, node.emit<NotOp>({node.operand(0)}));
  return node.define(0, node.emit<NotOp>({any}));
}

// Imports MixedPrecisionScale: (s, x...) -> s * x..., in the type of attribute
// 'to'.
static LogicalResult importMixedPrecisionScale(NodeImporter &node) {
  if (node.integer("fuse_outputs", 0) != 0)
    return node.unsupported("attribute 'fuse_outputs' makes one tensor of all "
                            "outputs; export the graph without it");
  unsigned count = node.getNumInputs() - 1;
  if (node.getNode().output_size() != static_cast<int>(count))
    return node.invalid("expected " + Twine(count) + " outputs, found " +
                        Twine(node.getNode().output_size()));
  if (!node.hasAttribute("to"))
    return node.invalid("attribute 'to' is missing");
  LogicalResult result = success();
  for (unsigned i = 0; i < count; ++i) {
    Value x = node.operand(1 + i);
    FailureOr<Type> type = node.elementType("to", elementTypeOf(x));
    if (failed(type))
      return failure();
    // ONNX Runtime's trainer writes the scale with shape [1].
    Value scale = castTo(node, node.reshape(node.operand(0), {}), *type);
    Value scaled = node.emit<MulOp>({castTo(node, x, *type), scale});
    if (failed(node.define(i, scaled)))
      result = failure();
  }
  return result;
}

// Imports ReduceAllL2: the square root of the sum of squares of all elements of
// all inputs.
static LogicalResult importReduceAllL2(NodeImporter &node) {
  Value sum;
  for (Value x : node.operands()) {
    Type wide = elementTypeOf(x).isF64() ? elementTypeOf(x)
                                         : Type(node.attributes().getF32Type());
    x = castTo(node, x, wide);
    Value square = node.emit<MulOp>({x, x});
    if (!square)
      return failure();
    if (int64_t rank = NodeImporter::typeOf(square).getRank(); rank > 0)
      square = reduce<ReduceSumOp>(node, square,
                                   llvm::to_vector(llvm::seq<int64_t>(0, rank)),
                                   /*keepDims=*/false);
    sum = sum ? node.emit<AddOp>({sum, square}) : square;
  }
  return node.define(0, node.emit<SqrtOp>({sum}));
}

// Imports Group, which is done when all inputs are. mpc orders ops by the
// values that they read, so the output is the constant true.
static LogicalResult importGroup(NodeImporter &node) {
  auto [done, bytes] = HostTensor::allocate(
      RankedTensorType::get({}, node.attributes().getI1Type()));
  *bytes = 1;
  return node.define(0, done);
}

// Imports PassThrough, which returns its inputs when all are ready. mpc orders
// ops by the values that they read, so the outputs are the inputs.
static LogicalResult importPassThrough(NodeImporter &node) {
  if (node.getNode().output_size() > static_cast<int>(node.getNumInputs()))
    return node.invalid("expected no more outputs than inputs, found " +
                        Twine(node.getNode().output_size()) + " outputs and " +
                        Twine(node.getNumInputs()) + " inputs");
  for (unsigned i = 0, count = node.getNode().output_size(); i < count; ++i)
    if (node.hasOutput(i) && failed(node.define(i, node.operand(i))))
      return failure();
  return success();
}

// Imports ZeroGradient: (old gradient, signal) -> zeros. The signal only delays
// the node.
static LogicalResult importZeroGradient(NodeImporter &node) {
  RankedTensorType type = node.operandType(0);
  if (!isa<FloatType>(type.getElementType()))
    return node.invalid("expected floats" + node.found({0}));
  (void)node.operand(1);
  Value zero = numberConstant(node, 0, type.getElementType());
  return node.define(0, expand(node, zero, type.getShape()));
}

// Imports YieldOp, which passes values to the surrounding program and returns
// their gradients. Only the gradient of a loss is known: 1.
static LogicalResult importYieldOp(NodeImporter &node) {
  for (StringRef name : {"full_shape_outputs", "name"})
    node.ignore(name);
  SmallVector<int64_t> without = node.integerList("non_differentiable_outputs")
                                     .value_or(SmallVector<int64_t>());
  // Each differentiable input has one output, its gradient. Outputs follow the
  // order of these inputs.
  int next = 0, outputs = node.getNode().output_size();
  for (unsigned i = 0; i < node.getNumInputs() && next < outputs; ++i) {
    if (llvm::is_contained(without, i))
      continue;
    RankedTensorType type = node.operandType(i);
    // A single number is taken as the loss, whose gradient is 1. Only the
    // surrounding program knows other gradients.
    bool isLoss =
        type.getNumElements() == 1 && isa<FloatType>(type.getElementType());
    if (!isLoss)
      return node.unsupported(
          "the gradient of '" + node.getInputName(i) +
          "' comes from outside of the graph; choose a loss of it, such as "
          "--loss mse@" +
          node.getInputName(i));
    // The backward pass begins at this constant 1. mpc multiplies it by the
    // loss scale.
    node.setPhase(Phase::Backward);
    auto seed = node.create<GradientSeedOp>({}, {}, type);
    if (!seed || failed(node.define(next++, seed.getOutput())))
      return failure();
  }
  return success();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getLossScalingOps() {
  static const OpEntry entries[] = {
      {kMicrosoft, "All", 1, kNoEnd, 1, 1, 1, importAll},
      {kMicrosoft, "Group", 1, kNoEnd, 1, kAnyNumber, 1, importGroup},
      {kMicrosoft, "IsAllFinite", 1, kNoEnd, 1, kAnyNumber, 1,
       importIsAllFinite},
      {kMicrosoft, "IsFinite", 1, kNoEnd, 1, 1, 1, importIsFinite},
      {kMicrosoft, "MixedPrecisionScale", 1, kNoEnd, 2, kAnyNumber, kAnyNumber,
       importMixedPrecisionScale},
      {kMicrosoft, "PassThrough", 1, kNoEnd, 1, kAnyNumber, kAnyNumber,
       importPassThrough},
      {kMicrosoft, "ReduceAllL2", 1, kNoEnd, 1, kAnyNumber, 1,
       importReduceAllL2},
      {kMicrosoft, "YieldOp", 1, kNoEnd, 1, kAnyNumber, kAnyNumber,
       importYieldOp},
      {kMicrosoft, "ZeroGradient", 1, kNoEnd, 2, 2, 1, importZeroGradient},
  };
  return entries;
}
