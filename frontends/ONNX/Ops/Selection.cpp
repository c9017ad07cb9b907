// NonZero of data, and how rows that it selects are held: one that is not
// selected is a copy of the first that is.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Selection.h"

#include "frontends/ONNX/Ops/Assemble.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// True if both hold the same elements in the same order, by what they are
// computed from: exporters write a mask anew wherever it is used.
static bool haveSameElements(Value a, Value b, int depth = 32) {
  auto strip = [](Value value) {
    while (auto op = value.getDefiningOp<ReshapeOp>())
      value = op->getOperand(0);
    return value;
  };
  a = strip(a), b = strip(b);
  if (a == b)
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
               haveSameElements(one, other, depth - 1);
      });
}

SelectionPtr mpc::onnx_frontend::findSelection(NodeImporter &node, Value mask,
                                               ArrayRef<int64_t> shape,
                                               StringRef source) {
  auto &selections = node.getFunction().selections;
  for (const SelectionPtr &known : selections)
    if (haveSameElements(known->mask, mask) &&
        ArrayRef<int64_t>(known->shape) == shape)
      return known;
  auto selection = std::make_shared<Selection>();
  int64_t rows = ShapedType::getNumElements(shape);
  selection->source = source.str();
  selection->shape.assign(shape.begin(), shape.end());
  selection->mask = node.reshape(mask, {rows});
  // The smallest number of a row that is selected; the complement turns the
  // order round.
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

std::string mpc::onnx_frontend::getSourceName(const SelectedRows &rows) {
  return rows.selection->source;
}

Value mpc::onnx_frontend::maskAlong(NodeImporter &node,
                                    const Selection &selection, int64_t rank,
                                    int64_t axis) {
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

LogicalResult mpc::onnx_frontend::importNonZero(NodeImporter &node) {
  Value x = node.operand(0);
  SmallVector<int64_t> shape(node.operandShape(0));
  int64_t rows = ShapedType::getNumElements(shape), rank = shape.size();
  if (!x || rank == 0 || rows == 0 || !canList(node, rows * rank))
    return node.unsupported("expected a mask of data with axes and elements");
  Value mask = x;
  if (!elementTypeOf(x).isInteger(1))
    mask = node.emit<NotOp>(
        {node.emit<EqualOp>({x, numberConstant(node, 0, elementTypeOf(x))})});
  if (!mask)
    return failure();
  SelectionPtr selection =
      findSelection(node, mask, shape, node.getInputName(0));
  if (!selection)
    return failure();
  // The places of all elements, a column each.
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
  node.getFunction().lookup(node.getOutputName(0)).selected =
      SelectedRows{selection, 1, llvm::to_vector(llvm::seq<int64_t>(0, rank))};
  return success();
}
