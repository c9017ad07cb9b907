// Imports NonZero of data, and Compress by a condition from data. Their results
// keep all rows, with a copy of the first selected row in each unselected row.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Selection.h"

#include "frontends/ONNX/Importer/Assemble.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// Tells whether two values have equal elements, by comparing the ops that
/// compute them. Exporters compute a mask anew for each use.
class SameElements {
public:
  explicit SameElements(FunctionImporter &function) : function(function) {}

  bool compare(Value a, Value b, int depth = 32);

private:
  Value strip(Value value) const;

  FunctionImporter &function;
  /// Pairs that are already compared, or are being compared, so that no pair is
  /// compared twice.
  DenseSet<std::pair<Value, Value>> seen;
};
} // namespace

// Strips reshapes: returns a value with equal elements in equal order.
Value SameElements::strip(Value value) const {
  while (true) {
    Operation *op = value.getDefiningOp();
    if (Value outer = function.getOuterValue(value))
      value = outer;
    else if (op && (isa<ReshapeOp>(op) ||
                    (isa<ExpandOp>(op) &&
                     op->getOperand(0).getType() == value.getType())))
      value = op->getOperand(0);
    else
      return value;
  }
}

bool SameElements::compare(Value a, Value b, int depth) {
  a = strip(a), b = strip(b);
  if (a == b || !seen.insert({a, b}).second)
    return true;
  Operation *left = a.getDefiningOp(), *right = b.getDefiningOp();
  if (depth == 0 || !left || !right || a.getType() != b.getType() ||
      left->getName() != right->getName() || left->getNumResults() != 1 ||
      right->getNumResults() != 1 || left->getNumRegions() != 0 ||
      !isPure(left) || left->getNumOperands() != right->getNumOperands())
    return false;
  if (left->getPropertiesAsAttribute() != right->getPropertiesAsAttribute())
    return false;
  return llvm::all_of(
      llvm::zip_equal(left->getOperands(), right->getOperands()),
      [&](auto pair) {
        auto [one, other] = pair;
        return one.getType() == other.getType() &&
               compare(one, other, depth - 1);
      });
}

SelectionPtr mpc::onnx_frontend::findSelection(NodeImporter &node, Value mask,
                                               ArrayRef<int64_t> shape,
                                               StringRef source,
                                               const SelectedRows *outer) {
  if (!mask)
    return nullptr;
  assert(NodeImporter::typeOf(mask).getNumElements() ==
             ShapedType::getNumElements(shape) &&
         elementTypeOf(mask).isInteger(1) &&
         "the mask has a boolean for each element of its shape");
  FunctionImporter &function = node.getFunction();
  auto selection = std::make_shared<Selection>();
  selection->source = source.str();
  selection->shape.assign(shape.begin(), shape.end());
  if (outer) {
    selection->outer = outer->selection;
    selection->outerAxis = outer->axis;
  }
  auto &selections = function.getSelections();
  for (const SelectionPtr &known : selections) {
    if (known->outer != selection->outer ||
        !SameElements(function).compare(known->mask, mask))
      continue;
    if (known->shape == selection->shape &&
        known->outerAxis == selection->outerAxis)
      return known;
    // The mask selects the same rows as `known`, but has another shape, so the
    // positions of its elements have other indices.
    selection->mask = known->mask;
    selection->first = known->first;
    selection->any = known->any;
    selections.push_back(selection);
    return selection;
  }
  int64_t rows = ShapedType::getNumElements(shape);
  selection->mask = node.reshape(mask, {rows});
  // Find the smallest selected row number as ~max(~number): the complement
  // reverses the order.
  Value end = integerConstant(node, {}, rows);
  Value numbers =
      node.emit<SelectOp>({selection->mask, iota(node, 1, 0, rows), end});
  Value first = node.emit<NotOp>({reduce<ReduceMaxOp>(
      node, node.emit<NotOp>({numbers}), {0}, /*keepDims=*/false)});
  selection->any = node.emit<LessOp>({first, end});
  selection->first = node.emit<SelectOp>(
      {selection->any, first, integerConstant(node, {}, 0)});
  if (!selection->first)
    return nullptr;
  selections.push_back(selection);
  return selection;
}

bool mpc::onnx_frontend::hasRowNumbers(const SelectedRows &rows) {
  assert(rows.selection && "selected rows have a selection");
  const Selection &selection = *rows.selection;
  return rows.places && llvm::any_of(*rows.places, [&](int64_t place) {
           return place == kRowNumber ||
                  (selection.outer && place == selection.outerAxis);
         });
}

void mpc::onnx_frontend::selectOutput(
    NodeImporter &node, unsigned output, SelectionPtr selection, int64_t axis,
    std::optional<SmallVector<int64_t>> places) {
  if (!node.hasOutput(output))
    return;
  assert(selection && axis >= 0 && "rows lie along an axis");
  FunctionImporter &function = node.getFunction();
  StringRef name = node.getOutputName(output);
  ImportedValue &value = function.lookup(name);
  // Forget the constant elements: the data decides which of the rows are
  // selected.
  [[maybe_unused]] Value rows = function.materialize(name, "");
  assert((!rows ||
          (size_t(axis) < NodeImporter::shapeOf(rows).size() &&
           NodeImporter::shapeOf(rows)[axis] == selection->getNumRows())) &&
         "the value keeps all rows");
  value.constant.reset();
  value.selected = SelectedRows{std::move(selection), axis, std::move(places)};
}

ArrayRef<int64_t> mpc::onnx_frontend::getOutputShape(NodeImporter &node) {
  FunctionImporter &function = node.getFunction();
  StringRef name = node.getOutputName(0);
  Value value = function.materialize(name, "");
  return value ? NodeImporter::shapeOf(value) : ArrayRef<int64_t>();
}

std::string mpc::onnx_frontend::getSourceName(const SelectedRows &rows) {
  return rows.selection->source;
}

Value mpc::onnx_frontend::maskAlong(NodeImporter &node,
                                    const Selection &selection, int64_t rank,
                                    int64_t axis) {
  assert(axis >= 0 && axis < rank && "an axis of the tensor");
  SmallVector<int64_t> shape(rank, 1);
  shape[axis] = selection.getNumRows();
  return node.reshape(selection.mask, shape);
}

Value mpc::onnx_frontend::countRows(NodeImporter &node,
                                    const Selection &selection) {
  Value ones = castTo(node, selection.mask, node.attributes().getI64Type());
  return ones ? reduce<ReduceSumOp>(node, ones, {0}, /*keepDims=*/false)
              : Value();
}

Value mpc::onnx_frontend::fillRows(NodeImporter &node,
                                   const Selection &selection, int64_t axis,
                                   Value value, double number) {
  if (!value)
    return {};
  int64_t rank = NodeImporter::shapeOf(value).size();
  return node.emit<SelectOp>(
      {maskAlong(node, selection, rank, axis), value,
       numberConstant(node, number, elementTypeOf(value))});
}

Value mpc::onnx_frontend::selectRows(NodeImporter &node,
                                     const Selection &selection, int64_t axis,
                                     Value value) {
  if (!value)
    return {};
  int64_t rank = NodeImporter::shapeOf(value).size();
  Value row = gather(node, value, node.reshape(selection.first, {1}), axis);
  if (!row)
    return {};
  Type element = elementTypeOf(value);
  if (isa<FloatType>(element))
    row = node.emit<StopGradientOp>({row}, {}, NodeImporter::typeOf(row));
  double number = isa<FloatType>(element) ? 1 : 0;
  row = node.emit<SelectOp>(
      {selection.any, row, numberConstant(node, number, element)});
  return node.emit<SelectOp>(
      {maskAlong(node, selection, rank, axis), value, row});
}

LogicalResult mpc::onnx_frontend::defineNonZero(NodeImporter &node,
                                                const SelectedRows *outer) {
  Value x = node.operand(0);
  SmallVector<int64_t> shape(node.operandShape(0));
  int64_t rows = ShapedType::getNumElements(shape), rank = shape.size();
  if (!x || rank == 0 || rows == 0 || !canList(node, rows * rank))
    return node.unsupported(
        "expected a mask with at least one axis and one element" +
        node.found({0}));
  Value mask = x;
  if (!elementTypeOf(x).isInteger(1))
    mask = node.emit<NotOp>(
        {node.emit<EqualOp>({x, numberConstant(node, 0, elementTypeOf(x))})});
  if (outer)
    mask = node.emit<AndOp>(
        {mask, maskAlong(node, *outer->selection, rank, outer->axis)});
  if (!mask)
    return failure();
  SelectionPtr selection =
      findSelection(node, mask, shape, node.getInputName(0), outer);
  if (!selection)
    return failure();
  // List the positions of all elements, one per column.
  SmallVector<int64_t> places(rank * rows);
  int64_t inner = rows;
  for (int64_t axis = 0; axis < rank; ++axis) {
    inner /= shape[axis];
    for (int64_t row = 0; row < rows; ++row)
      places[axis * rows + row] = row / inner % shape[axis];
  }
  Value all = integerConstant(node, {rank, rows}, places);
  if (failed(node.define(0, selectRows(node, *selection, 1, all))))
    return failure();
  selectOutput(node, 0, selection, 1,
               llvm::to_vector(llvm::seq<int64_t>(0, rank)));
  return success();
}

LogicalResult mpc::onnx_frontend::importNonZero(NodeImporter &node) {
  return defineNonZero(node, nullptr);
}

FailureOr<int64_t> mpc::onnx_frontend::prepareCompress(NodeImporter &node,
                                                       Value &x) {
  if (!x)
    return failure();
  if (node.hasAttribute("axis"))
    return node.normalizeAxis(node.integer("axis", 0),
                              node.operandShape(0).size());
  x = node.reshape(x, {node.operandType(0).getNumElements()});
  if (!x)
    return failure();
  return 0;
}

LogicalResult mpc::onnx_frontend::importDataCompress(NodeImporter &node) {
  Value x = node.operand(0), mask = node.operand(1);
  if (!x || !mask)
    return failure();
  auto axis = prepareCompress(node, x);
  if (failed(axis))
    return failure();
  ArrayRef<int64_t> shape = node.operandShape(1);
  int64_t extent = NodeImporter::shapeOf(x)[*axis];
  if (!elementTypeOf(mask).isInteger(1) || shape.size() != 1 ||
      shape[0] > extent)
    return node.invalid("expected a boolean for each of at most " +
                        Twine(extent) + " elements as condition" +
                        node.found({1}));
  // Elements behind the end of the condition are not selected.
  if (shape[0] < extent)
    mask = concatenate(
        node,
        {mask, expand(node, numberConstant(node, 0, elementTypeOf(mask)),
                      {extent - shape[0]})},
        0);
  SelectionPtr selection =
      findSelection(node, mask, {extent}, node.getInputName(1));
  if (!selection ||
      failed(node.define(0, selectRows(node, *selection, *axis, x))))
    return failure();
  selectOutput(node, 0, selection, *axis);
  return success();
}
