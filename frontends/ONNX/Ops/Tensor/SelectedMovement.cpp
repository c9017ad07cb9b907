// Imports ops that move selected rows as a whole (SelectedNode.h).
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/ShapeArguments.h"
#include "frontends/ONNX/Ops/Tensor/SelectedNode.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

/// Imports Transpose and Split of a tensor with selected rows.
LogicalResult SelectedNode::importMoved() {
  if (!isAlone(0))
    return refuse("and says what is moved");
  SelectedRows rows = *find(0);
  if (node.getOpType() == "Transpose") {
    auto order = readPermutation(node);
    if (failed(order))
      return failure();
    return build(llvm::find(*order, rows.axis) - order->begin(), rows.places);
  }
  FailureOr<SplitParts> parts = readSplitParts(node);
  if (failed(parts))
    return failure();
  if (parts->axis == rows.axis)
    return refuse("and this op parts them");
  if (failed(build(rows.axis)))
    return failure();
  // If the rows are positions, each output is a single column of them. Keep
  // track of the axis that each column indexes.
  if (rows.places && rankOf(0) == 2 &&
      llvm::all_of(parts->lengths, [](int64_t each) { return each == 1; }))
    for (auto [i, axis] : llvm::enumerate(*rows.places))
      select(i, rows.selection, rows.axis, SmallVector<int64_t>{axis});
  return success();
}

/// Imports Reshape, Squeeze, Unsqueeze and Flatten. One axis of the result must
/// count the rows, alone or with the elements of each row.
LogicalResult SelectedNode::importReshaped() {
  if (!isAlone(0))
    return refuse("and says a shape");
  SelectedRows rows = *find(0);
  SmallVector<int64_t> before(node.operandShape(0));
  int64_t count = rows.selection->getNumRows();
  KnownCounts known(node, 1);
  if (failed(entry.build(node)))
    return failure();
  Value result = node.getFunction().lookup(node.getOutputName(0)).value;
  if (!result)
    return failure();
  ArrayRef<int64_t> after = NodeImporter::shapeOf(result), all = before;
  int64_t outer = ShapedType::getNumElements(all.take_front(rows.axis));
  int64_t passed = 1;
  for (auto [axis, extent] : llvm::enumerate(after)) {
    if (passed == outer && extent == count && count > 1) {
      select(0, rows.selection, axis, rows.places);
      return success();
    }
    // The reshape may merge the axis of the rows with the axes of elements
    // behind. Then each selected row becomes several selected elements.
    int64_t inner = ShapedType::getNumElements(all.drop_front(rows.axis + 1));
    if (passed == outer && extent == count * inner && count > 1) {
      ArrayRef<int64_t> each = all.drop_front(rows.axis + 1);
      SmallVector<int64_t> shape = rows.selection->shape, column = shape;
      shape.append(each.begin(), each.end());
      column.append(each.size(), 1);
      Value mask =
          expand(node, node.reshape(rows.selection->mask, column), shape);
      SelectionPtr whole =
          mask ? findSelection(node, mask, shape, rows.selection->source)
               : nullptr;
      if (!whole)
        return failure();
      // Along the merged axis, an unselected element must be a copy of the
      // first selected element. So far, it is a copy of an element of the first
      // row.
      if (failed(node.define(0, selectRows(node, *whole, axis, result))))
        return failure();
      select(0, whole, axis);
      return success();
    }
    passed *= extent;
  }
  return refuse("and this op takes them apart");
}

/// Imports Slice. Along the axis of the rows, the slice must take all selected
/// rows.
LogicalResult SelectedNode::importSlice() {
  if (!isAlone(0))
    return refuse("and says what is cut");
  SelectedRows rows = *find(0);
  auto counts = findCounts(node, 2);
  SelectionPtr counted = counts ? findCounted(node, *counts) : nullptr;
  if (counts && (!selectSame(counted, rows.selection) ||
                 counts->elements.getNumElements() != 1))
    return refuse("and this op cuts them");
  KnownCounts known(node, 2);
  auto ranges = readSliceRanges(node);
  if (failed(ranges))
    return failure();
  std::optional<SmallVector<int64_t>> places = rows.places;
  for (const SliceRange &range : *ranges) {
    if (range.axis == rows.axis
            ? range.offset != 0 || range.step != 1 ||
                  range.count != rows.selection->getNumRows()
            : counts != nullptr)
      return refuse("and this op cuts them");
    if (range.axis == rows.axis || !places)
      continue;
    SmallVector<int64_t> kept;
    for (int64_t i = 0; i < range.count && rankOf(0) == 2; ++i)
      kept.push_back((*places)[range.offset + i * range.step]);
    places = rankOf(0) == 2 ? std::optional(kept) : std::nullopt;
  }
  return build(rows.axis, places);
}

/// Imports Expand. The number of rows must stay; along other axes each row may
/// grow.
LogicalResult SelectedNode::importExpand() {
  if (!isAlone(0))
    return refuse("and says a shape");
  SelectedRows rows = *find(0);
  int64_t fromEnd = rankOf(0) - rows.axis;
  auto finish = [&]() -> LogicalResult {
    auto type = node.operandType(0);
    if (failed(entry.build(node)))
      return failure();
    ArrayRef<int64_t> shape = getOutputShape(node);
    select(0, rows.selection, shape.size() - fromEnd,
           shape == type.getShape() ? rows.places : std::nullopt);
    return success();
  };
  if (auto counts = findCounts(node, 1)) {
    std::optional<int64_t> place = findCountFromEnd(*counts);
    if (!place || *place != fromEnd ||
        !selectSame(findCounted(node, *counts), rows.selection))
      return refuse("and this op repeats them");
    KnownCounts known(node, 1);
    return finish();
  }
  std::optional<HostTensor> shape = node.constant(1);
  if (shape && !shape->isFloat()) {
    SmallVector<int64_t> extents = shape->getIntegers();
    int64_t rank = extents.size();
    if (rank >= fromEnd && extents[rank - fromEnd] != 1)
      return refuse("and this op repeats them");
    return finish();
  }
  // The requested shape is unknown. Expand keeps every extent other than 1, so
  // nothing changes if only the axis of the rows may have extent 1.
  bool changesNothing = node.operandShape(1)[0] <= rankOf(0);
  for (auto [axis, extent] : llvm::enumerate(node.operandShape(0)))
    changesNothing &= static_cast<int64_t>(axis) == rows.axis || extent != 1;
  if (!changesNothing || failed(node.define(0, node.operand(0))))
    return refuse("and this op repeats them");
  select(0, rows.selection, rows.axis, rows.places);
  return success();
}

/// Imports Concat along the axis of the rows. The result has selected rows,
/// whose mask is the concatenation of the inputs' masks. All rows of an input
/// without a mask are selected.
LogicalResult SelectedNode::joinRows(int64_t axis) {
  SmallVector<Value> masks;
  std::string source;
  Type boolean = node.attributes().getI1Type();
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    const SelectedRows *rows = find(i);
    if (rows && rows->axis != axis)
      return refuse("and this op joins them with others");
    if (rows && source.empty())
      source = getSourceName(*rows);
    masks.push_back(rows ? rows->selection->mask
                         : expand(node, numberConstant(node, 1, boolean),
                                  {node.operandShape(i)[axis]}));
  }
  Value mask = concatenate(node, masks, 0);
  if (!mask || failed(entry.build(node)))
    return failure();
  SelectionPtr whole =
      findSelection(node, mask, NodeImporter::shapeOf(mask), source);
  return whole ? reselect(SelectedRows{whole, axis, std::nullopt}, axis)
               : failure();
}

LogicalResult SelectedNode::importConcat() {
  FailureOr<int64_t> along = readConcatAxis(node);
  if (failed(along))
    return failure();
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (const SelectedRows *rows = find(i);
        rows && rows->axis == *along && !hasNumbers())
      return joinRows(*along);
  FailureOr<SelectedRows> rows = findOnly();
  if (failed(rows))
    return failure();
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (!find(i) || find(i)->axis != rows->axis || *along == rows->axis)
      return refuse("and this op joins them with others");
  // If the inputs are columns of positions or row numbers, keep track of the
  // axis that each column of the result indexes.
  Places places = SmallVector<int64_t>();
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (const auto &own = find(i)->places; own && places && rankOf(i) == 2)
      llvm::append_range(*places, *own);
    else if (hasNumbers() && places && rankOf(i) == 2)
      places->append(node.operandShape(i)[*along], kNoPlace);
    else
      places = std::nullopt;
  return build(rows->axis, places);
}
