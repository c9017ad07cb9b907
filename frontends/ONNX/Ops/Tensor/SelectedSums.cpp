// Imports ops that combine selected rows: unselected rows change nothing.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"
#include "frontends/ONNX/Importer/ShapeArguments.h"
#include "frontends/ONNX/Ops/Tensor/SelectedNode.h"

#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

/// Imports ops along one axis: within each row, or a softmax across the
/// selected rows.
LogicalResult SelectedNode::importAlongAxis() {
  StringRef op = node.getOpType();
  const SelectedRows *found = find(0);
  if (!found || !isAlone(0))
    return refuse("beside other inputs that belong to them");
  SelectedRows rows = *found;
  const bool isArg = op == "ArgMax" || op == "ArgMin";
  const bool isNorm = op == "LayerNormalization" || op == "RMSNormalization";
  const bool isSoftmax = op == "Softmax" || op == "LogSoftmax";
  // Before opset 13, the op covers all axes from 'axis' on.
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
  // Minus infinity in unselected rows adds nothing to a softmax.
  constexpr double infinity = std::numeric_limits<double>::infinity();
  Value x = node.operand(0);
  Value filled = fillRows(node, *rows.selection, rows.axis, x, -infinity);
  if (failed(
          buildWith(0, node.emit<SelectOp>({rows.selection->any, filled, x}))))
    return failure();
  return reselect(rows, rows.axis);
}

/// Imports CumSum: unselected rows add nothing.
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

/// Imports TopK across rows. If fewer than k rows are selected, the result
/// contains infinities.
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

/// The number that does not change a reduction, for unselected rows. nullopt if
/// copies of a selected row do not change the result.
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
  // Reduce across rows, with neutral numbers in unselected rows.
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
  // ReduceMean divided by the number of all rows; scale to the selected rows.
  Value mean = node.getFunction().lookup(node.getOutputName(0)).value;
  Type wide = element.isF64() ? element : Type(node.attributes().getF32Type());
  Value count = castTo(node, countRows(node, *rows.selection), wide);
  Value ratio = node.emit<DivOp>(
      {numberConstant(node, rows.selection->getNumRows(), wide), count});
  return node.define(
      0, castTo(node, node.emit<MulOp>({castTo(node, mean, wide), ratio}),
                element));
}

/// Imports losses: the labels of unselected rows are ignored.
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
  // Give the node an ignore_index if it has none.
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
