// Imports ops that combine selected rows, such as sums (SelectedNode.h).
// Unselected rows are filled with a number that does not change the result.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/ShapeArguments.h"
#include "frontends/ONNX/Ops/Tensor/SelectedNode.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

/// Imports an op along one axis, such as Softmax: along an axis within each
/// row, or a softmax along the axis of the rows.
LogicalResult SelectedNode::importAlongAxis() {
  StringRef op = node.getOpType();
  const SelectedRows *found = find(0);
  if (!found || !isAlone(0))
    return refuse("beside other inputs that belong to them");
  SelectedRows rows = *found;
  const bool isArg = op == "ArgMax" || op == "ArgMin";
  const bool isNorm = op == "LayerNormalization" || op == "RMSNormalization";
  const bool isSoftmax = op == "Softmax" || op == "LogSoftmax";
  // Before opset 13, the op counts all axes from 'axis' on as one.
  const bool isCoerced = (isSoftmax || op == "Hardmax") && node.getOpset() < 13;
  auto axis = node.normalizeAxis(node.integer("axis", isArg       ? 0
                                                      : isCoerced ? 1
                                                                  : -1),
                                 rankOf(0));
  if (failed(axis))
    return failure();
  if (*axis > rows.axis || (*axis < rows.axis && !isCoerced && !isNorm)) {
    bool dropsAxis = isArg && node.integer("keepdims", 1) == 0;
    return build(rows.axis - (dropsAxis && *axis < rows.axis));
  }
  if (!isSoftmax || (isCoerced && rows.axis != rankOf(0) - 1))
    return refuse("and this op computes across them");
  // Fill unselected rows with minus infinity, which adds nothing to a softmax.
  // If no row is selected, leave the rows as they are: a softmax of infinities
  // alone is NaN.
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Value x = node.operand(0);
  Value filled = fillRows(node, *rows.selection, rows.axis, x, -infinity);
  if (failed(
          buildWith(0, node.emit<SelectOp>({rows.selection->any, filled, x}))))
    return failure();
  return reselect(rows, rows.axis);
}

/// Imports CumSum. Along the axis of the rows, unselected rows count as 0.
LogicalResult SelectedNode::importCumulative() {
  SelectedRows rows = isAlone(0) ? *find(0) : SelectedRows();
  std::optional<HostTensor> given = node.constant(1);
  if (!rows.selection || !given || given->isFloat() ||
      given->getNumElements() != 1)
    return refuse("and says along which axis");
  auto axis = node.normalizeAxis(given->getInteger(0), rankOf(0));
  if (failed(axis))
    return failure();
  if (*axis != rows.axis)
    return build(rows.axis);
  return failed(buildFilled(0)) ? failure() : reselect(rows, rows.axis);
}

static bool isRead(FunctionImporter &function, StringRef name) {
  const Graph &graph = function.getGraph();
  auto isName = [&](const proto::ValueInfoProto *output) {
    return StringRef(output->name()) == name;
  };
  return llvm::any_of(graph.getOutputs(), isName) ||
         llvm::any_of(graph.getNodes(), [&](const proto::NodeProto *node) {
           return llvm::is_contained(getReadValues(*node), name);
         });
}

/// Imports TopK. Along the axis of the rows, unselected rows count as
/// infinities that come last. If fewer than k rows are selected, the result
/// contains such infinities.
LogicalResult SelectedNode::importTopK() {
  SelectedRows rows = isAlone(0) ? *find(0) : SelectedRows();
  if (!rows.selection)
    return refuse("and says how many are taken");
  auto axis = node.normalizeAxis(node.integer("axis", -1), rankOf(0));
  if (failed(axis))
    return failure();
  if (*axis != rows.axis)
    return build(rows.axis);
  if (node.hasOutput(1) && isRead(node.getFunction(), node.getOutputName(1)))
    return refuse("and this op tells their numbers");
  if (!isa<FloatType>(node.operandType(0).getElementType()))
    return refuse("and this op takes the best of them, which are no floats");
  bool isLargest = node.getOpset() < 11 || node.integer("largest", 1) != 0;
  constexpr double infinity = std::numeric_limits<double>::infinity();
  if (failed(buildFilled(isLargest ? -infinity : infinity)))
    return failure();
  return success();
}

/// Returns the number with which to fill unselected rows, so that they do not
/// change the reduction `op`: 0 for a sum. nullopt if the rows may stay,
/// because a copy of a selected row changes no maximum or minimum.
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
  // Reduce along the axis of the rows, with neutral numbers in unselected rows.
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
  // ReduceMean has divided by the number of all rows. Correct this to the
  // number of selected rows.
  Value mean = node.getFunction().lookup(node.getOutputName(0)).value;
  Type wide = element.isF64() ? element : Type(node.attributes().getF32Type());
  Value count = castTo(node, countRows(node, *rows.selection), wide);
  Value ratio = node.emit<DivOp>(
      {numberConstant(node, rows.selection->getNumRows(), wide), count});
  return node.define(
      0, castTo(node, node.emit<MulOp>({castTo(node, mean, wide), ratio}),
                element));
}

/// Imports a loss over class labels: the labels of unselected rows become
/// ignore_index, so the loss ignores these rows.
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
  // Without ignore_index, a copy of the node gets one.
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
