// Restores losses left out by compilers for training devices.
//
// A training device does not need the value of the loss. Compilers for training
// devices leave SoftmaxCrossEntropyLoss a single output, the log-probabilities,
// although ONNX defines the loss as first output. A gradient node that reads
// the output as log-probabilities proves the defect. Puts the loss back as the
// first output of the node, and as an output of the graph.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
// g (float[4,3] s, int64[4] t, float d) => (float[4,3] ds)
// {
//   p = SoftmaxCrossEntropyLoss (s, t)
//   ds = com.microsoft.SoftmaxCrossEntropyLossGrad (d, p, t)
// }
// ```
//
// After:
//
// ```
// g (float[4,3] s, int64[4] t, float d) => (float[4,3] ds, float loss)
// {
//   loss, p = SoftmaxCrossEntropyLoss (s, t)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/Graph.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

// Finds the log-probabilities read by loss gradients: input 0 of a node with
// two inputs, otherwise input 1.
static llvm::StringSet<> findLogProbabilities(const proto::GraphProto &graph) {
  llvm::StringSet<> found;
  for (const proto::NodeProto &node : graph.node())
    if (node.op_type() == "SoftmaxCrossEntropyLossGrad" &&
        node.input_size() >= 2)
      found.insert(node.input(node.input_size() == 2 ? 0 : 1));
  return found;
}

// Finds the declared type of a value; null if the file declares none.
static const proto::TypeProto::Tensor *findType(const proto::GraphProto &graph,
                                                StringRef name) {
  for (const auto *values :
       {&graph.value_info(), &graph.output(), &graph.input()})
    for (const proto::ValueInfoProto &value : *values)
      if (value.name() == name && value.type().has_tensor_type())
        return &value.type().tensor_type();
  return nullptr;
}

static void putBack(proto::GraphProto &graph, proto::NodeProto &node,
                    const std::string &loss) {
  std::string logProb = node.output(0);
  const proto::TypeProto::Tensor *type = findType(graph, logProb);
  const int elementType =
      type ? type->elem_type() : int(proto::TensorProto::FLOAT);
  node.clear_output();
  node.add_output(loss);
  node.add_output(logProb);
  proto::ValueInfoProto &output = *graph.add_output();
  output.set_name(loss);
  auto &declared = *output.mutable_type()->mutable_tensor_type();
  declared.set_elem_type(elementType);
  declared.mutable_shape();
}

llvm::Error mpc::onnx_frontend::restoreLosses(RepairContext &context) {
  proto::GraphProto &graph = context.getGraph();
  const llvm::StringSet<> logProbabilities = findLogProbabilities(graph);
  if (logProbabilities.empty())
    return llvm::Error::success();
  llvm::StringSet<> names = context.findNames();
  for (proto::NodeProto &node : *graph.mutable_node()) {
    if (node.op_type() != "SoftmaxCrossEntropyLoss" ||
        node.output_size() != 1 || !logProbabilities.contains(node.output(0)))
      continue;
    // If the output is a scalar, it is the loss, and nothing is missing.
    const proto::TypeProto::Tensor *type = findType(graph, node.output(0));
    if (type && type->has_shape() && type->shape().dim_size() == 0)
      continue;
    std::string name = getNodeName(node), loss = "loss";
    for (unsigned i = 1; !names.insert(loss).second; ++i)
      loss = "loss_" + std::to_string(i);
    putBack(graph, node, loss);
    context.warn("node '" + name + "' (" + getOpName(node) +
                 "): the only output is read as log-probabilities, which must "
                 "be output 1; mpc has put the loss before it, as output '" +
                 loss + "' of the graph");
  }
  return llvm::Error::success();
}
