// Imports fused ops of com.microsoft, which ONNX Runtime's optimizer makes of
// several ops: norms of sums, embeddings, and products and convolutions with an
// activation.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Ops/NN/Window.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

static Value readOptional(NodeImporter &node, unsigned index) {
  return node.hasInput(index) ? node.operand(index) : Value();
}

static Value addTo(NodeImporter &node, Value x, Value other) {
  return other ? node.emit<AddOp>({x, other}) : x;
}

//===----------------------------------------------------------------------===//
// Norms of sums
//===----------------------------------------------------------------------===//

// Normalizes over the last axis. If `hasStatistics`, outputs 1 and 2 are the
// mean and the inverse standard deviation.
static LogicalResult normalizeLast(NodeImporter &node, Value x, Value scale,
                                   Value bias, bool hasStatistics) {
  if (!x || !scale)
    return failure();
  SmallVector<int64_t> axes = {NodeImporter::typeOf(x).getRank() - 1};
  SmallVector<Value> operands = {x, scale};
  if (bias)
    operands.push_back(bias);
  auto norm = node.create<LayerNormOp>(
      operands, {node.attribute("axes", axes),
                 node.attribute("epsilon", node.real("epsilon", 1e-12f))});
  if (!norm || failed(node.define(0, norm.getOutput())))
    return failure();
  if (!hasStatistics)
    return success();
  (void)node.define(1, norm.getMean());
  return node.define(2, norm.getInvStd());
}

// Returns input + skip + bias, and defines output 3 as this sum.
static Value sumSkip(NodeImporter &node, unsigned bias) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  auto whole = broadcastShapes(shape, node.operandShape(1));
  if (failed(whole) || ArrayRef<int64_t>(*whole) != shape) {
    (void)node.invalid("input 1 does not broadcast to input 0" +
                       node.found({0, 1}));
    return {};
  }
  Value sum = addTo(node, node.operand(0), node.operand(1));
  sum = addTo(node, sum, readOptional(node, bias));
  if (sum)
    (void)node.define(3, sum);
  return sum;
}

// Imports SkipLayerNormalization: (x, skip, scale, shift, bias) -> layer norm
// of x + skip + bias.
static LogicalResult importSkipLayerNorm(NodeImporter &node) {
  return normalizeLast(node, sumSkip(node, 4), node.operand(2),
                       readOptional(node, 3), /*hasStatistics=*/true);
}

// Imports SkipSimplifiedLayerNormalization: (x, skip, scale, bias) -> RMS norm
// of x + skip + bias.
static LogicalResult importSkipRMSNorm(NodeImporter &node) {
  Value sum = sumSkip(node, 3);
  if (!sum)
    return failure();
  if (node.hasOutput(1))
    return node.unsupported(
        "output 1, the mean, is not supported; leave it out");
  SmallVector<int64_t> axes = {NodeImporter::typeOf(sum).getRank() - 1};
  auto norm = node.create<RMSNormOp>(
      {sum, node.operand(2)},
      {node.attribute("axes", axes),
       node.attribute("epsilon", node.real("epsilon", 1e-12f))});
  if (!norm || failed(node.define(0, norm.getOutput())))
    return failure();
  return node.define(2, norm.getInvRms());
}

//===----------------------------------------------------------------------===//
// Embeddings
//===----------------------------------------------------------------------===//

// Looks up the rows of input `table` at input `ids`; null if either is absent.
static FailureOr<Value> lookUp(NodeImporter &node, unsigned table,
                               unsigned ids) {
  if (!node.hasInput(table) || !node.hasInput(ids))
    return Value();
  if (node.operandShape(table).size() != 2)
    return node.invalid("expected a table of rank 2" + node.found({table}));
  if (failed(checkIndices(node, ids, node.operandShape(table)[0])))
    return failure();
  return gather(node, node.operand(table), node.operand(ids), /*axis=*/0);
}

// Defines output 1 of an EmbedLayerNormalization: for each sample the number of
// ids that the mask keeps, or 0 without a mask.
static LogicalResult defineMaskIndex(NodeImporter &node, unsigned mask) {
  if (!node.hasOutput(1))
    return success();
  int64_t batch = node.operandShape(0)[0];
  Type integer = node.attributes().getI32Type();
  if (!node.hasInput(mask))
    return node.define(1,
                       expand(node, numberConstant(node, 0, integer), {batch}));
  Value sum = reduce<ReduceSumOp>(
      node, castTo(node, node.operand(mask), integer), {1}, false);
  return node.define(1, sum);
}

// Imports EmbedLayerNormalization: (ids, segments, words, positions, segment
// table, scale, shift, mask, position ids) -> layer norm of the sum of the
// looked-up rows.
static LogicalResult importEmbedLayerNorm(NodeImporter &node) {
  for (unsigned index : {3, 5})
    if (!node.hasInput(index))
      return node.invalid(
          "expected input " + Twine(index) +
          (index == 3 ? ", the table of positions" : ", the scale") +
          ", found none");
  ArrayRef<int64_t> shape = node.operandShape(0);
  if (shape.size() != 2 || node.operandShape(3).size() != 2)
    return node.invalid(
        "expected the ids and the table of positions to have rank 2" +
        node.found({0, 3}));
  // Without position ids, token i of a sample has position i.
  FailureOr<Value> words = lookUp(node, 2, 0);
  FailureOr<Value> segments = lookUp(node, 4, 1);
  FailureOr<Value> positions = lookUp(node, 3, 8);
  if (failed(words) || failed(segments) || failed(positions))
    return failure();
  if (!*positions) {
    ArrayRef<int64_t> table = node.operandShape(3);
    if (shape[1] > table[0])
      return node.invalid(
          "expected a table of positions with a row for each of the " +
          Twine(shape[1]) + " ids of a sample, found " + Twine(table[0]) +
          " rows");
    positions = slice(node, node.operand(3), {0, 0}, {shape[1], table[1]});
  }
  Value sum = addTo(node, addTo(node, *words, *positions), *segments);
  if (!sum || failed(node.define(2, sum)) || failed(defineMaskIndex(node, 7)))
    return failure();
  return normalizeLast(node, sum, node.operand(5), readOptional(node, 6),
                       /*hasStatistics=*/false);
}

//===----------------------------------------------------------------------===//
// Products and gates
//===----------------------------------------------------------------------===//

// Applies the activation `name` to `x`. `parameters` holds alpha and beta, or
// the bounds of a Clip. Missing parameters take default values.
static Value activate(NodeImporter &node, StringRef name, Value x,
                      ArrayRef<double> parameters) {
  auto parameter = [&](unsigned index, StringRef name, double byDefault) {
    return node.attribute(name, index < parameters.size() ? parameters[index]
                                                          : byDefault);
  };
  if (name == "Relu")
    return node.emit<ReluOp>({x});
  if (name == "Sigmoid")
    return node.emit<SigmoidOp>({x});
  if (name == "Tanh")
    return node.emit<TanhOp>({x});
  if (name == "Softplus")
    return node.emit<SoftplusOp>({x});
  if (name == "LeakyRelu")
    return node.emit<LeakyReluOp>({x}, {parameter(0, "alpha", 0.01)});
  if (name == "HardSigmoid")
    return node.emit<HardSigmoidOp>(
        {x}, {parameter(0, "alpha", 0.2), parameter(1, "beta", 0.5)});
  if (name == "Clip" && parameters.size() == 2)
    return node.emit<ClipOp>({x},
                             {parameter(0, "min", 0), parameter(1, "max", 0)});
  (void)node.unsupported(
      "activation '" + name +
      "' is not known: expected Relu, Sigmoid, Tanh, Softplus, LeakyRelu, "
      "HardSigmoid, or Clip with both bounds");
  return {};
}

// Imports a Gemm with an activation.
static LogicalResult importFusedGemm(NodeImporter &node) {
  SmallVector<Value> operands = {node.operand(0), node.operand(1)};
  if (node.hasInput(2))
    operands.push_back(node.operand(2));
  Value product = node.emit<GemmOp>(
      operands, {node.attribute("alpha", node.real("alpha", 1.0)),
                 node.attribute("beta", node.real("beta", 1.0)),
                 node.attribute("transA", node.integer("transA", 0) != 0),
                 node.attribute("transB", node.integer("transB", 0) != 0)});
  std::string name = node.string("activation", "");
  return node.define(0, name.empty() || !product
                            ? product
                            : activate(node, name, product,
                                       {node.real("activation_alpha", 0.01),
                                        node.real("activation_beta", 0.0)}));
}

// Reads the numbers in attribute 'activation_params'.
static SmallVector<double> readParameters(NodeImporter &node) {
  SmallVector<double> parameters;
  if (const proto::AttributeProto *list =
          node.find("activation_params", proto::AttributeProto::FLOATS))
    parameters.assign(list->floats().begin(), list->floats().end());
  return parameters;
}

// Imports FusedConv: (x, weight, bias, z) -> activation(convolution + z).
static LogicalResult importFusedConv(NodeImporter &node) {
  Value sum = addTo(node, emitConvolution(node), readOptional(node, 3));
  std::string name = node.string("activation", "");
  SmallVector<double> parameters = readParameters(node);
  return node.define(
      0, name.empty() || !sum ? sum : activate(node, name, sum, parameters));
}

// Imports BiasSplitGelu: adds the bias, splits each row in halves, and returns
// left half * GELU(right half).
static LogicalResult importBiasSplitGelu(NodeImporter &node) {
  SmallVector<int64_t> sizes(node.operandShape(0));
  if (sizes.empty() || sizes.back() % 2 != 0)
    return node.invalid("expected an even number of elements in a row" +
                        node.found({0}));
  Value sum = addTo(node, node.operand(0), node.operand(1));
  SmallVector<int64_t> offsets(sizes.size(), 0);
  sizes.back() /= 2;
  Value left = slice(node, sum, offsets, sizes);
  offsets.back() = sizes.back();
  Value right = slice(node, sum, offsets, sizes);
  return node.define(0, node.emit<MulOp>({left, node.emit<GeluOp>({right})}));
}

// Reads attribute 'scale_<i>'.
static FailureOr<double> readScale(NodeImporter &node, unsigned i) {
  std::string name = "scale_" + std::to_string(i);
  if (!node.hasAttribute(name))
    return node.invalid("expected attribute '" + name + "', found none");
  return node.real(name, 1.0);
}

static Value scaleBy(NodeImporter &node, Value x, double scale) {
  if (!x)
    return {};
  Type element = NodeImporter::typeOf(x).getElementType();
  return node.emit<MulOp>({x, numberConstant(node, scale, element)});
}

// Sums up to three inputs, each multiplied by its scale.
static LogicalResult importScaledSum(NodeImporter &node) {
  Value sum;
  for (unsigned i = 0; i < 3 && node.hasInput(i); ++i) {
    FailureOr<double> scale = readScale(node, i);
    if (failed(scale))
      return failure();
    Value term = scaleBy(node, node.operand(i), *scale);
    sum = term && sum ? node.emit<AddOp>({sum, term}) : term;
    if (!sum)
      return failure();
  }
  return node.define(0, sum);
}

// Multiplies the input by each scale, one output per scale.
static LogicalResult importBatchScale(NodeImporter &node) {
  for (unsigned i = 0; i < 3 && node.hasOutput(i); ++i) {
    FailureOr<double> scale = readScale(node, i);
    if (failed(scale) ||
        failed(node.define(i, scaleBy(node, node.operand(0), *scale))))
      return failure();
  }
  return success();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getFusedOps() {
  static const OpEntry entries[] = {
      {kMicrosoft, "BatchScale", 1, kNoEnd, 1, 1, 3, importBatchScale},
      {kMicrosoft, "BiasSplitGelu", 1, kNoEnd, 2, 2, 1, importBiasSplitGelu},
      {kMicrosoft, "EmbedLayerNormalization", 1, kNoEnd, 1, 9, 3,
       importEmbedLayerNorm},
      {kMicrosoft, "FusedConv", 1, kNoEnd, 2, 4, 1, importFusedConv},
      {kMicrosoft, "FusedGemm", 1, kNoEnd, 2, 3, 1, importFusedGemm},
      {kMicrosoft, "ScaledSum", 1, kNoEnd, 2, 3, 1, importScaledSum},
      {kMicrosoft, "SkipLayerNormalization", 1, kNoEnd, 3, 5, 4,
       importSkipLayerNorm},
      {kMicrosoft, "SkipSimplifiedLayerNormalization", 1, kNoEnd, 3, 4, 4,
       importSkipRMSNorm},
  };
  return entries;
}
