// Imports normalization within each sample: over the last axes, over channels,
// or over groups of channels.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"

#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// The results of a normalization; null after an error.
struct Normalized {
  Value output, mean, invStd;
};
} // namespace

// Normalizes x to mean 0 and variance 1 over `axes`, then applies `scale` and
// `bias` (null if absent), which broadcast to x. Computes in the type of x.
static Normalized normalize(NodeImporter &node, Value x, Value scale,
                            Value bias, ArrayRef<int64_t> axes) {
  if (!x || !scale)
    return {};
  Type element = elementTypeOf(x);
  SmallVector<Value> operands = {x, castTo(node, scale, element)};
  if (bias)
    operands.push_back(castTo(node, bias, element));
  auto op = node.create<LayerNormOp>(
      operands, {node.attribute("axes", axes),
                 node.attribute("epsilon", node.real("epsilon", 1e-5))});
  if (!op)
    return {};
  return {op.getOutput(), op.getMean(), op.getInvStd()};
}

// Reads attribute 'stash_type', the type of the statistics.
static FailureOr<Type> readStashType(NodeImporter &node) {
  FailureOr<Type> stash =
      node.elementType("stash_type", node.attributes().getF32Type());
  if (succeeded(stash) && !isa<FloatType>(*stash))
    return node.invalid(
        "expected attribute 'stash_type' to be a float type, found " +
        printElementType(*stash));
  return stash;
}

static Type getComputeType(NodeImporter &node, Value x, Type stash) {
  unsigned bits = std::max({32u, elementTypeOf(x).getIntOrFloatBitWidth(),
                            stash.getIntOrFloatBitWidth()});
  return bits > 32 ? Type(node.attributes().getF64Type())
                   : Type(node.attributes().getF32Type());
}

// Reshapes operand `index`, a vector with one element per channel or group, to
// [1, channels, 1, ...] with `rank` axes. Reports an error if the operand has
// another shape.
static FailureOr<Value> readPerChannel(NodeImporter &node, unsigned index,
                                       int64_t channels, int64_t rank) {
  SmallVector<int64_t> shape(rank, 1);
  shape[1] = channels;
  if (node.operandShape(index) != ArrayRef<int64_t>(channels))
    return node.invalid("expected input " + Twine(index) + " of shape [" +
                        Twine(channels) + "]" + node.found({index}));
  return node.reshape(node.operand(index), shape);
}

//===----------------------------------------------------------------------===//
// Over the last axes
//===----------------------------------------------------------------------===//

// Returns the axes from attribute 'axis' on. Reports an error if scale or bias
// do not broadcast to the input.
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
                          " does not broadcast to input 0" +
                          node.found({0, index}));
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
  Type compute = getComputeType(node, x, *stash);
  Normalized result =
      normalize(node, castTo(node, x, compute), scale, bias, *axes);
  (void)node.define(1, castTo(node, result.mean, *stash));
  (void)node.define(2, castTo(node, result.invStd, *stash));
  return node.define(0, castTo(node, result.output, elementTypeOf(x)));
}

// Imports RMSNormalization, and ONNX Runtime's op of equal meaning, which alone
// has an output 1.
static LogicalResult importRMSNorm(NodeImporter &node) {
  auto axes = readLastAxes(node);
  FailureOr<Type> stash = readStashType(node);
  if (failed(axes) || failed(stash))
    return failure();
  Value input = node.operand(0);
  Type compute = getComputeType(node, input, *stash);
  auto op = node.create<RMSNormOp>(
      {castTo(node, input, compute), castTo(node, node.operand(1), compute)},
      {node.attribute("axes", *axes),
       node.attribute("epsilon", node.real("epsilon", 1e-5))});
  if (!op)
    return failure();
  (void)node.define(1, castTo(node, op.getInvRms(), *stash));
  return node.define(0, castTo(node, op.getOutput(), elementTypeOf(input)));
}

//===----------------------------------------------------------------------===//
// Gradients over the last axes
//===----------------------------------------------------------------------===//

namespace {
/// The operands of a normalization's gradient, in one type of at least f32, and
/// the axes of the forward op.
struct NormGrad {
  Type compute;
  Value dOutput, input, scale;
  SmallVector<int64_t> axes;
};
} // namespace

static FailureOr<NormGrad> readNormGrad(NodeImporter &node) {
  for (StringRef name : {"epsilon", "stash_type"}) // of the forward op
    node.ignore(name);
  int64_t rank = node.operandShape(0).size();
  auto axis = node.normalizeAxis(node.integer("axis", -1), rank);
  if (failed(axis))
    return failure();
  Type compute =
      getComputeType(node, node.operand(1), node.attributes().getF32Type());
  NormGrad grad{compute, castTo(node, node.operand(0), compute),
                castTo(node, node.operand(1), compute),
                castTo(node, node.operand(2), compute),
                llvm::to_vector(llvm::seq<int64_t>(*axis, rank))};
  return grad;
}

// Defines outputs 0 to 2, the gradients of input, scale and bias. The bias
// gradient is dY, summed to the shape of the bias.
static LogicalResult defineNormGrad(NodeImporter &node, const NormGrad &grad,
                                    Value dInput, Value dScale) {
  if (!dInput || !dScale)
    return failure();
  Type type = node.operandType(2).getElementType();
  (void)node.define(0, castTo(node, dInput, elementTypeOf(node.operand(0))));
  (void)node.define(1, castTo(node, dScale, type));
  if (!node.hasOutput(2))
    return success();
  Value dBias = grad.dOutput;
  if (NodeImporter::shapeOf(dBias) != NodeImporter::shapeOf(dScale))
    dBias = node.emit<SumToSizeOp>({dBias}, {}, NodeImporter::typeOf(dScale));
  return node.define(2, castTo(node, dBias, type));
}

// Returns the LayerNormalization node that reads the same input, scale and bias
// as the gradient node; null if there is none.
static const proto::NodeProto *findForwardNorm(NodeImporter &node) {
  auto read = [](const proto::NodeProto &other, int index) {
    return index < other.input_size() ? StringRef(other.input(index))
                                      : StringRef();
  };
  for (const proto::NodeProto *other : node.getFunction().getGraph().getNodes())
    if (other->op_type() == "LayerNormalization" &&
        read(*other, 0) == node.getInputName(1) &&
        read(*other, 1) == node.getInputName(2) &&
        read(*other, 2) == node.getInputName(3))
      return other;
  return nullptr;
}

// Returns the epsilon of the forward node, which the gradient node need not
// repeat. Without a forward node, returns the gradient node's own.
static FailureOr<double> readEpsilon(NodeImporter &node,
                                     const proto::NodeProto *forward) {
  double epsilon = node.real("epsilon", 1e-5f);
  if (!forward)
    return epsilon;
  double theirs = 1e-5f;
  for (const proto::AttributeProto &attribute : forward->attribute())
    if (attribute.name() == "epsilon")
      theirs = attribute.f();
  if (node.hasAttribute("epsilon") && theirs != epsilon)
    return node.invalid(llvm::formatv(
        "attribute 'epsilon' is {0:e}, expected that of node '{1}', {2:e}",
        epsilon, getNodeName(*forward), theirs));
  return theirs;
}

// True if output 0 is named or declared as the gradient of scale or bias. Some
// tools write a separate node for each gradient.
static bool isGradientOfAnother(NodeImporter &node, ArrayRef<int64_t> shape) {
  StringRef name = node.getOutputName(0);
  for (unsigned input : {2, 3})
    if (name == (node.getInputName(input) + "_grad").str())
      return true;
  const proto::GraphProto &graph =
      node.getFunction().getModel().getProto().graph();
  for (const auto *values : {&graph.value_info(), &graph.output()})
    for (const proto::ValueInfoProto &value : *values) {
      const auto &dims = value.type().tensor_type().shape().dim();
      bool isKnown = value.type().tensor_type().has_shape() &&
                     llvm::all_of(dims, [](const auto &dim) {
                       return dim.has_dim_value();
                     });
      if (value.name() == name && isKnown &&
          !llvm::equal(dims, shape, [](const auto &dim, int64_t extent) {
            return dim.dim_value() == extent;
          }))
        return true;
    }
  return false;
}

// Returns the LayerNormOp of the forward pass, whose statistics can be reused;
// null if the function has none.
static LayerNormOp findNorm(const NormGrad &grad, double epsilon) {
  for (Operation *user : grad.input.getUsers())
    if (auto norm = dyn_cast<LayerNormOp>(user))
      if (norm.getInput() == grad.input && norm.getScale() == grad.scale &&
          norm.getAxes() == ArrayRef<int64_t>(grad.axes) &&
          static_cast<float>(norm.getEpsilon().convertToDouble()) ==
              static_cast<float>(epsilon))
        return norm;
  return {};
}

// Imports LayerNormalizationGrad(dY, X, scale, bias) -> dX: the form of tools
// that compute the statistics again. Input 3 has the scale's shape, as a bias
// does and a mean does not.
static LogicalResult importBareLayerNormGrad(NodeImporter &node) {
  FailureOr<NormGrad> grad = readNormGrad(node);
  if (failed(grad))
    return failure();
  SmallVector<int64_t> normalized, shape(node.operandShape(1));
  for (int64_t axis : grad->axes)
    normalized.push_back(shape[axis]);
  for (unsigned input : {2, 3})
    if (node.operandShape(input) != ArrayRef<int64_t>(normalized))
      return node.invalid(
          "expected dY, X, scale and bias, or dY, X, scale, mean and inverse "
          "deviation; '" +
          node.getInputName(input) + "' is no " +
          (input == 2 ? "scale" : "bias") + " of '" + node.getInputName(1) +
          "': expected shape " + printShape(normalized) + node.found({input}));
  const proto::NodeProto *forward = findForwardNorm(node);
  const proto::NodeProto *producer =
      node.getFunction().getGraph().getProducer(node.getInputName(3));
  if (!forward && producer && producer->op_type() == "LayerNormalization")
    return node.invalid("expected a bias as input 3, found '" +
                        node.getInputName(3) + "', which node '" +
                        getNodeName(*producer) +
                        "' makes; its other statistic is missing");
  FailureOr<double> epsilon = readEpsilon(node, forward);
  if (failed(epsilon))
    return failure();
  if (isGradientOfAnother(node, shape))
    return node.unsupported("expected output '" + node.getOutputName(0) +
                            "' to be the gradient of '" + node.getInputName(1) +
                            "', but the name or the declared shape of the "
                            "output says otherwise; gradients of "
                            "scale and bias are outputs 1 and 2");
  // Without a forward op whose statistics can be reused, compute the statistics
  // here.
  LayerNormOp norm = findNorm(*grad, *epsilon);
  if (!norm) {
    node.setSuffix("#statistics");
    norm = node.create<LayerNormOp>({grad->input, grad->scale, Value()},
                                    {node.attribute("axes", grad->axes),
                                     node.attribute("epsilon", *epsilon)});
    node.setSuffix("");
  }
  if (!norm)
    return failure();
  auto op =
      node.create<LayerNormGradOp>({grad->dOutput, grad->input, grad->scale,
                                    norm.getMean(), norm.getInvStd()},
                                   {node.attribute("axes", grad->axes)});
  return op ? defineNormGrad(node, *grad, op.getDInput(), op.getDScale())
            : failure();
}

// Imports LayerNormalizationGrad(dY, X, scale, mean, inv_std).
static LogicalResult importLayerNormGrad(NodeImporter &node) {
  if (node.getNumInputs() == 4)
    return importBareLayerNormGrad(node);
  FailureOr<NormGrad> grad = readNormGrad(node);
  if (failed(grad))
    return failure();
  auto op = node.create<LayerNormGradOp>(
      {grad->dOutput, grad->input, grad->scale,
       castTo(node, node.operand(3), grad->compute),
       castTo(node, node.operand(4), grad->compute)},
      {node.attribute("axes", grad->axes)});
  return op ? defineNormGrad(node, *grad, op.getDInput(), op.getDScale())
            : failure();
}

// Imports InvertibleLayerNormalizationGrad(dY, Y, scale, bias, inv_std). The
// forward op saved its output Y instead of X. The normalized value, computed
// from Y, replaces X; its mean is 0 and its deviation 1.
static LogicalResult importInvertibleNormGrad(NodeImporter &node) {
  FailureOr<NormGrad> grad = readNormGrad(node);
  if (failed(grad))
    return failure();
  // The normalized value is (Y - bias) / scale.
  Value bias = castTo(node, node.operand(3), grad->compute);
  Value invStd = castTo(node, node.operand(4), grad->compute);
  Value normalized =
      node.emit<DivOp>({node.emit<SubOp>({grad->input, bias}), grad->scale});
  if (!normalized)
    return failure();
  ArrayRef<int64_t> statistics = node.operandShape(4);
  auto fill = [&](double value) {
    return expand(node, numberConstant(node, value, grad->compute), statistics);
  };
  auto op = node.create<LayerNormGradOp>(
      {grad->dOutput, normalized, grad->scale, fill(0), fill(1)},
      {node.attribute("axes", grad->axes)});
  if (!op)
    return failure();
  // With mean 0 and deviation 1, the op returns the gradient of the normalized
  // value. Times inv_std, this is the gradient of X.
  return defineNormGrad(node, *grad, node.emit<MulOp>({op.getDInput(), invStd}),
                        op.getDScale());
}

// Imports SimplifiedLayerNormalizationGrad(dY, X, scale, inv_root).
static LogicalResult importRMSNormGrad(NodeImporter &node) {
  FailureOr<NormGrad> grad = readNormGrad(node);
  if (failed(grad))
    return failure();
  auto op =
      node.create<RMSNormGradOp>({grad->dOutput, grad->input, grad->scale,
                                  castTo(node, node.operand(3), grad->compute)},
                                 {node.attribute("axes", grad->axes)});
  return op ? defineNormGrad(node, *grad, op.getDInput(), op.getDScale())
            : failure();
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
  Normalized result =
      normalize(node, castTo(node, input, compute), *scale, *bias,
                llvm::to_vector(llvm::seq<int64_t>(2, rank)));
  return node.define(0, castTo(node, result.output, elementTypeOf(input)));
}

// Imports GroupNormalization. Scale and bias have a number per channel, before
// opset 21 a number per group.
static LogicalResult importGroupNorm(NodeImporter &node) {
  SmallVector<int64_t> shape(node.operandShape(0));
  int64_t rank = shape.size(), groups = node.integer("num_groups", 0);
  FailureOr<Type> stash = readStashType(node);
  if (failed(stash))
    return failure();
  if (rank < 2 || groups < 1 || shape[1] % groups != 0)
    return node.invalid("expected attribute 'num_groups' to divide the "
                        "channels on axis 1, found " +
                        Twine(groups) + " groups" + node.found({0}));
  // Reshape to (N, groups, channels of a group, positions).
  int64_t channels = shape[1] / groups, positions = 1;
  for (int64_t extent : ArrayRef<int64_t>(shape).drop_front(2))
    positions *= extent;
  // Reshape scale and bias from [channels] to [groups, channels of a group, 1],
  // to broadcast.
  bool isOfGroups = node.getOpset() < 21;
  auto readScale = [&](unsigned index) -> Value {
    auto value = readPerChannel(node, index, isOfGroups ? groups : shape[1], 2);
    if (failed(value))
      return {};
    return node.reshape(*value, {groups, isOfGroups ? 1 : channels, 1});
  };
  Value input = node.operand(0);
  Value x = castTo(node, input, getComputeType(node, input, *stash));
  Value y =
      normalize(node, node.reshape(x, {shape[0], groups, channels, positions}),
                readScale(1), readScale(2), {2, 3})
          .output;
  if (!y)
    return failure();
  return node.define(
      0, castTo(node, node.reshape(y, shape), elementTypeOf(input)));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getLayerNormOps() {
  static const OpEntry entries[] = {
      {"", "GroupNormalization", 18, kNoEnd, 3, 3, 1, importGroupNorm},
      {"", "InstanceNormalization", 6, kNoEnd, 3, 3, 1, importInstanceNorm},
      // ONNX Runtime had these ops in ONNX's own domain before ONNX had them.
      {"", "LayerNormalization", 1, kNoEnd, 2, 3, 3, importLayerNorm},
      {"", "SimplifiedLayerNormalization", 1, kNoEnd, 2, 2, 2, importRMSNorm},
      {kMicrosoft, "InvertibleLayerNormalizationGrad", 1, kNoEnd, 5, 5, 3,
       importInvertibleNormGrad},
      {kMicrosoft, "LayerNormalizationGrad", 1, kNoEnd, 4, 5, 3,
       importLayerNormGrad},
      {kMicrosoft, "SimplifiedLayerNormalizationGrad", 1, kNoEnd, 4, 4, 2,
       importRMSNormGrad},
      {"", "RMSNormalization", 23, kNoEnd, 2, 2, 1, importRMSNorm},
  };
  return entries;
}
