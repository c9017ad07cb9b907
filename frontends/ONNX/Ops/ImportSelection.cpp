// Nodes that read the rows that a mask of the data selects.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Selection.h"

#include "frontends/ONNX/Ops/Assemble.h"
#include "frontends/ONNX/Ops/ShapeArguments.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringSwitch.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Readers of selected rows
//===----------------------------------------------------------------------===//

namespace {
/// One node of which some inputs have selected rows.
class SelectedNode {
public:
  SelectedNode(NodeImporter &node, const OpEntry &entry)
      : node(node), entry(entry) {}

  LogicalResult import();

private:
  const SelectedRows *find(unsigned index) {
    if (!node.hasInput(index))
      return nullptr;
    auto &rows = node.getFunction().lookup(node.getInputName(index)).selected;
    return rows ? &*rows : nullptr;
  }
  int64_t rankOf(unsigned index) { return node.operandShape(index).size(); }
  LogicalResult refuse(const Twine &why) {
    node.getFunction().readsSelected = false;
    for (unsigned i = 0; i < node.getNumInputs(); ++i)
      if (const SelectedRows *rows = find(i)) {
        node.demand(i);
        return node.unsupported("'" + node.getInputName(i) +
                                "' has as many rows as the data in '" +
                                getSourceName(*rows) + "' selects, " + why);
      }
    return failure();
  }
  LogicalResult
  build(int64_t axis,
        std::optional<SmallVector<int64_t>> places = std::nullopt);
  LogicalResult buildWith(unsigned index, Value value);
  void select(unsigned output, SelectionPtr selection, int64_t axis,
              std::optional<SmallVector<int64_t>> places = std::nullopt);
  FailureOr<SelectedRows> findOnly();
  bool isAlone(unsigned index);

  LogicalResult importElementwise();
  LogicalResult importAlongAxis();
  LogicalResult importReduction();
  LogicalResult importMoved();
  LogicalResult importReshaped();
  LogicalResult importSlice();
  LogicalResult importExpand();
  LogicalResult importConcat();
  LogicalResult importProduct();
  LogicalResult importGather();
  LogicalResult importGatherND();
  LogicalResult importGatherElements();
  LogicalResult importScatterND();
  LogicalResult importLoss();
  LogicalResult importShape();

  NodeImporter &node;
  const OpEntry &entry;
};
} // namespace

/// Notes that an output has selected rows.
void SelectedNode::select(unsigned output, SelectionPtr selection, int64_t axis,
                          std::optional<SmallVector<int64_t>> places) {
  if (node.hasOutput(output))
    node.getFunction().lookup(node.getOutputName(output)).selected =
        SelectedRows{std::move(selection), axis, std::move(places)};
}

/// The selection of all inputs that have one; refused where they differ.
FailureOr<SelectedRows> SelectedNode::findOnly() {
  const SelectedRows *first = nullptr;
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    const SelectedRows *rows = find(i);
    if (rows && first && rows->selection != first->selection)
      return refuse("another input rows of another selection");
    first = first ? first : rows;
  }
  return *first;
}

/// True if no other input has selected rows.
bool SelectedNode::isAlone(unsigned index) {
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (i != index && find(i))
      return false;
  return find(index);
}

/// Builds the node as it is; its outputs have the rows along `axis`.
LogicalResult SelectedNode::build(int64_t axis,
                                  std::optional<SmallVector<int64_t>> places) {
  FailureOr<SelectedRows> rows = findOnly();
  if (failed(rows) || failed(entry.build(node)))
    return failure();
  for (int i = 0; i < node.getNode().output_size(); ++i)
    select(i, rows->selection, axis, places);
  return success();
}

/// Builds the node with another value for an input.
LogicalResult SelectedNode::buildWith(unsigned index, Value value) {
  if (!value)
    return failure();
  ImportedValue &input = node.getFunction().lookup(node.getInputName(index));
  ImportedValue saved = input;
  input = {};
  input.value = value;
  llvm::scope_exit restore([&] { input = std::move(saved); });
  return entry.build(node);
}

/// Each element of the result is of elements at its place.
LogicalResult SelectedNode::importElementwise() {
  FailureOr<SelectedRows> rows = findOnly();
  if (failed(rows))
    return failure();
  // The axis, counted from the last one as broadcasting does.
  int64_t rank = 0, fromEnd = -1;
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (node.hasInput(i))
      rank = std::max(rank, rankOf(i));
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (const SelectedRows *own = find(i)) {
      int64_t place = rankOf(i) - own->axis;
      if (fromEnd >= 0 && place != fromEnd)
        return refuse("along another axis than those of another input");
      fromEnd = place;
    }
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (node.hasInput(i) && !find(i) && rankOf(i) >= fromEnd &&
        node.operandShape(i)[rankOf(i) - fromEnd] != 1)
      return refuse("and meets all rows of '" + node.getInputName(i) + "'");
  bool keepsPlaces = node.getOpType() == "Cast" ||
                     node.getOpType() == "Identity" ||
                     (node.getOpType() == "Max" && node.getNumInputs() == 1);
  return build(rank - fromEnd, keepsPlaces ? rows->places : std::nullopt);
}

/// Ops along one axis, each row by itself.
LogicalResult SelectedNode::importAlongAxis() {
  const SelectedRows *rows = find(0);
  if (!rows || !isAlone(0))
    return refuse("beside other inputs that belong to them");
  auto axis = node.normalizeAxis(node.integer("axis", -1), rankOf(0));
  if (failed(axis))
    return failure();
  bool isCoerced =
      node.getOpset() < 13 && node.getOpType() != "LayerNormalization";
  if (isCoerced)
    axis = node.normalizeAxis(node.integer("axis", 1), rankOf(0));
  if (failed(axis))
    return failure();
  bool isApart =
      *axis > rows->axis || (*axis < rows->axis && !isCoerced &&
                             node.getOpType() != "LayerNormalization");
  return isApart ? build(rows->axis)
                 : refuse("and this op computes across them");
}

/// The number that stands in a reduction for rows that are not selected;
/// nothing if it does not matter, as they are copies.
static std::optional<double> getNeutral(StringRef op, Type element) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (op == "ReduceProd")
    return 1;
  if (op == "ReduceLogSumExp")
    return -infinity;
  if (op == "ReduceMax" || op == "ReduceMin")
    return isa<FloatType>(element)
               ? std::optional(op == "ReduceMax" ? -infinity : infinity)
               : std::nullopt;
  return 0;
}

LogicalResult SelectedNode::importReduction() {
  const SelectedRows *found = find(0);
  if (!found || !isAlone(0))
    return refuse("beside other inputs that belong to them");
  SelectedRows rows = *found;
  FailureOr<Reduction> reduction = readReduction(node);
  if (failed(reduction))
    return failure();
  if (reduction->isIdentity)
    return build(rows.axis);
  if (!llvm::is_contained(reduction->axes, rows.axis)) {
    int64_t before = llvm::count_if(
        reduction->axes, [&](int64_t axis) { return axis < rows.axis; });
    return build(reduction->keepDims ? rows.axis : rows.axis - before);
  }
  // Across rows: those that are not selected change nothing.
  StringRef op = node.getOpType();
  Type element = node.operandType(0).getElementType();
  if (op == "ReduceMean" && !isa<FloatType>(element))
    return refuse("and the mean is of integers");
  Value x = node.operand(0);
  if (std::optional<double> neutral = getNeutral(op, element))
    x = fillRows(node, *rows.selection, rows.axis, x, *neutral);
  if (failed(buildWith(0, x)))
    return failure();
  if (op != "ReduceMean")
    return success();
  // The mean of all rows, as often as there are more than are selected.
  Value mean = node.getFunction().lookup(node.getOutputName(0)).value;
  Type wide = element.isF64() ? element : Type(node.attributes().getF32Type());
  Value count = castTo(node, countRows(node, *rows.selection), wide);
  Value ratio = node.emit<DivOp>(
      {numberConstant(node, rows.selection->getNumRows(), wide), count});
  return node.define(
      0, castTo(node, node.emit<MulOp>({castTo(node, mean, wide), ratio}),
                element));
}

/// Transpose and Split.
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
  // Columns of places.
  if (rows.places && rankOf(0) == 2 &&
      llvm::all_of(parts->lengths, [](int64_t each) { return each == 1; }))
    for (auto [i, axis] : llvm::enumerate(*rows.places))
      select(i, rows.selection, rows.axis, SmallVector<int64_t>{axis});
  return success();
}

/// Reshape, Squeeze, Unsqueeze and Flatten, where the rows stay whole.
LogicalResult SelectedNode::importReshaped() {
  if (!isAlone(0))
    return refuse("and says a shape");
  SelectedRows rows = *find(0);
  SmallVector<int64_t> before(node.operandShape(0));
  int64_t count = rows.selection->getNumRows();
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
    // Rows of several elements, one behind the other.
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
      // Copies of a row are no copies of its first element.
      if (failed(node.define(0, selectRows(node, *whole, axis, result))))
        return failure();
      select(0, whole, axis);
      return success();
    }
    passed *= extent;
  }
  return refuse("and this op takes them apart");
}

LogicalResult SelectedNode::importSlice() {
  if (!isAlone(0))
    return refuse("and says what is cut");
  SelectedRows rows = *find(0);
  // Up to the number of rows: all of them.
  ImportedValue *ends = node.hasInput(2)
                            ? &node.getFunction().lookup(node.getInputName(2))
                            : nullptr;
  if (ends && ends->countOf && !ends->constant) {
    auto starts = node.integers(1, "starts");
    auto axes = node.hasInput(3)
                    ? node.integers(3, "axes")
                    : FailureOr<SmallVector<int64_t>>(SmallVector<int64_t>{0});
    auto steps = node.hasInput(4)
                     ? node.integers(4, "steps")
                     : FailureOr<SmallVector<int64_t>>(SmallVector<int64_t>{1});
    if (failed(starts) || failed(axes) || failed(steps))
      return failure();
    bool isAll = *starts == SmallVector<int64_t>{0} && axes->size() == 1 &&
                 *steps == SmallVector<int64_t>{1} &&
                 (axes->front() == rows.axis ||
                  axes->front() + rankOf(0) == rows.axis) &&
                 ends->countOf == rows.selection;
    if (!isAll || failed(node.define(0, node.operand(0))))
      return refuse("and this op cuts them");
    select(0, rows.selection, rows.axis, rows.places);
    return success();
  }
  auto ranges = readSliceRanges(node);
  if (failed(ranges))
    return failure();
  std::optional<SmallVector<int64_t>> places = rows.places;
  for (const SliceRange &range : *ranges) {
    if (range.axis == rows.axis &&
        (range.offset != 0 || range.step != 1 ||
         range.count != rows.selection->getNumRows()))
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

/// Rows that are made as many as they are.
LogicalResult SelectedNode::importExpand() {
  if (!isAlone(0))
    return refuse("and says a shape");
  SelectedRows rows = *find(0);
  std::optional<HostTensor> shape = node.constant(1);
  bool changesNothing;
  if (shape && !shape->isFloat()) {
    changesNothing = llvm::all_of(shape->getIntegers(),
                                  [](int64_t extent) { return extent == 1; }) &&
                     shape->getNumElements() <= rankOf(0);
  } else {
    // An extent other than 1 is the same there, whatever is asked for.
    changesNothing = node.operandShape(1)[0] <= rankOf(0);
    for (auto [axis, extent] : llvm::enumerate(node.operandShape(0)))
      changesNothing &= static_cast<int64_t>(axis) == rows.axis || extent != 1;
  }
  if (!changesNothing || failed(node.define(0, node.operand(0))))
    return refuse("and this op repeats them");
  select(0, rows.selection, rows.axis, rows.places);
  return success();
}

LogicalResult SelectedNode::importConcat() {
  FailureOr<SelectedRows> rows = findOnly();
  FailureOr<int64_t> along = readConcatAxis(node);
  if (failed(rows) || failed(along))
    return failure();
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (!find(i) || find(i)->axis != rows->axis || *along == rows->axis)
      return refuse("and this op joins them with others");
  // Columns of places beside each other.
  std::optional<SmallVector<int64_t>> places = SmallVector<int64_t>();
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (const auto &own = find(i)->places; own && places && rankOf(i) == 2)
      llvm::append_range(*places, *own);
    else
      places = std::nullopt;
  return build(rows->axis, places);
}

/// MatMul and Gemm of rows with a matrix.
LogicalResult SelectedNode::importProduct() {
  const SelectedRows *rows = find(0);
  bool isRows =
      rows && isAlone(0) && rows->axis < rankOf(0) - 1 && rankOf(1) == 2;
  if (node.getOpType() == "Gemm")
    isRows =
        isRows && node.integer("transA", 0) == 0 &&
        (!node.hasInput(2) || rankOf(2) < 2 || node.operandShape(2)[0] == 1);
  return isRows ? build(rows->axis) : refuse("and this op sums over them");
}

LogicalResult SelectedNode::importGather() {
  auto along = node.normalizeAxis(node.integer("axis", 0), rankOf(0));
  if (failed(along))
    return failure();
  if (isAlone(0)) {
    SelectedRows rows = *find(0);
    if (*along == rows.axis)
      return refuse("and this op reads some of them");
    int64_t shift = *along < rows.axis ? rankOf(1) - 1 : 0;
    // A column of places.
    std::optional<SmallVector<int64_t>> places;
    std::optional<HostTensor> index = node.constant(1);
    if (rows.places && rankOf(0) == 2 && index && !index->isFloat() &&
        index->getNumElements() == 1) {
      int64_t size = rows.places->size(), column = index->getInteger(0);
      column += column < 0 ? size : 0;
      if (column >= 0 && column < size)
        places = SmallVector<int64_t>{(*rows.places)[column]};
    }
    return build(rows.axis + shift, places);
  }
  if (!isAlone(1))
    return refuse("and so has another input");
  SelectedRows rows = *find(1);
  // The places of the mask's own elements.
  bool isOwn = rows.places && rows.selection->shape.size() == 1 &&
               rankOf(1) == 1 &&
               node.operandShape(0)[*along] == rows.selection->getNumRows();
  if (!isOwn)
    return build(*along + rows.axis);
  if (failed(node.define(
          0, selectRows(node, *rows.selection, *along, node.operand(0)))))
    return failure();
  select(0, rows.selection, *along);
  return success();
}

// True if these are the places of the elements of data that has, along its
// first axes, the mask's shape.
static bool areOwnPlaces(const SelectedRows &rows, ArrayRef<int64_t> data,
                         ArrayRef<int64_t> indices) {
  ArrayRef<int64_t> shape = rows.selection->shape;
  return rows.places && rows.axis == 0 && indices.size() == 2 &&
         llvm::equal(*rows.places, llvm::seq<int64_t>(0, shape.size())) &&
         data.size() >= shape.size() && data.take_front(shape.size()) == shape;
}

// `value` with the axes of the mask as one.
static Value asRows(NodeImporter &node, Value value,
                    const Selection &selection) {
  if (!value)
    return {};
  SmallVector<int64_t> shape = {selection.getNumRows()};
  llvm::append_range(
      shape, NodeImporter::shapeOf(value).drop_front(selection.shape.size()));
  return node.reshape(value, shape);
}

LogicalResult SelectedNode::importGatherND() {
  if (!isAlone(1) || node.integer("batch_dims", 0) != 0)
    return refuse("and so has another input, or there are batches");
  SelectedRows rows = *find(1);
  if (rows.axis == rankOf(1) - 1)
    return refuse("and this op takes them for places");
  if (!areOwnPlaces(rows, node.operandShape(0), node.operandShape(1)))
    return build(rows.axis);
  Value data = asRows(node, node.operand(0), *rows.selection);
  if (failed(node.define(0, selectRows(node, *rows.selection, 0, data))))
    return failure();
  select(0, rows.selection, 0);
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

/// Rows go back to where they came from, or to places that are selected too.
LogicalResult SelectedNode::importScatterND() {
  FailureOr<SelectedRows> rows = findOnly();
  if (failed(rows))
    return failure();
  const SelectedRows *indices = find(1), *updates = find(2);
  std::string reduction = node.string("reduction", "none");
  if (find(0) || !indices || !updates || indices->axis != 0 ||
      updates->axis != 0 || (reduction != "none" && reduction != "add"))
    return refuse("and this op scatters them, or others, otherwise than by "
                  "replacing or adding rows");
  const Selection &selection = *rows->selection;
  bool adds = reduction == "add";
  SmallVector<int64_t> whole(node.operandShape(0));
  Value data = node.operand(0), added = node.operand(2);
  if (adds)
    added = fillRows(node, selection, 0, added, 0);
  if (!areOwnPlaces(*indices, whole, node.operandShape(1))) {
    // Copies of the first row write what that does, where there is one.
    if (failed(buildWith(2, added)))
      return failure();
    Value result = node.getFunction().lookup(node.getOutputName(0)).value;
    return node.define(0, node.emit<SelectOp>({selection.any, result, data}));
  }
  if (!added || NodeImporter::typeOf(added) !=
                    NodeImporter::typeOf(asRows(node, data, selection)))
    return node.invalid("expected updates of the shape of the data that is "
                        "selected");
  Value all = asRows(node, data, selection);
  int64_t rank = NodeImporter::shapeOf(all).size();
  Value result = adds ? node.emit<AddOp>({all, added})
                      : node.emit<SelectOp>(
                            {maskAlong(node, selection, rank, 0), added, all});
  return result ? node.define(0, node.reshape(result, whole)) : failure();
}

/// Labels that are not selected are ignored.
LogicalResult SelectedNode::importLoss() {
  FailureOr<SelectedRows> rows = findOnly();
  if (failed(rows))
    return failure();
  if (!find(0) || !find(1) || find(2) || find(0)->axis != 0 ||
      find(1)->axis != 0)
    return refuse("and scores and labels are not both such rows");
  constexpr int64_t kIgnored = -100;
  Value labels = fillRows(node, *rows->selection, 0, node.operand(1),
                          node.integer("ignore_index", kIgnored));
  if (!labels)
    return failure();
  // A node that ignores no label is told to.
  proto::NodeProto copy = node.getNode();
  if (!node.hasAttribute("ignore_index")) {
    proto::AttributeProto *ignored = copy.add_attribute();
    ignored->set_name("ignore_index");
    ignored->set_type(proto::AttributeProto::INT);
    ignored->set_i(kIgnored);
  }
  FunctionImporter &function = node.getFunction();
  if (std::optional<Phase> phase = node.getPhase())
    function.phases[&copy] = *phase;
  llvm::scope_exit restore([&] { function.phases.erase(&copy); });
  NodeImporter inner(function, copy);
  SelectedNode loss(inner, entry);
  if (failed(loss.buildWith(1, labels)) || failed(inner.finish()))
    return failure();
  for (const proto::AttributeProto &attribute : node.getNode().attribute())
    node.ignore(attribute.name());
  if (node.string("reduction", "mean") == "none")
    select(0, rows->selection, 0);
  select(1, rows->selection, 0);
  return success();
}

/// Shape and Size: the number of rows is a value of the step.
LogicalResult SelectedNode::importShape() {
  SelectedRows rows = *find(0);
  ArrayRef<int64_t> shape = node.operandShape(0);
  int64_t rank = shape.size();
  auto clamp = [&](int64_t axis) {
    return std::clamp<int64_t>(axis < 0 ? axis + rank : axis, 0, rank);
  };
  bool isSize = node.getOpType() == "Size";
  int64_t start = isSize ? 0 : clamp(node.integer("start", 0));
  int64_t end =
      isSize ? rank : std::max(start, clamp(node.integer("end", rank)));
  SmallVector<Value> parts;
  for (int64_t axis = start; axis < end; ++axis)
    parts.push_back(axis == rows.axis
                        ? node.reshape(countRows(node, *rows.selection), {1})
                        : integerConstant(node, {1}, shape[axis]));
  if (parts.empty())
    return refuse("and no axis of it is asked for");
  Value result = parts.front();
  for (Value part : ArrayRef(parts).drop_front())
    result = isSize ? node.emit<MulOp>({result, part})
                    : concatenate(node, {result, part}, 0);
  if (isSize && result)
    result = node.reshape(result, {});
  if (failed(node.define(0, result)))
    return failure();
  if (!isSize && rows.axis >= start && rows.axis < end)
    node.getFunction().lookup(node.getOutputName(0)).countOf = rows.selection;
  return success();
}

// Ops whose builders take each element by itself.
static bool isElementwise(StringRef op) {
  static const llvm::StringSet<> ops = {"Abs",         "Acos",
                                        "Acosh",       "Add",
                                        "And",         "Asin",
                                        "Asinh",       "Atan",
                                        "Atanh",       "Cast",
                                        "Ceil",        "Celu",
                                        "Clip",        "Cos",
                                        "Cosh",        "Div",
                                        "Elu",         "Equal",
                                        "Erf",         "Exp",
                                        "Floor",       "Gelu",
                                        "Greater",     "GreaterOrEqual",
                                        "HardSigmoid", "HardSwish",
                                        "Identity",    "IsInf",
                                        "IsNaN",       "LeakyRelu",
                                        "Less",        "LessOrEqual",
                                        "Log",         "Max",
                                        "Mean",        "Min",
                                        "Mish",        "Mod",
                                        "Mul",         "Neg",
                                        "Not",         "Or",
                                        "PRelu",       "Pow",
                                        "Reciprocal",  "Relu",
                                        "Round",       "Selu",
                                        "Shrink",      "Sigmoid",
                                        "Sign",        "Sin",
                                        "Sinh",        "Softplus",
                                        "Softsign",    "Sqrt",
                                        "Sub",         "Sum",
                                        "Swish",       "Tan",
                                        "Tanh",        "ThresholdedRelu",
                                        "Where",       "Xor"};
  return ops.contains(op);
}

LogicalResult SelectedNode::import() {
  StringRef op = node.getOpType();
  if (!normalizeDomain(node.getNode().domain()).empty() || !entry.build) {
    // Shape and Size alone have no builder and are taken.
    if (op != "Shape" && op != "Size")
      return refuse("which this op does not take");
  }
  if (isElementwise(op))
    return importElementwise();
  using Import = LogicalResult (SelectedNode::*)();
  Import import =
      llvm::StringSwitch<Import>(op)
          .Cases({"Softmax", "LogSoftmax", "LayerNormalization"},
                 &SelectedNode::importAlongAxis)
          .Cases({"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"},
                 &SelectedNode::importReduction)
          .Cases({"ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceProd"},
                 &SelectedNode::importReduction)
          .Cases({"ReduceLogSum", "ReduceLogSumExp"},
                 &SelectedNode::importReduction)
          .Cases({"Transpose", "Split"}, &SelectedNode::importMoved)
          .Cases({"Reshape", "Squeeze", "Unsqueeze", "Flatten"},
                 &SelectedNode::importReshaped)
          .Case("Slice", &SelectedNode::importSlice)
          .Case("Expand", &SelectedNode::importExpand)
          .Case("Concat", &SelectedNode::importConcat)
          .Cases({"MatMul", "Gemm"}, &SelectedNode::importProduct)
          .Case("Gather", &SelectedNode::importGather)
          .Case("GatherND", &SelectedNode::importGatherND)
          .Case("GatherElements", &SelectedNode::importGatherElements)
          .Case("ScatterND", &SelectedNode::importScatterND)
          .Cases({"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"},
                 &SelectedNode::importLoss)
          .Cases({"Shape", "Size"}, &SelectedNode::importShape)
          .Default(nullptr);
  if (!import)
    return refuse("which this op does not take");
  return (this->*import)();
}

bool mpc::onnx_frontend::readsSelectedRows(NodeImporter &node) {
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (node.hasInput(i) &&
        node.getFunction().lookup(node.getInputName(i)).selected)
      return true;
  return false;
}

LogicalResult mpc::onnx_frontend::importSelected(NodeImporter &node,
                                                 const OpEntry &entry) {
  FunctionImporter &function = node.getFunction();
  function.readsSelected = true;
  LogicalResult result = SelectedNode(node, entry).import();
  function.readsSelected = false;
  return result;
}

void mpc::onnx_frontend::passOnCount(NodeImporter &node) {
  static const llvm::StringSet<> ops = {"Cast",  "Gather",  "Identity",
                                        "Slice", "Squeeze", "Unsqueeze"};
  if (!node.hasInput(0) || !node.hasOutput(0) ||
      !ops.contains(node.getOpType()))
    return;
  FunctionImporter &function = node.getFunction();
  SelectionPtr count = function.lookup(node.getInputName(0)).countOf;
  ImportedValue &result = function.lookup(node.getOutputName(0));
  // A part that is known has no number of rows in it.
  if (count && !result.constant)
    result.countOf = count;
}
