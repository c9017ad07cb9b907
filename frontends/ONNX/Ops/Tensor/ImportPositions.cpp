// Imports ops that select elements by position: triangles, largest elements,
// one-hot encodings, reversed sequences.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/FoldElements.h"
#include "frontends/ONNX/Importer/Selection.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Diagonals
//===----------------------------------------------------------------------===//

// Returns the row numbers of a matrix plus `shift`, as a column: [rows, 1].
static Value rowNumbers(NodeImporter &node, int64_t rows, int64_t shift) {
  if (!canList(node, rows))
    return {};
  return integerConstant(node, {rows, 1},
                         llvm::to_vector(llvm::seq(shift, shift + rows)));
}

// Clamps diagonal `k` of a matrix. A diagonal far outside the matrix acts like
// one just outside.
static int64_t clampDiagonal(int64_t k, int64_t rows, int64_t columns) {
  return std::clamp(k, -rows - 1, columns + 1);
}

static LogicalResult importTrilu(NodeImporter &node) {
  auto type = node.operandType(0);
  bool isUpper = node.integer("upper", 1) != 0;
  SmallVector<int64_t> diagonal = {0};
  if (node.hasInput(1)) {
    auto given = node.integers(1, "the diagonal");
    if (failed(given))
      return failure();
    diagonal = *given;
  }
  if (type.getRank() < 2 || diagonal.size() != 1)
    return node.invalid("expected an input of at least rank 2 and one number "
                        "as diagonal, found " +
                        printTensorType(type) + " and diagonal " +
                        printShape(diagonal));
  if (type.getNumElements() == 0)
    return node.define(0, node.operand(0));
  // An element belongs to the upper triangle if its row number plus the
  // diagonal is at most its column number, to the lower triangle if at least.
  int64_t rows = type.getShape().take_back(2).front();
  int64_t columns = type.getShape().back();
  Value row =
      rowNumbers(node, rows, clampDiagonal(diagonal.front(), rows, columns));
  Value column = iota(node, 2, 1, columns);
  Value isKept = isUpper ? node.emit<LessOrEqualOp>({row, column})
                         : node.emit<LessOrEqualOp>({column, row});
  Value zero = numberConstant(node, 0, type.getElementType());
  return node.define(0, node.emit<SelectOp>({isKept, node.operand(0), zero}));
}

static LogicalResult importEyeLike(NodeImporter &node) {
  auto type = node.operandType(0);
  FailureOr<Type> element = node.elementType("dtype", type.getElementType());
  if (failed(element))
    return failure();
  if (type.getRank() != 2)
    return node.invalid("expected an input of rank 2, found rank " +
                        Twine(type.getRank()));
  int64_t rows = type.getDimSize(0), columns = type.getDimSize(1);
  int64_t k = clampDiagonal(node.integer("k", 0), rows, columns);
  Value isOne = node.emit<EqualOp>(
      {rowNumbers(node, rows, k), iota(node, 2, 1, columns)});
  return node.define(
      0, node.emit<SelectOp>({isOne, numberConstant(node, 1, *element),
                              numberConstant(node, 0, *element)}));
}

//===----------------------------------------------------------------------===//
// Largest elements
//===----------------------------------------------------------------------===//

// Casts x to the type in which ArgMax compares: f64 for floats, which the
// Precision stage never lowers. In a low type the maximum and the elements
// might be rounded in different ops, and no element would equal the maximum.
// For ArgMin (`isMin`), reverses the order.
static Value comparable(NodeImporter &node, Value x, bool isMin) {
  if (!x)
    return {};
  bool isInteger = NodeImporter::typeOf(x).getElementType().isInteger();
  if (!isInteger)
    x = castTo(node, x, node.attributes().getF64Type());
  if (!isMin)
    return x;
  // The complement ~x reverses the order of integers. Unlike -x, it cannot
  // overflow.
  return isInteger ? node.emit<NotOp>({x}) : node.emit<NegOp>({x});
}

// Returns the index of the largest element of `keys` along `axis`, which keeps
// extent 1. Among equal elements, returns the first index, or the last if
// `isLast`. NaN counts as the largest.
static Value findLargest(NodeImporter &node, Value keys, int64_t axis,
                         bool isLast) {
  if (!keys)
    return {};
  auto type = NodeImporter::typeOf(keys);
  int64_t size = type.getDimSize(axis);
  Value largest = reduce<ReduceMaxOp>(node, keys, axis);
  Value isLargest = node.emit<EqualOp>({keys, largest});
  if (isa<FloatType>(type.getElementType()))
    isLargest = node.emit<OrOp>({isLargest, node.emit<IsNaNOp>({keys})});
  // The reduction finds the largest index. For the first index, count from the
  // end.
  Value places = iota(node, type.getRank(), axis, size);
  Value last = integerConstant(node, {}, size - 1);
  if (!isLast)
    places = node.emit<SubOp>({last, places});
  Value none = integerConstant(node, {}, -1);
  Value found = reduce<ReduceMaxOp>(
      node, node.emit<SelectOp>({isLargest, places, none}), axis);
  Value place = isLast ? found : node.emit<SubOp>({last, found});
  // One element is always the largest, so the index is in range.
  node.getFunction().noteRange(place, {0, size - 1});
  return place;
}

template <bool isMin>
static LogicalResult importArgExtremum(NodeImporter &node) {
  SmallVector<int64_t> shape(node.operandShape(0));
  auto axis = node.normalizeAxis(node.integer("axis", 0), shape.size());
  if (failed(axis))
    return failure();
  if (shape[*axis] == 0)
    return node.invalid("expected elements along axis " + Twine(*axis) +
                        node.found({0}));
  bool isLast = node.getOpset() >= 12 && node.integer("select_last_index", 0);
  Value place = findLargest(node, comparable(node, node.operand(0), isMin),
                            *axis, isLast);
  if (place && node.integer("keepdims", 1) == 0) {
    shape.erase(shape.begin() + *axis);
    place = node.reshape(place, shape);
  }
  return node.define(0, place);
}

// Sets the first largest element along `axis` to 1 and all others to 0. Input 0
// is first reshaped to `shape`, in which old opsets have merged axes.
static LogicalResult assembleHardmax(NodeImporter &node,
                                     ArrayRef<int64_t> shape, int64_t axis) {
  if (node.operandType(0).getNumElements() == 0)
    return node.define(0, node.operand(0));
  Value x = node.reshape(node.operand(0), shape);
  Value place = findLargest(node, comparable(node, x, false), axis, false);
  if (!place)
    return failure();
  Type element = NodeImporter::typeOf(x).getElementType();
  Value isPlace =
      node.emit<EqualOp>({iota(node, shape.size(), axis, shape[axis]), place});
  Value result = node.emit<SelectOp>({isPlace, numberConstant(node, 1, element),
                                      numberConstant(node, 0, element)});
  return node.define(0, node.reshape(result, node.operandShape(0)));
}

static LogicalResult importHardmax(NodeImporter &node) {
  SmallVector<int64_t> shape(node.operandShape(0));
  auto axis = node.normalizeAxis(node.integer("axis", -1), shape.size());
  return failed(axis) ? failure() : assembleHardmax(node, shape, *axis);
}

// Imports Hardmax before opset 13: all axes from `axis` on count as one. [4, 3,
// 5] from axis 1 on has the rows of [4, 15].
static LogicalResult importFlattenedHardmax(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  auto axis = node.normalizeAxis(node.integer("axis", 1), shape.size());
  if (failed(axis))
    return failure();
  int64_t rows = ShapedType::getNumElements(shape.take_front(*axis));
  int64_t columns = ShapedType::getNumElements(shape.drop_front(*axis));
  return assembleHardmax(node, {rows, columns}, 1);
}

//===----------------------------------------------------------------------===//
// One-hot encoding
//===----------------------------------------------------------------------===//

// Returns a value of OneHot, from input 2: `index` 0 is the value of all other
// classes (off), 1 that of the class (on).
static Value readHotValue(NodeImporter &node, int64_t index) {
  std::optional<HostTensor> known = node.constant(2);
  if (known && !node.isState(2))
    return createConstant(
        node, pick(*known, {}, [&](ArrayRef<int64_t>) { return index; }));
  return node.reshape(slice(node, node.operand(2), index, 1), {});
}

// Imports OneHot. A negative index counts from the end. An index outside
// [-depth, depth) names no class.
static LogicalResult importOneHot(NodeImporter &node) {
  SmallVector<int64_t> shape(node.operandShape(0));
  auto axis = node.normalizeAxis(node.integer("axis", -1), shape.size() + 1);
  FailureOr<double> read = node.scalar(1, "the depth");
  if (failed(axis) || failed(read))
    return failure();
  if (!(*read >= 1 && *read <= double(int64_t(1) << 40)))
    return node.invalid("expected a depth from 1 to 2^40, found " +
                        std::to_string(*read));
  if (node.operandShape(2) != ArrayRef<int64_t>(2))
    return node.invalid("expected two values, off and on" + node.found({2}));
  // Along the new axis, each index is compared with 0 to depth - 1.
  auto depth = static_cast<int64_t>(*read);
  shape.insert(shape.begin() + *axis, 1);
  Value index = node.reshape(
      castTo(node, node.operand(0), node.attributes().getI64Type()), shape);
  Value zero = integerConstant(node, {}, 0);
  Value fromEnd = node.emit<AddOp>({index, integerConstant(node, {}, depth)});
  Value named =
      node.emit<SelectOp>({node.emit<LessOp>({index, zero}), fromEnd, index});
  Value isOn =
      node.emit<EqualOp>({named, iota(node, shape.size(), *axis, depth)});
  return node.define(0, node.emit<SelectOp>({isOn, readHotValue(node, 1),
                                             readHotValue(node, 0)}));
}

//===----------------------------------------------------------------------===//
// Sequences
//===----------------------------------------------------------------------===//

// Imports Compress: keeps the elements whose condition holds. A known condition
// determines the shape. A condition that depends on data selects rows
// (importDataCompress).
static LogicalResult importCompress(NodeImporter &node) {
  if (!node.constant(1))
    return importDataCompress(node);
  auto condition = node.integers(1, "the condition");
  if (failed(condition))
    return failure();
  Value x = node.operand(0);
  auto axis = prepareCompress(node, x);
  if (failed(axis))
    return failure();
  // The condition may be shorter than the axis. Elements behind its end are
  // dropped.
  SmallVector<int64_t> chosen;
  for (auto [i, holds] : llvm::enumerate(*condition))
    if (holds)
      chosen.push_back(i);
  int64_t extent = NodeImporter::shapeOf(x)[*axis];
  if (!chosen.empty() && chosen.back() >= extent)
    return node.invalid("the condition chooses element " +
                        Twine(chosen.back()) + " of an axis of " +
                        Twine(extent));
  return node.define(0, take(node, x, *axis, chosen));
}

// Imports ReverseSequence: reverses the first `length` elements of each
// sequence; the others stay.
static LogicalResult importReverseSequence(NodeImporter &node) {
  SmallVector<int64_t> shape(node.operandShape(0));
  int64_t batch = node.integer("batch_axis", 1);
  int64_t time = node.integer("time_axis", 0);
  if (shape.size() < 2 || batch + time != 1 || batch * time != 0)
    return node.invalid(
        "expected attributes 'batch_axis' and 'time_axis' to be 0 and 1, or 1 "
        "and 0, and an input of rank 2 or more, found " +
        Twine(batch) + " and " + Twine(time) + " for " +
        printTensorType(node.operandType(0)));
  if (node.operandShape(1) != ArrayRef<int64_t>(shape[batch]))
    return node.invalid("expected " + Twine(shape[batch]) +
                        " lengths of sequences, one per sample" +
                        node.found({1}));
  if (auto lengths = node.constant(1); lengths && !lengths->isFloat())
    for (int64_t length : lengths->getIntegers())
      if (length < 0 || length > shape[time])
        return node.invalid("expected lengths of sequences from 0 to " +
                            Twine(shape[time]) + ", the size of axis " +
                            Twine(time) + ", found " + Twine(length));
  // Move the batch to the front, so that the gather reads within each sequence.
  SmallVector<int64_t> perm =
      llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
  std::swap(perm[0], perm[batch]);
  Value length = node.reshape(
      castTo(node, node.operand(1), node.attributes().getI64Type()),
      {shape[batch], 1});
  // Element t comes from length - 1 - t if t < length.
  Value place = iota(node, 2, 1, shape[time]);
  Value one = integerConstant(node, {}, 1);
  Value mirrored = node.emit<SubOp>({node.emit<SubOp>({length, one}), place});
  Value from = node.emit<SelectOp>(
      {node.emit<LessOp>({place, length}), mirrored, place});
  markIndices(node, from, shape[time]);
  Value reversed = gather(node, transpose(node, node.operand(0), perm), from,
                          /*axis=*/1, /*batchDims=*/1);
  return node.define(0, transpose(node, reversed, perm));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getPositionOps() {
  static const OpEntry entries[] = {
      {"", "ArgMax", 1, kNoEnd, 1, 1, 1, importArgExtremum<false>},
      {"", "ArgMin", 1, kNoEnd, 1, 1, 1, importArgExtremum<true>},
      {"", "Compress", 9, kNoEnd, 2, 2, 1, importCompress},
      {"", "EyeLike", 9, kNoEnd, 1, 1, 1, importEyeLike},
      {"", "Hardmax", 1, 12, 1, 1, 1, importFlattenedHardmax},
      {"", "Hardmax", 13, kNoEnd, 1, 1, 1, importHardmax},
      {"", "OneHot", 9, kNoEnd, 3, 3, 1, importOneHot},
      {"", "ReverseSequence", 10, kNoEnd, 2, 2, 1, importReverseSequence},
      {"", "Trilu", 14, kNoEnd, 1, 2, 1, importTrilu},
  };
  return entries;
}
