// Folds shape arithmetic at import, so that the IR has static shapes. Most ops
// fold through the folders of their IR ops. Shape, Size, Range and NonZero have
// no IR op and are folded here. Trainable values never fold.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/FoldElements.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Elements
//===----------------------------------------------------------------------===//

HostTensor mpc::onnx_frontend::makeIntegers(Type element,
                                            ArrayRef<int64_t> shape,
                                            ArrayRef<int64_t> values) {
  auto [tensor, data] =
      HostTensor::allocate(RankedTensorType::get(shape, element));
  int64_t width = getElementBytes(element);
  for (auto [i, value] : llvm::enumerate(values))
    std::memcpy(data + i * width, &value, width);
  return tensor;
}

HostTensor mpc::onnx_frontend::makeFloats(Type element, ArrayRef<int64_t> shape,
                                          ArrayRef<double> values) {
  auto [tensor, data] = HostTensor::allocate(
      RankedTensorType::get(shape, Float64Type::get(element.getContext())));
  std::memcpy(data, values.data(), values.size() * sizeof(double));
  return *convertFloats(tensor, element);
}

HostTensor mpc::onnx_frontend::pick(
    const HostTensor &source, ArrayRef<int64_t> shape,
    llvm::function_ref<int64_t(ArrayRef<int64_t>)> positionOf) {
  Type element = source.type.getElementType();
  auto [tensor, data] =
      HostTensor::allocate(RankedTensorType::get(shape, element));
  int64_t width = getElementBytes(element);
  char *to = data;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    to = std::copy_n(source.data.data() + positionOf(index) * width, width, to);
  });
  return tensor;
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

static LogicalResult foldShape(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  int64_t rank = shape.size();
  auto clamp = [&](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  int64_t start = clamp(node.integer("start", 0));
  int64_t end = std::max(start, clamp(node.integer("end", rank)));
  ArrayRef<int64_t> part = shape.slice(start, end - start);
  return node.define(
      0, HostTensor::fromIntegers(node.getContext(),
                                  {static_cast<int64_t>(part.size())}, part));
}

static LogicalResult foldSize(NodeImporter &node) {
  return node.define(0, HostTensor::fromIntegers(node.getContext(), {},
                                                 {ShapedType::getNumElements(
                                                     node.operandShape(0))}));
}

static LogicalResult foldIntegerRange(NodeImporter &node) {
  int64_t bounds[3];
  for (unsigned i : {0, 1, 2})
    bounds[i] = node.constant(i)->getInteger(0);
  auto [start, limit, delta] = std::tie(bounds[0], bounds[1], bounds[2]);
  if (delta == 0)
    return node.invalid("expected a step other than 0, found 0");
  Integers values;
  for (int64_t value = start; delta > 0 ? value < limit : value > limit;) {
    values.push_back(value);
    if (static_cast<int64_t>(values.size()) > kMostFoldedElements ||
        llvm::AddOverflow(value, delta, value))
      return node.unsupported("the range is too long: expected at most " +
                              Twine(kMostFoldedElements) + " elements");
  }
  return node.define(0, makeIntegers(node.constant(0)->type.getElementType(),
                                     {static_cast<int64_t>(values.size())},
                                     values));
}

// Counts the elements of a Range in the arithmetic of type T. In f32, 0.3 / 0.1
// is exactly 3, although f32 holds neither number exactly.
template <typename T>
static double countSteps(double start, double limit, double delta) {
  T distance = static_cast<T>(limit) - static_cast<T>(start);
  return std::ceil(distance / static_cast<T>(delta));
}

static LogicalResult foldFloatRange(NodeImporter &node) {
  double bounds[3];
  for (unsigned i : {0, 1, 2}) {
    bounds[i] = node.constant(i)->getDouble(0);
    if (!std::isfinite(bounds[i]))
      return node.invalid(
          "expected finite numbers as start, limit and delta, found " +
          std::to_string(bounds[i]));
  }
  auto [start, limit, delta] = std::tie(bounds[0], bounds[1], bounds[2]);
  if (delta == 0)
    return node.invalid("expected a step other than 0, found 0");
  Type element = node.constant(0)->type.getElementType();
  double count = element.isF64() ? countSteps<double>(start, limit, delta)
                                 : countSteps<float>(start, limit, delta);
  if (count > kMostFoldedElements)
    return node.unsupported("the range is too long: expected at most " +
                            Twine(kMostFoldedElements) + " elements");
  SmallVector<double> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(start + static_cast<double>(i) * delta);
  return node.define(
      0, makeFloats(element, {static_cast<int64_t>(values.size())}, values));
}

// NonZero of a constant: the indices of its nonzero elements, one per column.
static LogicalResult foldNonZero(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  SmallVector<Integers> found;
  forEachIndex(source.getShape(), [&](ArrayRef<int64_t> index) {
    int64_t position = getPosition(index, source.getShape());
    if (source.getDouble(position) != 0.0)
      found.emplace_back(index);
  });
  Integers values;
  for (size_t axis = 0; axis < source.getShape().size(); ++axis)
    for (const Integers &index : found)
      values.push_back(index[axis]);
  return node.define(0, HostTensor::fromIntegers(
                            node.getContext(),
                            {static_cast<int64_t>(source.getShape().size()),
                             static_cast<int64_t>(found.size())},
                            values));
}

static LogicalResult foldRange(NodeImporter &node) {
  // PyTorch exports arange(1, 9.) as a Range with integer and float inputs, but
  // ONNX requires a single type.
  const Type element = node.constant(0)->type.getElementType();
  std::string types;
  llvm::raw_string_ostream list(types);
  bool isOneType = true;
  for (unsigned i : {0, 1, 2}) {
    if (node.constant(i)->getNumElements() != 1)
      return node.invalid("expected scalars as start, limit and delta" +
                          node.found({i}));
    const Type own = node.constant(i)->type.getElementType();
    list << (i == 0 ? "" : ", ") << own;
    isOneType &= own == element;
  }
  if (!isOneType)
    return node.invalid("start, limit and delta are of several types (" +
                        types +
                        "); give torch.arange floats or integers alone");
  return isa<FloatType>(element) ? foldFloatRange(node)
                                 : foldIntegerRange(node);
}

Folder mpc::onnx_frontend::getShapeFolder(StringRef op) {
  return llvm::StringSwitch<Folder>(op)
      .Case("NonZero", foldNonZero)
      .Case("Range", foldRange)
      .Case("Shape", foldShape)
      .Case("Size", foldSize)
      .Default(nullptr);
}

//===----------------------------------------------------------------------===//
// Selection of nodes to fold
//===----------------------------------------------------------------------===//

// True if the input takes part in shape arithmetic: known, small, and not
// trainable.
static bool isFoldable(NodeImporter &node, unsigned index) {
  auto tensor = node.constant(index);
  return tensor && tensor->getNumElements() <= kMostFoldedElements &&
         !(tensor->isFloat() && node.isState(index));
}

// The number of inputs whose elements must be known. Shape and Size read only
// the shape of their input.
static unsigned countKnownInputs(NodeImporter &node) {
  bool readsShape = node.getOpType() == "Shape" || node.getOpType() == "Size";
  return readsShape ? 0 : node.getNumInputs();
}

FailureOr<bool> mpc::onnx_frontend::foldNode(NodeImporter &node) {
  std::string op = getOpName(node.getNode());
  Folder folder = getShapeFolder(op);
  folder = folder ? folder : getSignalFolder(op);
  if (!folder || node.getNumInputs() == 0)
    return false;
  for (unsigned i = 0, n = countKnownInputs(node); i < n; ++i)
    if (node.hasInput(i) && !isFoldable(node, i))
      return false;
  if (succeeded(folder(node)))
    return true;
  return node.hasFailed() ? FailureOr<bool>(failure()) : false;
}
