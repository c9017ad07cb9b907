// Shape arithmetic at import: what exporters compute from Shape is folded here,
// so that the IR has static shapes and no integer ops.
//
// Integers and booleans are folded, and the movement of scalars; floats that
// may be trained never are.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <cstring>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

using Integers = SmallVector<int64_t>;

// Shape arithmetic is small; larger integer tensors are data. A mask made from
// two vectors is the product of their sizes, which is where it ends.
static constexpr int64_t kMostElements = 1 << 16;
static constexpr int64_t kMostResults = 1 << 22;

// A tensor of integers of this element type; values wrap as ONNX's do.
static HostTensor makeIntegers(Type element, ArrayRef<int64_t> shape,
                               ArrayRef<int64_t> values) {
  auto [tensor, data] =
      HostTensor::allocate(RankedTensorType::get(shape, element));
  int64_t width = getElementBytes(element);
  for (auto [i, value] : llvm::enumerate(values))
    std::memcpy(data + i * width, &value, width);
  return tensor;
}

// The elements of `source` at these positions under a new shape.
static HostTensor pick(const HostTensor &source, ArrayRef<int64_t> shape,
                       ArrayRef<int64_t> positions) {
  Type element = source.type.getElementType();
  auto [tensor, data] =
      HostTensor::allocate(RankedTensorType::get(shape, element));
  int64_t width = getElementBytes(element);
  for (auto [i, position] : llvm::enumerate(positions))
    std::memcpy(data + i * width, source.data.data() + position * width, width);
  return tensor;
}

// Calls `visit` with every index of `shape`, in row-major order.
static void forEachIndex(ArrayRef<int64_t> shape,
                         llvm::function_ref<void(ArrayRef<int64_t>)> visit) {
  Integers index(shape.size(), 0);
  for (int64_t i = 0, n = ShapedType::getNumElements(shape); i < n; ++i) {
    visit(index);
    for (size_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

// The row-major position of `index`, broadcast, in a tensor of `shape`.
static int64_t positionOf(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t position = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    int64_t at = index[index.size() - shape.size() + d];
    position = position * shape[d] + (shape[d] == 1 ? 0 : at);
  }
  return position;
}

// Results are as large as the product of small inputs allows.
static LogicalResult checkSize(NodeImporter &node, ArrayRef<int64_t> shape) {
  auto bytes = getCheckedBytes(shape, node.attributes().getI64Type());
  if (bytes && *bytes <= kMostResults * 8)
    return success();
  return node.unsupported("the result is too large to be known at import");
}

//===----------------------------------------------------------------------===//
// Ops
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

static LogicalResult foldGather(NodeImporter &node) {
  HostTensor source = *node.constant(0), indices = *node.constant(1);
  ArrayRef<int64_t> shape = source.getShape();
  auto axis = node.normalizeAxis(node.integer("axis", 0), shape.size());
  if (failed(axis))
    return failure();
  int64_t extent = shape[*axis];
  Integers rows = indices.getIntegers();
  for (int64_t &row : rows) {
    if (row < -extent || row >= extent)
      return node.invalid("index " + Twine(row) + " is outside an axis of " +
                          Twine(extent));
    row = row < 0 ? row + extent : row;
  }
  int64_t outer = ShapedType::getNumElements(shape.take_front(*axis));
  int64_t inner = ShapedType::getNumElements(shape.drop_front(*axis + 1));
  Integers result(shape.take_front(*axis)), positions;
  llvm::append_range(result, indices.getShape());
  llvm::append_range(result, shape.drop_front(*axis + 1));
  if (failed(checkSize(node, result)))
    return failure();
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t row : rows)
      for (int64_t i = 0; i < inner; ++i)
        positions.push_back((o * extent + row) * inner + i);
  return node.define(0, pick(source, result, positions));
}

static LogicalResult foldConcat(NodeImporter &node) {
  HostTensor first = *node.constant(0);
  if (first.getShape().size() != 1)
    return node.unsupported("expected vectors in shape arithmetic");
  node.ignore("axis");
  Integers values;
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    auto part = node.constant(i);
    if (part->getShape().size() != 1)
      return node.invalid("expected inputs of equal rank");
    llvm::append_range(values, part->getIntegers());
  }
  return node.define(0, makeIntegers(first.type.getElementType(),
                                     {static_cast<int64_t>(values.size())},
                                     values));
}

// Old exporters write integers as floats and cast them.
static LogicalResult truncateFloats(NodeImporter &node, Type element) {
  HostTensor source = *node.constant(0);
  Integers values;
  for (int64_t i = 0; i < source.getNumElements(); ++i) {
    double value = source.getDouble(i);
    // All integers up to here are floats, and none beyond is a shape.
    constexpr double kLargest = int64_t(1) << 53;
    if (!(value >= -kLargest && value <= kLargest))
      return node.invalid("expected an integer, found " +
                          std::to_string(value));
    values.push_back(element.isInteger(1) ? value != 0.0
                                          : static_cast<int64_t>(value));
  }
  return node.define(0, makeIntegers(element, source.getShape(), values));
}

static LogicalResult foldCast(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  node.ignore("saturate");
  auto element = node.getFunction().getModel().getElementType(
      node.integer("to", 0), node.describe() + ": attribute 'to'");
  if (!element) {
    node.getFunction().getModule().report(element.takeError());
    return failure();
  }
  if (!element->isInteger())
    return node.unsupported("expected integers in shape arithmetic");
  if (source.isFloat())
    return truncateFloats(node, *element);
  Integers values = source.getIntegers();
  if (element->isInteger(1))
    for (int64_t &value : values)
      value = value != 0;
  return node.define(0, makeIntegers(*element, source.getShape(), values));
}

static LogicalResult foldSlice(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  if (source.getShape().size() != 1)
    return node.unsupported("expected vectors in shape arithmetic");
  int64_t extent = source.getShape()[0];
  auto read = [&](unsigned index, StringRef name) -> std::optional<int64_t> {
    Integers values;
    if (auto list = node.integerList(name))
      values = *list;
    else if (auto tensor = node.constant(index))
      values = tensor->getIntegers();
    return values.size() == 1 ? std::optional(values[0]) : std::nullopt;
  };
  auto start = read(1, "starts"), end = read(2, "ends");
  node.ignore("axes");
  int64_t step = node.hasInput(4) ? read(4, "steps").value_or(0) : 1;
  if (!start || !end || step != 1)
    return node.unsupported("expected one range of step 1 in shape arithmetic");
  auto clamp = [&](int64_t position) {
    position = position < 0 ? std::max(position, -extent) + extent : position;
    return std::min(position, extent);
  };
  Integers positions;
  for (int64_t i = clamp(*start); i < clamp(*end); ++i)
    positions.push_back(i);
  return node.define(
      0, pick(source, {static_cast<int64_t>(positions.size())}, positions));
}

static LogicalResult foldRange(NodeImporter &node) {
  int64_t bounds[3];
  for (unsigned i : {0, 1, 2}) {
    auto bound = node.integers(i, "the range");
    if (failed(bound) || bound->size() != 1)
      return failed(bound) ? failure()
                           : node.invalid("expected scalars as range");
    bounds[i] = bound->front();
  }
  auto [start, limit, delta] = std::tie(bounds[0], bounds[1], bounds[2]);
  if (delta == 0)
    return node.invalid("expected a step other than 0");
  Integers values;
  for (int64_t value = start; delta > 0 ? value < limit : value > limit;) {
    values.push_back(value);
    if (static_cast<int64_t>(values.size()) > kMostElements ||
        llvm::AddOverflow(value, delta, value))
      return node.unsupported("the range is too long");
  }
  return node.define(0, makeIntegers(node.constant(0)->type.getElementType(),
                                     {static_cast<int64_t>(values.size())},
                                     values));
}

static LogicalResult foldReduceProd(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  if (source.getShape().size() != 1)
    return node.unsupported("expected vectors in shape arithmetic");
  node.ignore("axes");
  if (node.integer("noop_with_empty_axes", 0) && !node.hasAttribute("axes") &&
      (!node.hasInput(1) || node.constant(1)->data.empty())) {
    node.ignore("keepdims");
    return node.define(0, source);
  }
  int64_t result = 1;
  for (int64_t value : source.getIntegers())
    if (llvm::MulOverflow(result, value, result))
      return node.invalid("the product overflows");
  Integers shape;
  if (node.integer("keepdims", 1))
    shape.push_back(1);
  return node.define(
      0, makeIntegers(source.type.getElementType(), shape, {result}));
}

// Integer division truncates; nothing for a division by zero or an overflow.
static std::optional<int64_t> evaluate(StringRef op, int64_t a, int64_t b) {
  int64_t result = 0;
  if (op == "Add")
    return llvm::AddOverflow(a, b, result) ? std::nullopt
                                           : std::optional(result);
  if (op == "Sub")
    return llvm::SubOverflow(a, b, result) ? std::nullopt
                                           : std::optional(result);
  if (op == "Mul")
    return llvm::MulOverflow(a, b, result) ? std::nullopt
                                           : std::optional(result);
  if (op == "Div")
    return b == 0 || (a == INT64_MIN && b == -1) ? std::nullopt
                                                 : std::optional(a / b);
  if (op == "Max")
    return std::max(a, b);
  if (op == "Min")
    return std::min(a, b);
  return a == b; // Equal
}

static LogicalResult foldBinary(NodeImporter &node) {
  HostTensor lhs = *node.constant(0), rhs = *node.constant(1);
  auto shape = broadcastShapes(lhs.getShape(), rhs.getShape());
  if (failed(shape))
    return node.invalid("the inputs do not broadcast together");
  if (failed(checkSize(node, *shape)))
    return failure();
  bool failedOnce = false;
  Integers values;
  forEachIndex(*shape, [&](ArrayRef<int64_t> index) {
    auto value = evaluate(node.getOpType(),
                          lhs.getInteger(positionOf(index, lhs.getShape())),
                          rhs.getInteger(positionOf(index, rhs.getShape())));
    failedOnce |= !value;
    values.push_back(value.value_or(0));
  });
  if (failedOnce)
    return node.invalid("the result overflows or divides by zero");
  Type element = node.getOpType() == "Equal"
                     ? IntegerType::get(node.getContext(), 1)
                     : lhs.type.getElementType();
  return node.define(0, makeIntegers(element, *shape, values));
}

static LogicalResult foldNeg(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  Integers values = source.getIntegers();
  for (int64_t &value : values)
    if (llvm::SubOverflow(int64_t(0), value, value))
      return node.invalid("the result overflows");
  return node.define(
      0, makeIntegers(source.type.getElementType(), source.getShape(), values));
}

static LogicalResult foldWhere(NodeImporter &node) {
  HostTensor condition = *node.constant(0);
  HostTensor onTrue = *node.constant(1), onFalse = *node.constant(2);
  auto shape = broadcastShapes(onTrue.getShape(), onFalse.getShape());
  if (succeeded(shape))
    shape = broadcastShapes(*shape, condition.getShape());
  if (failed(shape))
    return node.invalid("the inputs do not broadcast together");
  if (failed(checkSize(node, *shape)))
    return failure();
  Integers values;
  forEachIndex(*shape, [&](ArrayRef<int64_t> index) {
    const HostTensor &chosen =
        condition.getInteger(positionOf(index, condition.getShape())) ? onTrue
                                                                      : onFalse;
    values.push_back(chosen.getInteger(positionOf(index, chosen.getShape())));
  });
  return node.define(
      0, makeIntegers(onTrue.type.getElementType(), *shape, values));
}

static LogicalResult foldExpand(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  Integers requested = node.constant(1)->getIntegers();
  auto shape = broadcastShapes(source.getShape(), requested);
  if (failed(shape))
    return node.invalid("the input does not broadcast to the shape");
  if (failed(checkSize(node, *shape)))
    return failure();
  Integers positions;
  forEachIndex(*shape, [&](ArrayRef<int64_t> index) {
    positions.push_back(positionOf(index, source.getShape()));
  });
  return node.define(0, pick(source, *shape, positions));
}

// Ops that keep the elements in order: only the shape differs.
template <FailureOr<Integers> (*Infer)(NodeImporter &)>
static LogicalResult foldReshape(NodeImporter &node) {
  HostTensor source = *node.constant(0);
  FailureOr<Integers> shape = Infer(node);
  if (failed(shape))
    return failure();
  return node.define(
      0, HostTensor{RankedTensorType::get(*shape, source.type.getElementType()),
                    source.data, source.owner});
}

static LogicalResult foldIdentity(NodeImporter &node) {
  return node.define(0, *node.constant(0));
}

//===----------------------------------------------------------------------===//
// Which op is folded how
//===----------------------------------------------------------------------===//

using Folder = LogicalResult (*)(NodeImporter &);

static Folder getFolder(StringRef op) {
  return llvm::StringSwitch<Folder>(op)
      .Cases({"Add", "Sub", "Mul", "Div", "Max", "Min", "Equal"}, foldBinary)
      .Case("Identity", foldIdentity)
      .Case("Reshape", foldReshape<inferReshape>)
      .Case("Squeeze", foldReshape<inferSqueeze>)
      .Case("Unsqueeze", foldReshape<inferUnsqueeze>)
      .Case("Neg", foldNeg)
      .Case("Gather", foldGather)
      .Case("Concat", foldConcat)
      .Case("Cast", foldCast)
      .Case("Slice", foldSlice)
      .Case("Range", foldRange)
      .Case("ReduceProd", foldReduceProd)
      .Case("Where", foldWhere)
      .Case("Expand", foldExpand)
      .Default(nullptr);
}

// Whether an input takes part in shape arithmetic: known, small, and integer or
// about to become so.
static bool isFoldable(NodeImporter &node, unsigned index) {
  auto tensor = node.constant(index);
  if (!tensor || tensor->getNumElements() > kMostElements)
    return false;
  return !tensor->isFloat() ||
         (node.getOpType() == "Cast" && !node.isState(index));
}

static bool isIntegerType(int64_t dataType) {
  return llvm::is_contained(
      {proto::TensorProto::BOOL, proto::TensorProto::UINT8,
       proto::TensorProto::INT8, proto::TensorProto::INT32,
       proto::TensorProto::INT64},
      dataType);
}

FailureOr<bool> mpc::onnx_frontend::foldNode(NodeImporter &node) {
  if (!normalizeDomain(node.getNode().domain()).empty())
    return false;
  StringRef op = node.getOpType();
  if (op == "Shape")
    return failed(foldShape(node)) ? FailureOr<bool>(failure()) : true;
  if (op == "Size")
    return failed(foldSize(node)) ? FailureOr<bool>(failure()) : true;
  Folder folder = getFolder(op);
  if (!folder || node.getNumInputs() == 0)
    return false;
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (node.hasInput(i) && !isFoldable(node, i))
      return false;
  bool leavesIntegers = op == "Cast" && !isIntegerType(node.integer("to", 0));
  if (leavesIntegers || (folder == foldBinary && node.getNumInputs() != 2))
    return false;
  return failed(folder(node)) ? FailureOr<bool>(failure()) : true;
}
