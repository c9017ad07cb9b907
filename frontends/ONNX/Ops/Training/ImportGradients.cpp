// Imports gradient ops of com.microsoft, as ONNX Runtime's gradient builder
// writes them.
//
// The node of a gradient op leaves out facts about the forward op: the geometry
// of a pooling, the random numbers of a dropout. The importer reads those facts
// from the forward op, which has computed an input of the gradient op.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Ops/NN/Window.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

template <typename OpT>
static LogicalResult importElementwiseGrad(NodeImporter &node) {
  auto op = node.create<OpT>({node.operand(0), node.operand(1)});
  return op ? node.define(0, op.getDInput()) : failure();
}

// Defines output 0 as dY times the slope of formula `of` at `x`. `a` is the
// parameter of the formula.
static LogicalResult defineFormulaGrad(NodeImporter &node, Value x,
                                       StringRef of, double a = 0.0) {
  return node.define(0, node.emit<FormulaGradOp>({node.operand(0), x},
                                                 {node.attribute("of", of),
                                                  node.attribute("a", a)}));
}

static LogicalResult importGeluGrad(NodeImporter &node) {
  node.ignore("approximate"); // implied by the op's name
  return defineFormulaGrad(node, node.operand(1), "gelu");
}

static LogicalResult importFastGeluGrad(NodeImporter &node) {
  return defineFormulaGrad(node, node.operand(1), "gelu_tanh");
}

static LogicalResult importQuickGeluGrad(NodeImporter &node) {
  return defineFormulaGrad(node, node.operand(1), "swish",
                           node.real("alpha", 1.702f));
}

// Imports BiasGeluGrad_dX and BiasFastGeluGrad_dX: the gradient of the sum of
// inputs 1 (x) and 2 (bias). A separate node computes the gradient of the bias.
static LogicalResult importBiasGeluGrad(NodeImporter &node) {
  bool isExact = node.getOpType() == "BiasGeluGrad_dX";
  Value x = node.emit<AddOp>({node.operand(1), node.operand(2)});
  return x ? defineFormulaGrad(node, x, isExact ? "gelu" : "gelu_tanh")
           : failure();
}

// Imports LeakyReluGrad. Input 1 is the output of the forward op. Output and
// input of the forward op have equal signs only if alpha > 0.
static LogicalResult importLeakyReluGrad(NodeImporter &node) {
  double alpha = node.real("alpha", 0.01f);
  if (!(alpha > 0))
    return node.unsupported("expected attribute 'alpha' above 0, found " +
                            std::to_string(alpha));
  return defineFormulaGrad(node, node.operand(1), "leaky_relu", alpha);
}

// Sums `value` to the shape of input `index`, which the forward op has
// broadcast.
static Value sumTo(NodeImporter &node, Value value, unsigned index) {
  auto type = node.operandType(index);
  if (!value || NodeImporter::shapeOf(value) == type.getShape())
    return value;
  auto op = node.create<SumToSizeOp>({value}, {}, type);
  return op ? op.getOutput() : Value();
}

// Imports DivGrad, of A / B: dA = dY / B and dB = -dY * A / (B * B).
static LogicalResult importDivGrad(NodeImporter &node) {
  Value dy = node.operand(0), a = node.operand(1), b = node.operand(2);
  // Compute dA first, because dB uses it.
  node.setSuffix("#da");
  auto da = node.create<DivOp>({dy, b});
  if (!da)
    return failure();
  if (node.hasOutput(0) &&
      failed(node.define(0, sumTo(node, da.getOutput(), 1))))
    return failure();
  if (!node.hasOutput(1))
    return success();
  // dB = -dA * A / B, which reuses dA.
  node.setSuffix("#db");
  auto product = node.create<MulOp>({da.getOutput(), a});
  auto quotient =
      product ? node.create<DivOp>({product.getOutput(), b}) : DivOp();
  auto negated =
      quotient ? node.create<NegOp>({quotient.getOutput()}) : NegOp();
  return negated ? node.define(1, sumTo(node, negated.getOutput(), 2))
                 : failure();
}

// Returns the gradient of a dropout whose mask is input 1. The mask is not
// stored: a dropout with the same id drops the same elements of the gradient.
static Value dropGradient(NodeImporter &node) {
  FunctionImporter &function = node.getFunction();
  Value dy = node.operand(0);
  auto id = function.findRandomId(node.getInputName(1));
  if (!id && node.constant(1)) // the forward op was an identity
    return dy;
  auto forward = node.operand(1).getDefiningOp<DropoutOp>();
  if (!id || !forward) {
    (void)node.unsupported(
        "expected the mask of a Dropout as input 1, found '" +
        node.getInputName(1) + "'");
    return {};
  }
  return node.emit<DropoutOp>(
      {dy, forward.getSeed(), forward.getMicroStep()},
      {node.attribute("ratio", forward.getRatio().convertToDouble()),
       node.attribute("id", *id)});
}

static LogicalResult importDropoutGrad(NodeImporter &node) {
  return node.define(0, dropGradient(node));
}

// Imports Scale: input * scale, or input / scale. The scale is often an
// integer, such as a number of elements.
static LogicalResult importScale(NodeImporter &node) {
  bool down = node.integer("scale_down", 0) != 0;
  Value input = node.operand(0), scale;
  // Convert a known scale to the input's type.
  auto known = node.constant(1);
  if (known && known->getNumElements() == 1)
    scale = node.scalarConstant(known->getDouble(0),
                                node.operandType(0).getElementType());
  else
    scale = node.operand(1);
  if (node.hasFailed())
    return failure();
  Value result;
  if (down) {
    if (auto op = node.create<DivOp>({input, scale}))
      result = op.getOutput();
  } else if (auto op = node.create<MulOp>({input, scale})) {
    result = op.getOutput();
  }
  return node.define(0, result);
}

//===----------------------------------------------------------------------===//
// Softmax
//===----------------------------------------------------------------------===//

template <typename OpT>
static LogicalResult importSoftmaxGrad(NodeImporter &node) {
  auto axis =
      node.normalizeAxis(node.integer("axis", -1), node.operandShape(0).size());
  if (failed(axis))
    return failure();
  auto op = node.create<OpT>({node.operand(0), node.operand(1)},
                             {node.attribute("axis", *axis)});
  return op ? node.define(0, op.getDInput()) : failure();
}

// Imports a softmax's gradient before opset 13: all axes from `axis` on count
// as one. [4, 3, 5] from axis 1 on has the rows of [4, 15].
template <typename OpT>
static LogicalResult defineFlattenedSoftmaxGrad(NodeImporter &node, Value dy,
                                                unsigned yIndex) {
  SmallVector<int64_t> shape(node.operandShape(0));
  auto axis = node.normalizeAxis(node.integer("axis", 1), shape.size());
  if (failed(axis) || !dy)
    return failure();
  if (node.operandShape(yIndex) != ArrayRef<int64_t>(shape))
    return node.invalid("expected inputs of equal shapes" +
                        node.found({0, yIndex}));
  int64_t rows = 1, columns = 1;
  for (auto [i, extent] : llvm::enumerate(shape))
    (static_cast<int64_t>(i) < *axis ? rows : columns) *= extent;
  auto op =
      node.create<OpT>({node.reshape(dy, {rows, columns}),
                        node.reshape(node.operand(yIndex), {rows, columns})},
                       {node.attribute("axis", int64_t(1))});
  return op ? node.define(0, node.reshape(op.getDInput(), shape)) : failure();
}

template <typename OpT>
static LogicalResult importFlattenedSoftmaxGrad(NodeImporter &node) {
  return defineFlattenedSoftmaxGrad<OpT>(node, node.operand(0), 1);
}

// Imports SoftmaxDropoutGrad(dY, mask, Y, ratio): the gradient of a dropout of
// a softmax Y.
static LogicalResult importSoftmaxDropoutGrad(NodeImporter &node) {
  return defineFlattenedSoftmaxGrad<SoftmaxGradOp>(node, dropGradient(node), 2);
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

static LogicalResult defineInputGrad(NodeImporter &node,
                                     ArrayRef<NamedAttribute> window) {
  if (!node.hasOutput(0))
    return success();
  node.setSuffix("#dx");
  auto op = node.create<ConvInputGradOp>({node.operand(0), node.operand(2)},
                                         window, node.operandType(1));
  return op ? node.define(0, op.getDInput()) : failure();
}

static LogicalResult defineWeightGrad(NodeImporter &node,
                                      ArrayRef<NamedAttribute> window) {
  if (!node.hasOutput(1))
    return success();
  node.setSuffix("#dw");
  auto op = node.create<ConvWeightGradOp>({node.operand(1), node.operand(0)},
                                          window, node.operandType(2));
  return op ? node.define(1, op.getDWeight()) : failure();
}

// Defines output `index`, the sum of dY over all axes but the channels.
static LogicalResult defineBiasGrad(NodeImporter &node, unsigned index) {
  if (!node.hasOutput(index))
    return success();
  node.setSuffix("#db");
  SmallVector<int64_t> axes = {0};
  for (int64_t axis = 2, e = node.operandShape(0).size(); axis < e; ++axis)
    axes.push_back(axis);
  auto op = node.create<ReduceSumOp>(
      {node.operand(0)}, {node.attribute("axes", ArrayRef<int64_t>(axes)),
                          node.attribute("keepdims", false)});
  return op ? node.define(index, op.getOutput()) : failure();
}

static LogicalResult importConvGrad(NodeImporter &node) {
  ArrayRef<int64_t> weight = node.operandShape(2);
  if (weight.size() < 3)
    return node.invalid("expected a weight of rank 3 or more" +
                        node.found({2}));
  auto window = readWindow(node, node.operandShape(1), weight.drop_front(2));
  if (failed(window))
    return failure();
  auto attributes = window->convAttributes(node, node.integer("group", 1));
  if (failed(defineInputGrad(node, attributes)) ||
      failed(defineWeightGrad(node, attributes)))
    return failure();
  return defineBiasGrad(node, 2);
}

// ConvGradX(dY, W), ConvGradW(dY, X) and ConvGradB(dY) each compute one
// gradient of a convolution. The nodes do not give the shape of the gradient.

// Finds the forward convolution of a ConvGradX or ConvGradW node, and returns
// the type of its operand `index`. Input 1 of the node is the convolution's
// operand `given`, and dY has the type of the convolution's output. Null if no
// convolution fits, or several of unequal types.
static RankedTensorType findForwardType(NodeImporter &node, unsigned given,
                                        unsigned index) {
  RankedTensorType found;
  for (Operation *user : node.operand(1).getUsers()) {
    auto conv = dyn_cast<ConvOp>(user);
    if (!conv || conv->getOperand(given) != node.operand(1) ||
        conv.getOutput().getType() != node.operandType(0))
      continue;
    auto type = NodeImporter::typeOf(conv->getOperand(index));
    auto shapes = {NodeImporter::typeOf(conv.getInput()),
                   NodeImporter::typeOf(conv.getWeight())};
    auto window = readWindow(node, shapes.begin()[0].getShape(),
                             shapes.begin()[1].getShape().drop_front(2));
    if (failed(window))
      return {};
    bool isSame = conv.getStrides() == ArrayRef<int64_t>(window->strides) &&
                  conv.getPads() == ArrayRef<int64_t>(window->pads) &&
                  conv.getDilations() == ArrayRef<int64_t>(window->dilations) &&
                  conv.getGroup() == uint64_t(node.integer("group", 1));
    if (!isSame)
      continue;
    if (found && found != type)
      return {};
    found = type;
  }
  return found;
}

// Returns the type that the file declares for the node's output, or null.
static RankedTensorType findDeclaredType(NodeImporter &node) {
  const proto::GraphProto &graph =
      node.getFunction().getModel().getProto().graph();
  for (const auto *values : {&graph.value_info(), &graph.output()})
    for (const proto::ValueInfoProto &value : *values) {
      if (value.name() != node.getOutputName(0) ||
          !value.type().tensor_type().has_shape())
        continue;
      SmallVector<int64_t> shape;
      for (const auto &dim : value.type().tensor_type().shape().dim())
        shape.push_back(dim.has_dim_value() ? dim.dim_value() : 0);
      if (llvm::all_of(shape, [](int64_t extent) { return extent > 0; }))
        return RankedTensorType::get(shape,
                                     node.operandType(0).getElementType());
    }
  return {};
}

// Returns the type of the gradient of a convolution's operand `index`. The node
// reads the operand `given`.
static FailureOr<RankedTensorType>
findSplitType(NodeImporter &node, unsigned given, unsigned index) {
  if (node.operandShape(0).size() < 3 ||
      node.operandShape(1).size() != node.operandShape(0).size())
    return node.invalid("expected inputs of equal rank, 3 or more" +
                        node.found({0, 1}));
  if (RankedTensorType type = findForwardType(node, given, index))
    return type;
  if (node.hasFailed())
    return failure();
  if (RankedTensorType type = findDeclaredType(node))
    return type;
  return node.unsupported(
      "cannot tell the shape of the gradient: no single Conv with these "
      "attributes reads input 1 and has an output of the shape of input 0; "
      "declare output '" +
      node.getOutputName(0) + "' with its shape in value_info");
}

static LogicalResult importConvGradX(NodeImporter &node) {
  auto type = findSplitType(node, /*given=*/1, /*index=*/0);
  if (failed(type))
    return failure();
  auto window =
      readWindow(node, type->getShape(), node.operandShape(1).drop_front(2));
  if (failed(window))
    return failure();
  auto op = node.create<ConvInputGradOp>(
      {node.operand(0), node.operand(1)},
      window->convAttributes(node, node.integer("group", 1)), *type);
  return op ? node.define(0, op.getDInput()) : failure();
}

static LogicalResult importConvGradW(NodeImporter &node) {
  auto type = findSplitType(node, /*given=*/0, /*index=*/1);
  if (failed(type))
    return failure();
  if (type->getRank() != node.operandType(1).getRank())
    return node.invalid(
        "expected the declared output to have the rank of input 1, found " +
        printTensorType(*type) + " and '" + node.getInputName(1) + "' " +
        printTensorType(node.operandType(1)));
  auto window =
      readWindow(node, node.operandShape(1), type->getShape().drop_front(2));
  if (failed(window))
    return failure();
  auto op = node.create<ConvWeightGradOp>(
      {node.operand(1), node.operand(0)},
      window->convAttributes(node, node.integer("group", 1)), *type);
  return op ? node.define(0, op.getDWeight()) : failure();
}

static LogicalResult importConvGradB(NodeImporter &node) {
  for (StringRef name :
       {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"})
    node.ignore(name);
  if (node.operandShape(0).size() < 3)
    return node.invalid("expected a gradient of rank 3 or more" +
                        node.found({0}));
  return defineBiasGrad(node, 0);
}

// Imports ConvTransposeGrad(dY, X, W). The forward op is the input gradient of
// a convolution. So dX is this convolution of dY, and dW is the weight gradient
// of this convolution.
static LogicalResult importConvTransposeGrad(NodeImporter &node) {
  ArrayRef<int64_t> weight = node.operandShape(2);
  if (weight.size() < 3)
    return node.invalid("expected a weight of rank 3 or more" +
                        node.found({2}));
  if (node.hasAttribute("output_shape") ||
      node.string("auto_pad", "NOTSET") != "NOTSET")
    return node.unsupported("attributes 'output_shape' and 'auto_pad' are not "
                            "supported; expected 'pads'");
  node.ignore("output_padding"); // visible in the shape of dY
  auto window = readWindow(node, node.operandShape(0), weight.drop_front(2));
  if (failed(window))
    return failure();
  auto attributes = window->convAttributes(node, node.integer("group", 1));
  if (node.hasOutput(0)) {
    node.setSuffix("#dx");
    auto op =
        node.create<ConvOp>({node.operand(0), node.operand(2)}, attributes);
    if (!op)
      return failure();
    // With output padding, the last windows of the convolution may read only
    // padding. Drop their results.
    Value dx = op.getOutput();
    ArrayRef<int64_t> shape = node.operandShape(1);
    if (NodeImporter::shapeOf(dx) != shape)
      dx = slice(node, dx, SmallVector<int64_t>(shape.size(), 0), shape);
    if (failed(node.define(0, dx)))
      return failure();
  }
  if (node.hasOutput(1)) {
    node.setSuffix("#dw");
    auto op = node.create<ConvWeightGradOp>({node.operand(0), node.operand(1)},
                                            attributes, node.operandType(2));
    if (!op || failed(node.define(1, op.getDWeight())))
      return failure();
  }
  return defineBiasGrad(node, 2);
}

// Accepts the window attributes that a gradient node repeats from the forward
// op; the forward op decides.
static void ignoreWindow(NodeImporter &node) {
  for (StringRef name : {"kernel_shape", "strides", "pads", "dilations",
                         "auto_pad", "ceil_mode", "storage_order"})
    node.ignore(name);
}

static LogicalResult importMaxPoolGrad(NodeImporter &node) {
  ignoreWindow(node);
  Value indices = node.getSaved(1);
  if (!indices)
    return node.unsupported(
        "expected the indices of a MaxPool as input 1, found '" +
        node.getInputName(1) + "'");
  auto forward = indices.getDefiningOp<MaxPoolOp>();
  auto op = node.create<MaxPoolGradOp>(
      {node.operand(0), indices},
      {node.attribute("kernel", forward.getKernel()),
       node.attribute("strides", forward.getStrides()),
       node.attribute("pads", forward.getPads()),
       node.attribute("dilations", forward.getDilations()),
       node.attribute("ceil_mode", forward.getCeilMode())},
      cast<RankedTensorType>(forward.getInput().getType()));
  return op ? node.define(0, op.getDInput()) : failure();
}

// Imports AveragePoolGrad, which does not give the shape of its output. By
// convention, the output is named X_grad after the forward op's input X.
static LogicalResult importAveragePoolGrad(NodeImporter &node) {
  StringRef name = node.getOutputName(0);
  if (!name.consume_back("_grad") || !node.getFunction().lookup(name).value)
    return node.unsupported(
        "cannot tell the shape of the gradient: expected output 0 to have the "
        "name of the input of the pooling and '_grad', found '" +
        node.getOutputName(0) + "'");
  auto type = NodeImporter::typeOf(node.getFunction().lookup(name).value);
  auto window = readWindow(node, type.getShape(), {});
  if (failed(window))
    return failure();
  auto attributes = window->meanAttributes(node, readPoolEdges(node));
  node.ignore("storage_order");
  auto op = node.create<AveragePoolGradOp>({node.operand(0)}, attributes, type);
  return op ? node.define(0, op.getDInput()) : failure();
}

// Returns the shape of the value X that was pooled. The source is input 1 (X,
// or the shape of X as integers), attribute 'kernel_shape', or the value X
// after which the output is named X_grad.
static FailureOr<SmallVector<int64_t>>
readPooledShape(NodeImporter &node,
                const std::optional<SmallVector<int64_t>> &kernel) {
  if (node.hasInput(1)) {
    if (isa<FloatType>(node.operandType(1).getElementType()))
      return SmallVector<int64_t>(node.operandShape(1));
    return node.integers(1, "the shape");
  }
  if (kernel) {
    SmallVector<int64_t> shape(node.operandShape(0));
    if (shape.size() != kernel->size() + 2)
      return node.invalid("expected a gradient of shape (N, C, 1, ...) with "
                          "one axis after C for each of " +
                          Twine(kernel->size()) +
                          " elements of 'kernel_shape'" + node.found({0}));
    llvm::copy(*kernel, shape.begin() + 2);
    return shape;
  }
  StringRef name = node.getOutputName(0);
  if (!name.consume_back("_grad") || !node.getFunction().lookup(name).value)
    return node.unsupported(
        "cannot tell the shape of the gradient: expected it as input 1, "
        "attribute 'kernel_shape', or output 0 to have the name of the input "
        "of the pooling and '_grad', found '" +
        node.getOutputName(0) + "'");
  return SmallVector<int64_t>(
      NodeImporter::shapeOf(node.getFunction().lookup(name).value));
}

static LogicalResult importGlobalAveragePoolGrad(NodeImporter &node) {
  auto kernel = node.integerList("kernel_shape");
  auto shape = readPooledShape(node, kernel);
  if (failed(shape))
    return failure();
  if (kernel && shape->size() > 2 &&
      ArrayRef<int64_t>(*shape).drop_front(2) != ArrayRef<int64_t>(*kernel))
    return node.invalid("expected attribute 'kernel_shape' to be the spatial "
                        "extents of the input of the pooling, found " +
                        printShape(*kernel) + " for an input of shape " +
                        printShape(*shape));
  SmallVector<int64_t> pooled(*shape);
  for (size_t i = 2; i < pooled.size(); ++i)
    pooled[i] = 1;
  if (shape->size() < 3 || node.operandShape(0) != ArrayRef<int64_t>(pooled))
    return node.invalid("expected a gradient of shape (N, C, 1, ...) for an "
                        "input of the pooling of shape (N, C, d, ...)" +
                        node.found({0}) + " for " + printShape(*shape));
  Type element = node.operandType(0).getElementType();
  if (!getCheckedBytes(*shape, element))
    return node.invalid("the result of shape " + printShape(*shape) +
                        " is too large");
  return node.define(
      0, node.emit<GlobalAveragePoolGradOp>(
             {node.operand(0)}, {}, RankedTensorType::get(*shape, element)));
}

static LogicalResult importBatchNormGrad(NodeImporter &node) {
  node.ignore("epsilon"); // part of the saved inverse deviation
  node.ignore("momentum");
  node.ignore("training_mode");
  auto op = node.create<BatchNormGradOp>(node.operands());
  if (!op)
    return failure();
  (void)node.define(0, op.getDInput());
  (void)node.define(1, op.getDScale());
  return node.define(2, op.getDBias());
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

// Imports BroadcastGradientArgs: for each of two broadcast operands, the axes
// over which to sum its gradient. For example, [4, 3] and [3] give [] and [0].
static LogicalResult importBroadcastGradientArgs(NodeImporter &node) {
  auto a = node.integers(0, "a_shape"), b = node.integers(1, "b_shape");
  if (failed(a) || failed(b))
    return failure();
  // Pad the shorter shape with leading ones.
  int64_t rank = std::max(a->size(), b->size());
  int64_t missingA = rank - a->size(), missingB = rank - b->size();
  a->insert(a->begin(), missingA, 1);
  b->insert(b->begin(), missingB, 1);
  // Sum an operand's gradient over axes that the operand lacks, or along which
  // it was repeated.
  SmallVector<int64_t> axes[2];
  for (int64_t axis = 0; axis < rank; ++axis) {
    bool differ = (*a)[axis] != (*b)[axis];
    if (axis < missingA || (differ && (*a)[axis] == 1))
      axes[0].push_back(axis);
    if (axis < missingB || (differ && (*b)[axis] == 1))
      axes[1].push_back(axis);
  }
  for (unsigned i : {0, 1})
    (void)node.define(i, HostTensor::fromIntegers(
                             node.getContext(),
                             {static_cast<int64_t>(axes[i].size())}, axes[i]));
  return success();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getGradientOps() {
  static const OpEntry entries[] = {
      // Files contain these gradients in ONNX's own domain and in
      // com.microsoft.
      {"", "AveragePoolGrad", 1, kNoEnd, 1, 1, 1, importAveragePoolGrad},
      {"", "ConvGradB", 1, kNoEnd, 1, 1, 1, importConvGradB},
      {"", "ConvGradW", 1, kNoEnd, 2, 2, 1, importConvGradW},
      {"", "ConvGradX", 1, kNoEnd, 2, 2, 1, importConvGradX},
      {"", "GlobalAveragePoolGrad", 1, kNoEnd, 1, 2, 1,
       importGlobalAveragePoolGrad},
      {"", "MaxPoolGrad", 1, kNoEnd, 2, 2, 1, importMaxPoolGrad},
      {kMicrosoft, "AveragePoolGrad", 1, kNoEnd, 1, 1, 1,
       importAveragePoolGrad},
      {kMicrosoft, "BatchNormalizationGrad", 1, kNoEnd, 5, 5, 3,
       importBatchNormGrad},
      {kMicrosoft, "BroadcastGradientArgs", 1, kNoEnd, 2, 2, 2,
       importBroadcastGradientArgs},
      {kMicrosoft, "BiasFastGeluGrad_dX", 1, kNoEnd, 3, 3, 1,
       importBiasGeluGrad},
      {kMicrosoft, "BiasGeluGrad_dX", 1, kNoEnd, 3, 3, 1, importBiasGeluGrad},
      {kMicrosoft, "BitmaskDropoutGrad", 1, kNoEnd, 2, 4, 1, importDropoutGrad},
      {kMicrosoft, "ConvTransposeGrad", 1, kNoEnd, 3, 3, 3,
       importConvTransposeGrad},
      {kMicrosoft, "FastGeluGrad", 1, kNoEnd, 2, 2, 1, importFastGeluGrad},
      {kMicrosoft, "GeluGrad", 1, kNoEnd, 2, 2, 1, importGeluGrad},
      {kMicrosoft, "LeakyReluGrad", 1, kNoEnd, 2, 2, 1, importLeakyReluGrad},
      {kMicrosoft, "QuickGeluGrad", 1, kNoEnd, 2, 2, 1, importQuickGeluGrad},
      {kMicrosoft, "ConvGrad", 1, kNoEnd, 3, 3, 3, importConvGrad},
      {kMicrosoft, "DivGrad", 1, kNoEnd, 3, 3, 2, importDivGrad},
      {kMicrosoft, "DropoutGrad", 1, kNoEnd, 2, 4, 1, importDropoutGrad},
      {kMicrosoft, "LogSoftmaxGrad", 1, kNoEnd, 2, 2, 1,
       importFlattenedSoftmaxGrad<LogSoftmaxGradOp>},
      {kMicrosoft, "LogSoftmaxGrad_13", 1, kNoEnd, 2, 2, 1,
       importSoftmaxGrad<LogSoftmaxGradOp>},
      {kMicrosoft, "MaxPoolGrad", 1, kNoEnd, 2, 2, 1, importMaxPoolGrad},
      {kMicrosoft, "ReluGrad", 1, kNoEnd, 2, 2, 1,
       importElementwiseGrad<ReluGradOp>},
      {kMicrosoft, "Scale", 1, kNoEnd, 2, 2, 1, importScale},
      {kMicrosoft, "SigmoidGrad", 1, kNoEnd, 2, 2, 1,
       importElementwiseGrad<SigmoidGradOp>},
      {kMicrosoft, "SoftmaxGrad", 1, kNoEnd, 2, 2, 1,
       importFlattenedSoftmaxGrad<SoftmaxGradOp>},
      {kMicrosoft, "SoftmaxGrad_13", 1, kNoEnd, 2, 2, 1,
       importSoftmaxGrad<SoftmaxGradOp>},
      {kMicrosoft, "SoftmaxDropoutGrad", 1, kNoEnd, 3, 4, 1,
       importSoftmaxDropoutGrad},
      {kMicrosoft, "TanhGrad", 1, kNoEnd, 2, 2, 1,
       importElementwiseGrad<TanhGradOp>},
  };
  return entries;
}
