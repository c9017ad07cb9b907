// Imports the gradients of convolutions and poolings, as ONNX Runtime's
// gradient builder and compilers for training devices write them.
//
// The nodes of several of these ops leave out facts about the forward op, such
// as the geometry of a pooling. The importer reads them from the forward op.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Ops/NN/Window.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Convolutions
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

//===----------------------------------------------------------------------===//
// Poolings
//===----------------------------------------------------------------------===//

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

ArrayRef<OpEntry> mpc::onnx_frontend::getWindowGradOps() {
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
      {kMicrosoft, "ConvTransposeGrad", 1, kNoEnd, 3, 3, 3,
       importConvTransposeGrad},
      {kMicrosoft, "ConvGrad", 1, kNoEnd, 3, 3, 3, importConvGrad},
      {kMicrosoft, "MaxPoolGrad", 1, kNoEnd, 2, 2, 1, importMaxPoolGrad},
  };
  return entries;
}
