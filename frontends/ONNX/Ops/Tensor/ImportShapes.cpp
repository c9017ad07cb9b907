// Imports reshapes, constants and Where, and reads the axes of reductions.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Selection.h"
#include "frontends/ONNX/Importer/ShapeArguments.h"
#include "frontends/ONNX/Model/Weights.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Reshapes
//===----------------------------------------------------------------------===//

static LogicalResult defineReshape(NodeImporter &node,
                                   FailureOr<SmallVector<int64_t>> shape) {
  return failed(shape) ? failure()
                       : node.define(0, node.reshape(node.operand(0), *shape));
}

// Replaces special extents of a requested shape: 0 copies the input's extent
// (unless `allowZero`), and -1 is inferred from the number of elements.
static FailureOr<SmallVector<int64_t>>
resolveShape(NodeImporter &node, ArrayRef<int64_t> requested, bool allowZero) {
  ArrayRef<int64_t> input = node.operandShape(0);
  SmallVector<int64_t> shape(requested);
  int64_t known = 1;
  std::optional<size_t> unknown;
  for (auto [i, extent] : llvm::enumerate(shape)) {
    if (extent == 0 && !allowZero) {
      if (i >= input.size())
        return node.invalid(
            "0 at position " + Twine(i) + " of the shape copies axis " +
            Twine(i) + " of the input, which has rank " + Twine(input.size()));
      extent = input[i];
    }
    if (extent < -1 || (extent == -1 && unknown))
      return node.invalid(
          "expected extents of at least 0 and at most one -1, found " +
          printShape(requested));
    if (extent == -1)
      unknown = i;
    else if (llvm::MulOverflow(known, extent, known))
      return node.invalid("the number of elements of the shape " +
                          printShape(requested) + " overflows");
  }
  int64_t count = ShapedType::getNumElements(input);
  if (unknown && (known == 0 || count % known != 0))
    return node.invalid("cannot infer -1 in shape " + printShape(requested) +
                        ": " + Twine(count) + " elements do not divide into " +
                        Twine(known));
  if (unknown)
    shape[*unknown] = count / known;
  else if (known != count)
    return node.invalid("expected a shape of " + Twine(count) +
                        " elements, found " + Twine(known));
  return shape;
}

FailureOr<SmallVector<int64_t>>
mpc::onnx_frontend::inferReshape(NodeImporter &node) {
  auto requested = node.integers(1, "the shape");
  if (succeeded(requested))
    if (Rebatch *rebatch = node.getFunction().getModule().getRebatch())
      requested = rebatch->adaptReshape(node, *requested);
  if (failed(requested))
    return failure();
  return resolveShape(node, *requested, node.integer("allowzero", 0) != 0);
}

static LogicalResult importReshape(NodeImporter &node) {
  return defineReshape(node, inferReshape(node));
}

static LogicalResult importFlatten(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  int64_t rank = shape.size(), axis = node.integer("axis", 1);
  if (axis < -rank || axis > rank)
    return node.invalid("axis " + Twine(axis) + " is not in [" + Twine(-rank) +
                        ", " + Twine(rank) + "]");
  if (axis < 0)
    axis += rank;
  SmallVector<int64_t> matrix = {
      ShapedType::getNumElements(shape.take_front(axis)),
      ShapedType::getNumElements(shape.drop_front(axis))};
  return defineReshape(node, matrix);
}

// Reads the axes of Squeeze, Unsqueeze and reductions from an attribute or from
// input 1. nullopt if the node gives none.
static FailureOr<std::optional<SmallVector<int64_t>>>
readAxes(NodeImporter &node) {
  if (auto list = node.integerList("axes"))
    return std::optional(*list);
  if (!node.hasInput(1))
    return std::optional<SmallVector<int64_t>>();
  auto list = node.integers(1, "axes");
  if (failed(list))
    return failure();
  return std::optional(*list);
}

FailureOr<SmallVector<int64_t>>
mpc::onnx_frontend::inferSqueeze(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  auto axes = readAxes(node);
  if (failed(axes))
    return failure();
  // Without axes, drop all axes of extent 1.
  SmallVector<int64_t> result;
  if (!*axes) {
    llvm::copy_if(shape, std::back_inserter(result),
                  [](int64_t extent) { return extent != 1; });
    return result;
  }
  // The axes that the node names must have extent 1.
  auto normalized = node.normalizeAxes(**axes, shape.size());
  if (failed(normalized))
    return failure();
  for (auto [i, extent] : llvm::enumerate(shape)) {
    bool drop = llvm::is_contained(*normalized, static_cast<int64_t>(i));
    if (drop && extent != 1)
      return node.invalid("axis " + Twine(i) + " has " + Twine(extent) +
                          " elements, expected 1");
    if (!drop)
      result.push_back(extent);
  }
  return result;
}

static LogicalResult importSqueeze(NodeImporter &node) {
  return defineReshape(node, inferSqueeze(node));
}

FailureOr<SmallVector<int64_t>>
mpc::onnx_frontend::inferUnsqueeze(NodeImporter &node) {
  auto axes = readAxes(node);
  if (failed(axes))
    return failure();
  if (!*axes)
    return node.invalid(
        "expected axes as input 1 or attribute 'axes', found none");
  SmallVector<int64_t> shape(node.operandShape(0));
  auto normalized = node.normalizeAxes(**axes, shape.size() + (*axes)->size());
  if (failed(normalized))
    return failure();
  for (int64_t axis : *normalized)
    shape.insert(shape.begin() + axis, 1);
  return shape;
}

static LogicalResult importUnsqueeze(NodeImporter &node) {
  return defineReshape(node, inferUnsqueeze(node));
}

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

static HostTensor makeFloats(NodeImporter &node, ArrayRef<int64_t> shape,
                             ArrayRef<float> values) {
  auto type = RankedTensorType::get(shape, node.attributes().getF32Type());
  auto [tensor, data] = HostTensor::allocate(type);
  llvm::copy(values, reinterpret_cast<float *>(data));
  return tensor;
}

static LogicalResult defineTensor(NodeImporter &node,
                                  const proto::TensorProto &tensor) {
  auto decoded = node.getFunction().getModel().decode(
      tensor, node.describe() + ": attribute 'value'");
  if (!decoded) {
    node.getFunction().getModule().report(decoded.takeError());
    return failure();
  }
  FunctionImporter &function = node.getFunction();
  const StringRef name = node.getOutputName(0);
  const bool hasName =
      !function.isBody() && !function.getModel().isOfFunction(node.getNode());
  if (!decoded->isFloat() || !hasName)
    return node.define(0, *decoded);
  // Some exporters write weights as Constant nodes. `--weights` may replace
  // their values.
  ModuleImporter &module = function.getModule();
  const TensorMap &weights = module.getOptions().weights;
  auto given = weights.find(name);
  if (given != weights.end()) {
    decoded = fitWeight(function.getModel(), "constant", name, given->second,
                        decoded->type);
    if (!decoded) {
      module.report(decoded.takeError());
      return failure();
    }
  }
  // A constant that is not trained by default becomes state of role frozen, so
  // that the user can still choose to train it.
  const std::optional<Role> role = module.getParameterRole(name, decoded->type);
  const bool isState = decoded->getNumElements() > 1 &&
                       !function.isSetting(name) && role.has_value();
  if (role == Role::Parameter || given != weights.end())
    return node.defineState(0, *decoded, role.value_or(Role::Frozen));
  return isState ? node.defineState(0, *decoded, Role::Frozen)
                 : node.define(0, *decoded);
}

static LogicalResult importConstant(NodeImporter &node) {
  using Attribute = proto::AttributeProto;
  // Exactly one attribute holds the value; exporters nearly always write a
  // tensor.
  MLIRContext *context = node.getContext();
  if (const auto *value = node.find("value", Attribute::TENSOR))
    return defineTensor(node, value->t());
  if (const auto *value = node.find("value_int", Attribute::INT))
    return node.define(0, HostTensor::fromIntegers(context, {}, {value->i()}));
  // Lists are tensors of rank 1, single numbers of rank 0.
  if (const auto *value = node.find("value_ints", Attribute::INTS))
    return node.define(
        0, HostTensor::fromIntegers(
               context, {value->ints_size()},
               ArrayRef<int64_t>(value->ints().data(), value->ints_size())));
  if (const auto *value = node.find("value_float", Attribute::FLOAT))
    return node.define(0, makeFloats(node, {}, {value->f()}));
  if (const auto *value = node.find("value_floats", Attribute::FLOATS))
    return node.define(0, makeFloats(node, {value->floats_size()},
                                     ArrayRef<float>(value->floats().data(),
                                                     value->floats_size())));
  // All other attributes hold strings or sparse tensors.
  return node.unsupported(
      "expected attribute 'value', 'value_int', 'value_ints', 'value_float' or "
      "'value_floats', found none");
}

static LogicalResult importConstantOfShape(NodeImporter &node) {
  auto shape = node.integers(0, "the shape");
  if (failed(shape))
    return failure();
  HostTensor element = makeFloats(node, {1}, {0.0f});
  if (const auto *value = node.find("value", proto::AttributeProto::TENSOR)) {
    auto decoded = node.getFunction().getModel().decode(
        value->t(), node.describe() + ": attribute 'value'");
    if (!decoded) {
      node.getFunction().getModule().report(decoded.takeError());
      return failure();
    }
    element = *decoded;
  }
  if (element.getNumElements() != 1)
    return node.invalid("expected attribute 'value' of one element, found " +
                        printTensorType(element.type));
  return defineSplat(node, 0, *shape, element);
}

LogicalResult mpc::onnx_frontend::defineSplat(NodeImporter &node,
                                              unsigned output,
                                              ArrayRef<int64_t> shape,
                                              const HostTensor &element) {
  Type elementType = element.type.getElementType();
  auto bytes = getCheckedBytes(shape, elementType);
  if (!bytes)
    return node.invalid("the shape " + printShape(shape) +
                        " has a negative extent or overflows");
  auto type = RankedTensorType::get(shape, elementType);
  // Write out a small constant in full, because folding reads single elements.
  constexpr int64_t kMostBytes = int64_t(1) << 19;
  if (*bytes <= kMostBytes) {
    auto [tensor, data] = HostTensor::allocate(type);
    for (int64_t i = 0; i < *bytes; i += element.data.size())
      llvm::copy(element.data, data + i);
    return node.define(output, tensor);
  }
  Attribute value = element.toAttribute("").getValues<Attribute>()[0];
  auto op = node.create<ConstantOp>(
      {}, {node.attribute("value", DenseElementsAttr::get(type, value))}, type);
  return op ? node.define(output, op.getOutput()) : failure();
}

static LogicalResult importWhere(NodeImporter &node) {
  if (node.operandType(1).getElementType() !=
      node.operandType(2).getElementType())
    return node.refuseTypes(node.operandType(1).getElementType(),
                            node.operandType(2).getElementType());
  return node.define(0, node.emit<SelectOp>({node.operand(0), node.operand(1),
                                             node.operand(2)}));
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

FailureOr<Reduction> mpc::onnx_frontend::readReduction(NodeImporter &node) {
  int64_t rank = node.operandShape(0).size();
  auto axes = readAxes(node);
  if (failed(axes))
    return failure();
  bool noop = node.integer("noop_with_empty_axes", 0) != 0;
  bool keepDims = node.integer("keepdims", 1) != 0;
  auto all = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  bool isEmpty = !*axes || (*axes)->empty();
  if (isEmpty && noop)
    return Reduction{{}, keepDims, /*isIdentity=*/true};
  auto normalized = node.normalizeAxes(
      isEmpty ? ArrayRef<int64_t>(all) : ArrayRef<int64_t>(**axes), rank);
  if (failed(normalized))
    return failure();
  return Reduction{*normalized, keepDims, /*isIdentity=*/false};
}

ArrayRef<OpEntry> mpc::onnx_frontend::getShapeOps() {
  static const OpEntry entries[] = {
      // Domain, name, first and last opset, least and most inputs, outputs,
      // builder. An op with a null builder is only folded (FoldShapes,
      // FoldSignals).
      {"", "BlackmanWindow", 17, kNoEnd, 1, 1, 1, nullptr},
      {"", "Constant", 1, kNoEnd, 0, 0, 1, importConstant},
      {"", "ConstantOfShape", 9, kNoEnd, 1, 1, 1, importConstantOfShape},
      {"", "Flatten", 1, kNoEnd, 1, 1, 1, importFlatten},
      {"", "HammingWindow", 17, kNoEnd, 1, 1, 1, nullptr},
      {"", "HannWindow", 17, kNoEnd, 1, 1, 1, nullptr},
      {"", "MelWeightMatrix", 17, kNoEnd, 5, 5, 1, nullptr},
      {"", "NonZero", 9, kNoEnd, 1, 1, 1, importNonZero},
      {"", "Range", 11, kNoEnd, 3, 3, 1, nullptr},
      {"", "Reshape", 5, kNoEnd, 2, 2, 1, importReshape},
      {"", "Shape", 1, kNoEnd, 1, 1, 1, nullptr},
      {"", "Size", 1, kNoEnd, 1, 1, 1, nullptr},
      {"", "Squeeze", 1, kNoEnd, 1, 2, 1, importSqueeze},
      {"", "Unsqueeze", 1, kNoEnd, 1, 2, 1, importUnsqueeze},
      {"", "Where", 9, kNoEnd, 3, 3, 1, importWhere},
  };
  return entries;
}
