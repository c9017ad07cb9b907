// Imports ops that index selected rows, or that use selected rows as indices
// (SelectedNode.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Ops/Tensor/SelectedNode.h"

#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

// True if a column of `indices` holds row numbers of the selection `rows`.
// `place` describes the column: the axis of the mask that it indexes, or
// kRowNumber.
static bool isNumberOf(const SelectedRows &indices, int64_t place,
                       const SelectionPtr &rows) {
  const Selection &selection = *indices.selection;
  if (place == kRowNumber)
    return selectSame(indices.selection, rows);
  return selection.outer && place == selection.outerAxis &&
         selectSame(selection.outer, rows);
}

/// True if `indices` are the positions that NonZero found in a mask, and the
/// first axes of input `data` have the mask's shape. Then the indices select
/// the data's own rows. If the mask itself has selected rows, `data` must have
/// the same selected rows.
bool SelectedNode::areOwnPlaces(const SelectedRows &indices, unsigned data) {
  const Selection &selection = *indices.selection;
  const SelectedRows *rows = find(data);
  ArrayRef<int64_t> extents = node.operandShape(data), shape = selection.shape;
  if (selection.outer
          ? !rows || !selectSame(rows->selection, selection.outer) ||
                rows->axis != selection.outerAxis
          : rows != nullptr)
    return false;
  return indices.places && indices.axis == 0 &&
         llvm::equal(*indices.places, llvm::seq<int64_t>(0, shape.size())) &&
         extents.size() >= shape.size() &&
         extents.take_front(shape.size()) == shape;
}

// Merges the first axes of `value`, those of the mask, into one axis of rows.
static Value asRows(NodeImporter &node, Value value,
                    const Selection &selection) {
  if (!value)
    return {};
  SmallVector<int64_t> shape = {selection.getNumRows()};
  llvm::append_range(
      shape, NodeImporter::shapeOf(value).drop_front(selection.shape.size()));
  return node.reshape(value, shape);
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

LogicalResult SelectedNode::importGather() {
  auto along = node.normalizeAxis(node.integer("axis", 0), rankOf(0));
  if (failed(along))
    return failure();
  const SelectedRows *data = find(0), *index = find(1);
  if (!index) {
    SelectedRows rows = *data;
    if (*along == rows.axis)
      return refuse("and this op reads some of them");
    int64_t shift = *along < rows.axis ? rankOf(1) - 1 : 0;
    // If the indices are positions and the node takes one column, keep track of
    // the axis that the column indexes.
    Places places;
    std::optional<HostTensor> column = node.constant(1);
    if (rows.places && rankOf(0) == 2 && column && !column->isFloat() &&
        column->getNumElements() == 1) {
      int64_t size = rows.places->size(), number = column->getInteger(0);
      number += number < 0 ? size : 0;
      if (number >= 0 && number < size)
        places = SmallVector<int64_t>{(*rows.places)[number]};
    }
    if (hasNumbers() && !places)
      return refuse("and holds their numbers among those rows");
    return build(rows.axis + shift, places);
  }
  SelectedRows rows = *index;
  const Selection &selection = *rows.selection;
  const bool isColumn =
      rows.places && rows.places->size() == 1 && rankOf(1) == 1;
  // The index in each selected row is the row's own number. So each row reads
  // itself, and the data stays unchanged.
  if (data && isColumn && rows.places->front() == kRowNumber &&
      selectSame(data->selection, rows.selection) && *along == data->axis) {
    SelectedRows own = *data;
    if (failed(node.define(0, node.operand(0))))
      return failure();
    select(0, own.selection, own.axis, own.places);
    return success();
  }
  // The indices are the numbers of the rows that the mask selects, so the
  // result is the data with these rows selected.
  const bool isOfData =
      selection.outer ? data && selectSame(data->selection, selection.outer) &&
                            data->axis == *along
                      : !data;
  if (isOfData && isColumn && rows.places->front() == 0 &&
      selection.shape.size() == 1 &&
      node.operandShape(0)[*along] == selection.getNumRows()) {
    if (failed(node.define(
            0, selectRows(node, selection, *along, node.operand(0)))))
      return failure();
    select(0, rows.selection, *along);
    return success();
  }
  if (data || hasRowNumbers(rows))
    return refuse("and so has another input");
  return build(*along + rows.axis);
}

LogicalResult SelectedNode::importGatherND() {
  if (node.integer("batch_dims", 0) != 0)
    return refuse("and there are batches");
  const SelectedRows *data = find(0), *index = find(1);
  const int64_t depth = node.operandShape(1).back();
  if (!index) {
    // Only the data has selected rows: the indices read the same elements of
    // each row.
    if (data->axis < depth || hasNumbers())
      return refuse("and this op reads some of them");
    return build(data->axis - depth + rankOf(1) - 1);
  }
  SelectedRows rows = *index;
  if (rows.axis == rankOf(1) - 1)
    return refuse("and this op takes them for places");
  if (rankOf(1) == 2 && areOwnPlaces(rows, 0)) {
    Value all = asRows(node, node.operand(0), *rows.selection);
    if (failed(node.define(0, selectRows(node, *rows.selection, 0, all))))
      return failure();
    select(0, rows.selection, 0);
    return success();
  }
  // Row numbers count only selected rows. They may index only an axis of
  // selected rows, and such an axis needs row numbers.
  SmallVector<int64_t> places(depth, kNoPlace);
  if (rows.places && static_cast<int64_t>(rows.places->size()) == depth)
    places = *rows.places;
  else if (hasRowNumbers(rows))
    return refuse("and holds their numbers among those rows");
  for (auto [axis, place] : llvm::enumerate(places)) {
    bool isOfRows = data && data->axis == static_cast<int64_t>(axis);
    bool isNumber = place == kRowNumber || (rows.selection->outer &&
                                            place == rows.selection->outerAxis);
    if (isOfRows ? !isNumberOf(rows, place, data->selection) : isNumber)
      return refuse("and so has another input");
  }
  if (data && data->axis >= depth)
    return refuse("and so has another input");
  if (failed(entry.build(node)))
    return failure();
  select(0, rows.selection, rows.axis);
  return success();
}

LogicalResult SelectedNode::importGatherElements() {
  FailureOr<SelectedRows> rows = findOnly();
  auto along = node.normalizeAxis(node.integer("axis", 0), rankOf(0));
  if (failed(rows) || failed(along))
    return failure();
  if (!find(0) || !find(1) || find(0)->axis != find(1)->axis ||
      *along == rows->axis)
    return refuse("and this op reads across them");
  return build(rows->axis);
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

/// Imports a scatter at the positions of the mask's own elements: each selected
/// row is written, or added, to its own place in the data.
LogicalResult SelectedNode::scatterOwn(bool adds) {
  SelectedRows rows = *find(1);
  std::optional<SelectedRows> data;
  if (const SelectedRows *found = find(0))
    data = *found;
  const Selection &selection = *rows.selection;
  SmallVector<int64_t> whole(node.operandShape(0));
  Value all = asRows(node, node.operand(0), selection), added = node.operand(2);
  if (adds)
    added = fillRows(node, selection, 0, added, 0);
  if (!added || !all ||
      NodeImporter::typeOf(added) != NodeImporter::typeOf(all))
    return node.invalid("expected updates of the shape of the selected data" +
                        node.found({0, 2}));
  int64_t rank = NodeImporter::shapeOf(all).size();
  Value result = adds ? node.emit<AddOp>({all, added})
                      : node.emit<SelectOp>(
                            {maskAlong(node, selection, rank, 0), added, all});
  if (!result || failed(node.define(0, node.reshape(result, whole))))
    return failure();
  // The data may itself have selected rows, which stay selected.
  return data ? reselect(*data, data->axis) : success();
}

/// Imports a scatter of selected rows to computed positions. An unselected row
/// is a copy of the first, so it writes the first row's values again, which is
/// harmless. If no row is selected, the data stays unchanged.
LogicalResult SelectedNode::scatter(bool adds) {
  const SelectedRows *indices = find(1), *updates = find(2);
  if (find(0) || hasNumbers() || indices->axis != updates->axis)
    return refuse("and this op scatters them among others of them");
  SelectionPtr selection = indices->selection;
  Value data = node.operand(0), added = node.operand(2);
  if (adds)
    added = fillRows(node, *selection, updates->axis, added, 0);
  if (failed(buildWith(2, added)))
    return failure();
  Value result = node.getFunction().lookup(node.getOutputName(0)).value;
  return node.define(0, node.emit<SelectOp>({selection->any, result, data}));
}

LogicalResult SelectedNode::importScatterND() {
  const SelectedRows *indices = find(1), *updates = find(2);
  std::string reduction = node.string("reduction", "none");
  if (!indices || !updates ||
      !selectSame(indices->selection, updates->selection) ||
      (reduction != "none" && reduction != "add") ||
      indices->axis == rankOf(1) - 1)
    return refuse("and this op scatters them, or others, otherwise than by "
                  "replacing or adding rows");
  bool isOwn =
      rankOf(1) == 2 && updates->axis == 0 && areOwnPlaces(*indices, 0);
  return isOwn ? scatterOwn(reduction == "add") : scatter(reduction == "add");
}

LogicalResult SelectedNode::importScatterElements() {
  const SelectedRows *indices = find(1), *updates = find(2);
  std::string reduction = node.string("reduction", "none");
  if (!indices || !updates ||
      !selectSame(indices->selection, updates->selection) ||
      (reduction != "none" && reduction != "add"))
    return refuse("and this op scatters them, or others, otherwise than by "
                  "replacing or adding rows");
  return scatter(reduction == "add");
}
