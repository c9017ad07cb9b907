// Normalisation of each sample by itself: over its last axes, its channels or
// groups of them.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Assemble.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// What a normalisation makes of its input.
struct Normalized {
  Value mean, invStd, output;
};
} // namespace

// 1 / sqrt(variance + epsilon).
static Value invertDeviation(NodeImporter &node, Value variance) {
  if (!variance)
    return {};
  Type element = elementTypeOf(variance);
  Value epsilon = numberConstant(node, node.real("epsilon", 1e-5), element);
  Value deviation = node.emit<SqrtOp>({node.emit<AddOp>({variance, epsilon})});
  return node.emit<DivOp>({numberConstant(node, 1, element), deviation});
}

// Mean 0 and variance 1 over `axes`, which the mean keeps with size 1.
static Normalized normalize(NodeImporter &node, Value x,
                            ArrayRef<int64_t> axes) {
  Value mean = reduce<ReduceMeanOp>(node, x, axes);
  Value centred = node.emit<SubOp>({x, mean});
  Value square = node.emit<MulOp>({centred, centred});
  Value invStd =
      invertDeviation(node, reduce<ReduceMeanOp>(node, square, axes));
  return {mean, invStd, node.emit<MulOp>({centred, invStd})};
}

// The type to compute in: that of attribute 'stash_type', and no smaller than
// the input's and f32.
static FailureOr<Type> readStashType(NodeImporter &node) {
  FailureOr<Type> stash =
      node.elementType("stash_type", node.attributes().getF32Type());
  if (succeeded(stash) && !isa<FloatType>(*stash))
    return node.invalid("expected attribute 'stash_type' to be a float type");
  return stash;
}

static Type getComputeType(NodeImporter &node, Value x, Type stash) {
  unsigned bits = std::max({32u, elementTypeOf(x).getIntOrFloatBitWidth(),
                            stash.getIntOrFloatBitWidth()});
  return bits > 32 ? Type(node.attributes().getF64Type())
                   : Type(node.attributes().getF32Type());
}

// x * scale + bias in the type of x, then rounded to `result`.
static Value applyScale(NodeImporter &node, Value x, Value scale, Value bias,
                        Type result) {
  if (!x)
    return {};
  Type element = elementTypeOf(x);
  Value y = node.emit<MulOp>({x, castTo(node, scale, element)});
  if (bias)
    y = node.emit<AddOp>({y, castTo(node, bias, element)});
  return castTo(node, y, result);
}

// Operand `index`, one element per channel or group, as it is laid along axis 1
// of a tensor of `rank` axes; null where it is absent.
static FailureOr<Value> readPerChannel(NodeImporter &node, unsigned index,
                                       int64_t channels, int64_t rank) {
  SmallVector<int64_t> shape(rank, 1);
  shape[1] = channels;
  if (node.operandShape(index) != ArrayRef<int64_t>(channels))
    return node.invalid("expected input " + Twine(index) + " of shape [" +
                        Twine(channels) + "]");
  return node.reshape(node.operand(index), shape);
}

//===----------------------------------------------------------------------===//
// Over the last axes
//===----------------------------------------------------------------------===//

// The axes from attribute 'axis' on, where scale and bias have no others.
static FailureOr<SmallVector<int64_t>> readLastAxes(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  int64_t rank = shape.size();
  auto axis = node.normalizeAxis(node.integer("axis", -1), rank);
  if (failed(axis))
    return failure();
  for (unsigned index : {1, 2}) {
    if (index >= node.getNumInputs() || !node.hasInput(index))
      continue;
    auto spread = broadcastShapes(shape, node.operandShape(index));
    if (failed(spread) || ArrayRef<int64_t>(*spread) != shape)
      return node.invalid("input " + Twine(index) +
                          " does not broadcast to input 0");
  }
  return llvm::to_vector(llvm::seq<int64_t>(*axis, rank));
}

static LogicalResult importLayerNorm(NodeImporter &node) {
  auto axes = readLastAxes(node);
  FailureOr<Type> stash = readStashType(node);
  if (failed(axes) || failed(stash))
    return failure();
  Value x = node.operand(0), scale = node.operand(1);
  Value bias = node.hasInput(2) ? node.operand(2) : Value();
  Normalized result =
      normalize(node, castTo(node, x, getComputeType(node, x, *stash)), *axes);
  (void)node.define(1, castTo(node, result.mean, *stash));
  (void)node.define(2, castTo(node, result.invStd, *stash));
  return node.define(
      0, applyScale(node, result.output, scale, bias, elementTypeOf(x)));
}

// Output 1 is there in ONNX Runtime's spelling alone.
static LogicalResult importRMSNorm(NodeImporter &node) {
  auto axes = readLastAxes(node);
  FailureOr<Type> stash = readStashType(node);
  if (failed(axes) || failed(stash))
    return failure();
  Value input = node.operand(0);
  Value x = castTo(node, input, getComputeType(node, input, *stash));
  Value square = node.emit<MulOp>({x, x});
  Value invRoot =
      invertDeviation(node, reduce<ReduceMeanOp>(node, square, *axes));
  if (invRoot && failed(node.define(1, castTo(node, invRoot, *stash))))
    return failure();
  return node.define(0, applyScale(node, node.emit<MulOp>({x, invRoot}),
                                   node.operand(1), {}, elementTypeOf(input)));
}

//===----------------------------------------------------------------------===//
// Gradients over the last axes
//===----------------------------------------------------------------------===//

// Outputs 0 to 2, the gradients of the input, its scale and its bias, of what
// `normalized` times scale plus bias is; of `normalized` the mean is 0 where it
// `isCentred`, and the mean square 1. Nothing is computed in less than f32.
static LogicalResult defineNormGrad(NodeImporter &node, Value normalized,
                                    Value invStd, bool isCentred) {
  if (!normalized || !invStd)
    return failure();
  Type compute = elementTypeOf(normalized),
       type = elementTypeOf(node.operand(0));
  int64_t rank = node.operandShape(0).size();
  auto axis = node.normalizeAxis(node.integer("axis", -1), rank);
  if (failed(axis))
    return failure();
  auto axes = llvm::to_vector(llvm::seq<int64_t>(*axis, rank));
  for (StringRef name : {"epsilon", "stash_type"}) // of the forward op
    node.ignore(name);
  Value dy = castTo(node, node.operand(0), compute);
  Value d = node.emit<MulOp>({dy, castTo(node, node.operand(2), compute)});
  Value along =
      reduce<ReduceMeanOp>(node, node.emit<MulOp>({d, normalized}), axes);
  Value dx = node.emit<SubOp>({d, node.emit<MulOp>({normalized, along})});
  if (isCentred)
    dx = node.emit<SubOp>({dx, reduce<ReduceMeanOp>(node, d, axes)});
  dx = node.emit<MulOp>({dx, castTo(node, invStd, compute)});
  if (!dx)
    return failure();
  (void)node.define(0, castTo(node, dx, type));
  // Scale and bias were broadcast.
  auto sumToScale = [&](Value value) -> Value {
    if (!value)
      return {};
    auto shape = node.operandType(2).clone(compute);
    if (NodeImporter::shapeOf(value) != shape.getShape())
      value =
          node.emit<SumToSizeOp>({value}, {}, cast<RankedTensorType>(shape));
    return castTo(node, value, node.operandType(2).getElementType());
  };
  if (node.hasOutput(1) &&
      failed(node.define(1, sumToScale(node.emit<MulOp>({dy, normalized})))))
    return failure();
  return node.hasOutput(2) ? node.define(2, sumToScale(dy)) : success();
}

// The type to compute a gradient in: no smaller than f32.
static Type getGradType(NodeImporter &node) {
  return getComputeType(node, node.operand(1), node.attributes().getF32Type());
}

// LayerNormalizationGrad(dY, X, scale, mean, inv_std).
static LogicalResult importLayerNormGrad(NodeImporter &node) {
  Type compute = getGradType(node);
  Value x = castTo(node, node.operand(1), compute);
  Value invStd = castTo(node, node.operand(4), compute);
  Value centred = node.emit<SubOp>({x, castTo(node, node.operand(3), compute)});
  return defineNormGrad(node, node.emit<MulOp>({centred, invStd}), invStd,
                        /*isCentred=*/true);
}

// InvertibleLayerNormalizationGrad(dY, Y, scale, bias, inv_std): the forward op
// kept its output alone.
static LogicalResult importInvertibleNormGrad(NodeImporter &node) {
  Type compute = getGradType(node);
  Value y = castTo(node, node.operand(1), compute);
  Value scaled = node.emit<SubOp>({y, castTo(node, node.operand(3), compute)});
  Value normalized =
      node.emit<DivOp>({scaled, castTo(node, node.operand(2), compute)});
  return defineNormGrad(node, normalized, node.operand(4), /*isCentred=*/true);
}

// SimplifiedLayerNormalizationGrad(dY, X, scale, inv_root).
static LogicalResult importRMSNormGrad(NodeImporter &node) {
  Type compute = getGradType(node);
  Value invRoot = castTo(node, node.operand(3), compute);
  Value x = castTo(node, node.operand(1), compute);
  return defineNormGrad(node, node.emit<MulOp>({x, invRoot}), invRoot,
                        /*isCentred=*/false);
}

//===----------------------------------------------------------------------===//
// Over channels
//===----------------------------------------------------------------------===//

static LogicalResult importInstanceNorm(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  int64_t rank = shape.size();
  if (rank < 3)
    return node.invalid("expected an input with spatial axes, found rank " +
                        Twine(rank));
  FailureOr<Value> scale = readPerChannel(node, 1, shape[1], rank);
  FailureOr<Value> bias = readPerChannel(node, 2, shape[1], rank);
  if (failed(scale) || failed(bias))
    return failure();
  Value input = node.operand(0);
  Type compute = getComputeType(node, input, node.attributes().getF32Type());
  Normalized result = normalize(node, castTo(node, input, compute),
                                llvm::to_vector(llvm::seq<int64_t>(2, rank)));
  return node.define(
      0, applyScale(node, result.output, *scale, *bias, elementTypeOf(input)));
}

// Scale and bias are of each channel; before opset 21 of each group.
static LogicalResult importGroupNorm(NodeImporter &node) {
  SmallVector<int64_t> shape(node.operandShape(0));
  int64_t rank = shape.size(), groups = node.integer("num_groups", 0);
  FailureOr<Type> stash = readStashType(node);
  if (failed(stash))
    return failure();
  if (rank < 2 || groups < 1 || shape[1] % groups != 0)
    return node.invalid("attribute 'num_groups' of " + Twine(groups) +
                        " does not divide the channels");
  bool isOfGroups = node.getOpset() < 21;
  int64_t scaleRank = isOfGroups ? 3 : rank;
  int64_t scaled = isOfGroups ? groups : shape[1];
  FailureOr<Value> scale = readPerChannel(node, 1, scaled, scaleRank);
  FailureOr<Value> bias = readPerChannel(node, 2, scaled, scaleRank);
  if (failed(scale) || failed(bias))
    return failure();
  Value input = node.operand(0);
  int64_t columns = shape[1] / groups;
  for (int64_t extent : ArrayRef<int64_t>(shape).drop_front(2))
    columns *= extent;
  Value x = node.reshape(input, {shape[0], groups, columns});
  Type compute = getComputeType(node, input, *stash),
       type = elementTypeOf(input);
  Value y = normalize(node, castTo(node, x, compute), {2}).output;
  if (!y)
    return failure();
  if (isOfGroups)
    return node.define(
        0, node.reshape(applyScale(node, y, *scale, *bias, type), shape));
  return node.define(
      0, applyScale(node, node.reshape(y, shape), *scale, *bias, type));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getLayerNormOps() {
  static const OpEntry entries[] = {
      {"", "GroupNormalization", 18, kNoEnd, 3, 3, 1, importGroupNorm},
      {"", "InstanceNormalization", 6, kNoEnd, 3, 3, 1, importInstanceNorm},
      // ONNX Runtime had these before ONNX did, without a domain.
      {"", "LayerNormalization", 1, kNoEnd, 2, 3, 3, importLayerNorm},
      {"", "SimplifiedLayerNormalization", 1, kNoEnd, 2, 2, 2, importRMSNorm},
      {kMicrosoft, "InvertibleLayerNormalizationGrad", 1, kNoEnd, 5, 5, 3,
       importInvertibleNormGrad},
      {kMicrosoft, "LayerNormalizationGrad", 1, kNoEnd, 5, 5, 3,
       importLayerNormGrad},
      {kMicrosoft, "SimplifiedLayerNormalizationGrad", 1, kNoEnd, 4, 4, 2,
       importRMSNormGrad},
      {"", "RMSNormalization", 23, kNoEnd, 2, 2, 1, importRMSNorm},
  };
  return entries;
}
