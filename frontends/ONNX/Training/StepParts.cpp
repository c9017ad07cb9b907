// Finds the parts of a recognised training step besides updates: outputs, loss,
// rates and the nodes of the optimizer.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/StepRecogniser.h"

#include "frontends/ONNX/Training/OptimizerNodes.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;

// Splits the outputs: @eval returns the outputs that need no gradients or
// updates.
void StepRecogniser::collectOutputs() {
  // `derived`: values that depend on gradients or an optimizer. `orders`:
  // results of Group, which only order nodes.
  llvm::StringSet<> derived, orders;
  for (const proto::NodeProto *node : graph.getNodes()) {
    bool isGradient = isGradientNode(*node);
    if (isScalingNode(*node))
      step.optimizerNodes.insert(node);
    if (node->op_type() == "Group")
      orders.insert(node->output().begin(), node->output().end());
    bool isDerived = isGradient || step.optimizerNodes.contains(node) ||
                     llvm::any_of(getReadValues(*node), [&](StringRef value) {
                       return derived.contains(value);
                     });
    if (isDerived)
      derived.insert(node->output().begin(), node->output().end());
  }
  // The values that YieldOp nodes pass to the training program come first,
  // because the loss is among the values.
  for (StringRef value : getYielded(graph)) {
    step.outputs.push_back(value);
    step.evalOutputs.push_back(value);
    orders.insert(value);
  }
  step.hasBackwardNodes =
      llvm::none_of(graph.getNodes(), [](const proto::NodeProto *node) {
        return node->op_type() == "Gradient";
      });
  // The user gets all other outputs, except new states.
  for (const proto::ValueInfoProto *output : graph.getOutputs()) {
    StringRef name = output->name();
    if (updated.count(name) || statistics.contains(name) ||
        orders.contains(name))
      continue;
    step.outputs.push_back(name);
    if (!derived.contains(name))
      step.evalOutputs.push_back(name);
  }
}

// True if the graph may have a loss: an output that may be a scalar, or a loss
// node. Without a loss, an output such as `w - y` is a result, not an update of
// `w`.
bool StepRecogniser::mayHaveLoss() const {
  auto mayBeScalar = [](const proto::ValueInfoProto *output) {
    return !output->type().tensor_type().has_shape() ||
           isDeclaredScalar(output);
  };
  return llvm::any_of(graph.getOutputs(), mayBeScalar) ||
         llvm::any_of(graph.getNodes(), [](const proto::NodeProto *node) {
           return isLossNode(*node);
         });
}

// Moves the loss to the front: names with "loss" come first. Adds the result of
// a loss node if no output can be the loss.
Error StepRecogniser::findLoss() {
  auto isLoss = [](StringRef name) {
    return name.lower().find("loss") != std::string::npos;
  };
  for (std::vector<StringRef> *list : {&step.outputs, &step.evalOutputs})
    std::stable_partition(list->begin(), list->end(), isLoss);
  if (!getYielded(graph).empty())
    return Error::success();
  llvm::StringSet<> evaluated;
  for (StringRef name : step.evalOutputs)
    evaluated.insert(name);
  auto mayBeScalar = [&](const proto::ValueInfoProto *output) {
    return evaluated.contains(output->name()) &&
           (!output->type().tensor_type().has_shape() ||
            isDeclaredScalar(output));
  };
  if (llvm::any_of(graph.getOutputs(), mayBeScalar))
    return Error::success();
  // The loss may be the result of a node inside the graph, but no output.
  for (const proto::NodeProto *node : graph.getNodes()) {
    if (isLossNode(*node)) {
      for (std::vector<StringRef> *list : {&step.outputs, &step.evalOutputs})
        list->insert(list->begin(), node->output(0));
      return Error::success();
    }
  }
  return graph.getModel().error(
      ErrorKind::Unsupported,
      "the graph is a training step, but no output of it is a scalar that "
      "could be the loss; make the loss an output, or use --as-exported to run "
      "the "
      "graph as it is");
}

// If `name` is a scalar input of the graph, perhaps reshaped or cast, records
// the input as a learning rate. Unless `mayBeAnything`, the input must be named
// `lr`, `eta` or like `learning_rate`.
void StepRecogniser::findRate(StringRef name, bool mayBeAnything) {
  StringRef input = values.findScalarInput(name);
  bool isRate = mayBeAnything || input.contains_insensitive("learning_rate") ||
                input.equals_insensitive("lr") ||
                input.equals_insensitive("eta");
  if (!input.empty() && isRate)
    step.learningRates.insert(input);
}

// Finds scalar inputs of explicit updates by name, and the seeds of the
// backward pass.
void StepRecogniser::findScalars() {
  for (const proto::ValueInfoProto *input : graph.getInputs()) {
    findRate(input->name(), /*mayBeAnything=*/false);
    if (StringRef(input->name()).contains_insensitive("loss_scale") &&
        !values.findScalarInput(input->name()).empty())
      step.lossScales.insert(input->name());
  }
  step.seeds = findGradientSeeds(graph);
}

// Finds the nodes of updates without an optimizer node: walks back from new
// values through elementwise nodes. The walk ends at gradients, which
// reductions and matrix products compute.
void StepRecogniser::findUpdateNodes() {
  static const llvm::StringSet<> elementwise = {
      "Add",        "Sub",   "Mul",  "Div", "Sqrt", "Pow",
      "Neg",        "Where", "Clip", "Sum", "Max",  "Identity",
      "Reciprocal", "Abs",   "Sign", "Min", "Cast"};
  // Count the forward nodes as seen, so that the walk stops at them.
  std::vector<const proto::NodeProto *> forward =
      graph.getNodesFor(step.evalOutputs);
  llvm::DenseSet<const proto::NodeProto *> seen(forward.begin(), forward.end());
  std::vector<StringRef> worklist;
  for (const StateUpdate &update : step.updates)
    worklist.push_back(update.value);
  while (!worklist.empty()) {
    const proto::NodeProto *node = graph.getProducer(worklist.back());
    worklist.pop_back();
    if (!node || !elementwise.contains(node->op_type()) ||
        !seen.insert(node).second)
      continue;
    step.optimizerNodes.insert(node);
    worklist.insert(worklist.end(), node->input().begin(), node->input().end());
  }
}
