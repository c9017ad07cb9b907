// Imports nodes that read selected rows (SelectedNode.h): chooses the importer
// for each op, and imports ops that compute each row alone.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/ShapeArguments.h"
#include "frontends/ONNX/Ops/Tensor/SelectedNode.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// Inputs and results
//===----------------------------------------------------------------------===//

/// Returns the selection of the inputs with selected rows. Refuses the node if
/// two inputs have different selections.
FailureOr<SelectedRows> SelectedNode::findOnly() {
  const SelectedRows *first = nullptr;
  for (unsigned i = 0; i < node.getNumInputs(); ++i) {
    const SelectedRows *rows = find(i);
    if (rows && first && !selectSame(rows->selection, first->selection))
      return refuse("another input rows of another selection");
    first = first ? first : rows;
  }
  return *first;
}

/// True if input `index`, and no other input, has selected rows.
bool SelectedNode::isAlone(unsigned index) {
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (i != index && find(i))
      return false;
  return find(index);
}

/// True if an input holds row numbers, which count only selected rows.
bool SelectedNode::hasNumbers() {
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (const SelectedRows *rows = find(i); rows && hasRowNumbers(*rows))
      return true;
  return false;
}

LogicalResult SelectedNode::refuse(const Twine &why) {
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

/// Builds the node by its usual builder. All outputs then have selected rows
/// along `axis`.
LogicalResult SelectedNode::build(int64_t axis, Places places) {
  FailureOr<SelectedRows> rows = findOnly();
  if (failed(rows) || failed(entry.build(node)))
    return failure();
  for (int i = 0; i < node.getNode().output_size(); ++i)
    select(i, rows->selection, axis, places);
  return success();
}

/// Builds the node by its usual builder, with `value` in place of input
/// `index`.
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

/// Builds the node by its usual builder. In the unselected rows of all inputs,
/// all elements are `number`.
LogicalResult SelectedNode::buildFilled(double number) {
  FunctionImporter &function = node.getFunction();
  SmallVector<std::pair<StringRef, Value>> filled;
  for (unsigned i = 0; i < node.getNumInputs(); ++i)
    if (const SelectedRows *rows = find(i)) {
      filled.emplace_back(node.getInputName(i),
                          fillRows(node, *rows->selection, rows->axis,
                                   node.operand(i), number));
      if (!filled.back().second)
        return failure();
    }
  SmallVector<std::pair<ImportedValue *, ImportedValue>, 0> saved;
  for (auto [name, value] : filled) {
    ImportedValue &input = function.lookup(name);
    saved.emplace_back(&input, input);
    input = {};
    input.value = value;
  }
  // Restore in reverse order: an input that the node reads twice was replaced
  // twice.
  llvm::scope_exit restore([&] {
    for (auto &[input, before] : llvm::reverse(saved))
      *input = std::move(before);
  });
  return entry.build(node);
}

/// Replaces the unselected rows of output 0 by copies of the first selected
/// row, as all values with selected rows have, and marks the output's rows as
/// selected.
LogicalResult SelectedNode::reselect(const SelectedRows &rows, int64_t axis) {
  Value result = node.getFunction().lookup(node.getOutputName(0)).value;
  if (failed(node.define(0, selectRows(node, *rows.selection, axis, result))))
    return failure();
  select(0, rows.selection, axis);
  return success();
}

//===----------------------------------------------------------------------===//
// Ops on each row alone
//===----------------------------------------------------------------------===//

/// Imports an elementwise op, in which each result element depends only on the
/// elements at the same position.
LogicalResult SelectedNode::importElementwise() {
  FailureOr<SelectedRows> rows = findOnly();
  if (failed(rows))
    return failure();
  // Broadcasting aligns shapes at the end, so count the axis of the rows from
  // the end.
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
      return refuse("and is combined with all rows of '" +
                    node.getInputName(i) + "'");
  bool keepsPlaces = node.getOpType() == "Cast" ||
                     node.getOpType() == "Identity" ||
                     (node.getOpType() == "Max" && node.getNumInputs() == 1);
  return build(rank - fromEnd, keepsPlaces ? rows->places : std::nullopt);
}

/// Imports an op that computes each sample (axis 0) alone, such as Conv. The
/// rows must be the samples.
LogicalResult SelectedNode::importOfSamples() {
  bool hasPlaces = node.getOpType() == "MaxPool" && node.hasOutput(1);
  if (!isAlone(0) || find(0)->axis != 0 || hasPlaces)
    return refuse("and this op computes across them");
  return build(0);
}

/// Imports Shape and Size. The extent of the rows' axis is the number of
/// selected rows, computed at run time.
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
  SmallVector<int64_t> elements(shape.slice(start, end - start)), isCount;
  for (int64_t axis = start; axis < end; ++axis) {
    isCount.push_back(axis == rows.axis);
    parts.push_back(axis == rows.axis
                        ? node.reshape(countRows(node, *rows.selection), {1})
                        : integerConstant(node, {1}, shape[axis]));
  }
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
  if (isSize || rows.axis < start || rows.axis >= end)
    return success();
  // Tell later nodes the elements of the shape. All but the number of selected
  // rows are known.
  auto counted = std::make_shared<CountedIntegers>();
  counted->selection = rows.selection;
  int64_t size = elements.size();
  counted->elements =
      HostTensor::fromIntegers(node.getContext(), {size}, elements);
  counted->isCount =
      HostTensor::fromIntegers(node.getContext(), {size}, isCount);
  node.getFunction().lookup(node.getOutputName(0)).counted = std::move(counted);
  return success();
}

/// Imports NonZero of a mask that itself has selected rows.
LogicalResult SelectedNode::importMask() {
  SelectedRows rows = *find(0);
  return defineNonZero(node, &rows);
}

//===----------------------------------------------------------------------===//
// The importer of each op
//===----------------------------------------------------------------------===//

// True for ops that compute each element alone: all ops of the elementwise
// table, and some of other tables.
static bool actsOnElements(StringRef op) {
  static const llvm::StringSet<> ops = [] {
    llvm::StringSet<> names = {"Dropout", "Mean", "PRelu", "Sqrt", "Where"};
    for (const OpEntry &entry : getElementwiseOps())
      if (entry.domain.empty())
        names.insert(entry.name);
    return names;
  }();
  return ops.contains(op);
}

// True for ops that compute each sample (axis 0) alone.
static bool isOfSamples(StringRef op) {
  static const llvm::StringSet<> ops = {"AveragePool",
                                        "Conv",
                                        "ConvTranspose",
                                        "DepthToSpace",
                                        "GlobalAveragePool",
                                        "GlobalMaxPool",
                                        "GroupNormalization",
                                        "InstanceNormalization",
                                        "LRN",
                                        "MaxPool",
                                        "SpaceToDepth"};
  return ops.contains(op);
}

// True for ops that may read row numbers, because they move the numbers or use
// them as indices.
static bool takesRowNumbers(StringRef op) {
  static const llvm::StringSet<> ops = {
      "Cast",     "Concat", "Expand",  "Flatten",   "Gather",   "GatherND",
      "Identity", "Max",    "Reshape", "ScatterND", "Shape",    "Size",
      "Slice",    "Split",  "Squeeze", "Transpose", "Unsqueeze"};
  return ops.contains(op);
}

SelectedNode::Import SelectedNode::findImport(StringRef op) {
  if (actsOnElements(op))
    return &SelectedNode::importElementwise;
  if (isOfSamples(op))
    return &SelectedNode::importOfSamples;
  return llvm::StringSwitch<Import>(op)
      .Cases({"Softmax", "LogSoftmax", "LayerNormalization"},
             &SelectedNode::importAlongAxis)
      .Cases({"RMSNormalization", "LpNormalization", "Hardmax"},
             &SelectedNode::importAlongAxis)
      .Cases({"ArgMax", "ArgMin"}, &SelectedNode::importAlongAxis)
      .Case("CumSum", &SelectedNode::importCumulative)
      .Case("TopK", &SelectedNode::importTopK)
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
      .Case("MatMul", &SelectedNode::importMatMul)
      .Case("Gemm", &SelectedNode::importGemm)
      .Case("Einsum", &SelectedNode::importEinsum)
      .Case("Gather", &SelectedNode::importGather)
      .Case("GatherND", &SelectedNode::importGatherND)
      .Case("GatherElements", &SelectedNode::importGatherElements)
      .Case("ScatterND", &SelectedNode::importScatterND)
      .Case("ScatterElements", &SelectedNode::importScatterElements)
      .Cases({"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss"},
             &SelectedNode::importLoss)
      .Cases({"Shape", "Size"}, &SelectedNode::importShape)
      .Case("NonZero", &SelectedNode::importMask)
      .Default(nullptr);
}

LogicalResult SelectedNode::import() {
  StringRef op = node.getOpType();
  if (!normalizeDomain(node.getNode().domain()).empty() || !entry.build) {
    // Shape and Size have no builder, but importShape() imports them.
    if (op != "Shape" && op != "Size")
      return refuse("which this op does not take");
  }
  Import import = findImport(op);
  if (!import)
    return refuse("which this op does not take");
  bool haveNumbers = hasNumbers();
  constexpr StringRef kAmongRows =
      "and holds their numbers among those rows, which this op does not take";
  if (haveNumbers && !takesRowNumbers(op))
    return refuse(kAmongRows);
  if (failed((this->*import)()))
    return failure();
  // The result must still be known as row numbers. If not, a later node would
  // take numbers among all rows for numbers among the selected rows.
  bool isIndex = op == "Gather" || op == "GatherND" || op == "ScatterND";
  const auto &rows = node.getFunction().lookup(node.getOutputName(0)).selected;
  if (haveNumbers && !isIndex && rows && !rows->places)
    return refuse(kAmongRows);
  return success();
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
