// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Training/OptimizerNodes.h"

using namespace mpc::onnx_frontend;

// Reads a node of ONNX's training domain. Inputs are the rate R, the count T,
// and equally long groups: parameters, gradients, then one group per state.
// Outputs are the groups of new parameters and new states.
static OptimizerNode readGroups(const proto::NodeProto &node, int states) {
  OptimizerNode result;
  result.rate = 0;
  result.count = 1;
  int count = (node.input_size() - 2) / (2 + states);
  for (int i = 0; i < count; ++i) {
    result.parameters.push_back({2 + i, i});
    result.gradients.push_back(2 + count + i);
    for (int state = 1; state <= states; ++state)
      result.states.push_back({2 + (1 + state) * count + i, state * count + i});
  }
  return result;
}

// Reads a LambOptimizer. Inputs are the update signal, the loss scale, the
// gradient norm, the rate and the count; then for each parameter the value, the
// gradient, two moments and a 16-bit copy.
static OptimizerNode readLamb(const proto::NodeProto &node) {
  OptimizerNode result;
  result.rate = 3;
  result.count = 4;
  result.firstCount = 1;
  result.lossScale = 1;
  result.states = {{4, 0}};
  for (int input = 5, output = 1; input < node.input_size();
       input += 5, output += 5) {
    result.parameters.push_back({input, output});
    result.gradients.push_back(input + 1);
    for (int state : {2, 3})
      result.states.push_back({input + state, output + state});
  }
  return result;
}

static std::optional<OptimizerNode> readKnown(const proto::NodeProto &node) {
  llvm::StringRef domain = normalizeDomain(node.domain());
  llvm::StringRef op = node.op_type();
  // ONNX's own nodes list all parameters, then all gradients, then all states.
  if (domain == kTraining || domain == kPreview) {
    if (op == "Adam")
      return readGroups(node, 2);
    if (op == "Adagrad" || op == "Momentum")
      return readGroups(node, 1);
  }
  OptimizerNode result;
  // ONNX Runtime's nodes; some files omit their domain. Each updates single
  // tensors. Below, a number is the position of an input, and a pair holds the
  // positions of an input and an output.
  bool isMicrosoft = domain == kMicrosoft || domain.empty();
  if (isMicrosoft && op == "SGDOptimizer") {
    result.rate = 0;
    result.parameters = {{1, 0}};
    result.gradients = {2};
    return result;
  }
  if (isMicrosoft && op == "AdamOptimizer") {
    result.rate = 0;
    result.count = 1;
    result.firstCount = 1;
    result.lossScale = 7;
    result.parameters = {{2, 3}};
    result.gradients = {3};
    result.states = {{1, 0}, {4, 1}, {5, 2}};
    return result;
  }
  if (isMicrosoft && op == "LambOptimizer")
    return readLamb(node);
  // Some tools write a plain SGD(value, gradient, rate) without a domain.
  if (domain.empty() && op == "SGD") {
    result.rate = 2;
    result.parameters = {{0, 0}};
    result.gradients = {1};
    return result;
  }
  return std::nullopt;
}

std::optional<OptimizerNode>
mpc::onnx_frontend::readOptimizerNode(const proto::NodeProto &node) {
  std::optional<OptimizerNode> found = readKnown(node);
  if (!found || found->parameters.empty())
    return std::nullopt;
  // Drop absent tensors. The builder reports missing operands.
  auto isAbsent = [&](const OptimizerNode::Update &update) {
    return update.input >= node.input_size() ||
           node.input(update.input).empty() ||
           update.output >= node.output_size() ||
           node.output(update.output).empty();
  };
  llvm::erase_if(found->gradients, [&](int input) {
    return input >= node.input_size() || node.input(input).empty();
  });
  llvm::erase_if(found->parameters, isAbsent);
  llvm::erase_if(found->states, isAbsent);
  for (int *place : {&found->rate, &found->count, &found->lossScale})
    if (*place >= node.input_size() ||
        (*place >= 0 && node.input(*place).empty()))
      *place = -1;
  return found;
}

std::optional<int>
mpc::onnx_frontend::findGradientList(const proto::NodeProto &node) {
  if (node.domain() != kMicrosoft)
    return std::nullopt;
  if (node.op_type() == "AdamWOptimizer")
    return 3;
  if (node.op_type() == "SGDOptimizerV2")
    return 2;
  return std::nullopt;
}
