// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Bodies.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

std::optional<Graph> mpc::onnx_frontend::readBody(NodeImporter &node,
                                                  StringRef name) {
  const proto::GraphProto *body = node.body(name);
  if (!body)
    return std::nullopt;
  FunctionImporter &function = node.getFunction();
  auto graph =
      Graph::checkBody(function.getModel(), *body,
                       [&](StringRef outer) { return function.knows(outer); });
  if (graph)
    return std::move(*graph);
  function.getModule().report(graph.takeError());
  (void)node.invalid("attribute '" + name +
                     "' is no valid graph, for the reason above");
  return std::nullopt;
}

LogicalResult mpc::onnx_frontend::checkCounts(NodeImporter &node,
                                              const Graph &body, size_t inputs,
                                              size_t outputs) {
  if (body.getInputs().size() != inputs)
    return node.invalid("expected a body with " + Twine(inputs) +
                        " inputs, found " + Twine(body.getInputs().size()));
  if (body.getOutputs().size() != outputs)
    return node.invalid("expected a body with " + Twine(outputs) +
                        " outputs, found " + Twine(body.getOutputs().size()));
  return success();
}

StringRef mpc::onnx_frontend::findOutput(NodeImporter &node) {
  unsigned index = 0, count = node.getNode().output_size();
  while (index < count && !node.hasOutput(index))
    ++index;
  return node.getOutputName(index);
}

std::vector<const proto::NodeProto *>
mpc::onnx_frontend::findNodes(const Graph &graph) {
  SmallVector<StringRef> outputs;
  for (const proto::ValueInfoProto *output : graph.getOutputs())
    outputs.push_back(output->name());
  return graph.getNodesFor(outputs);
}

OwningOpRef<ScanOp> mpc::onnx_frontend::createHolder(NodeImporter &node) {
  OpBuilder builder(node.getContext());
  return ScanOp::create(builder, builder.getUnknownLoc(), 1, ValueRange(),
                        ValueRange(), ValueRange(), TypeRange(),
                        ArrayRef<bool>(), ArrayRef<bool>());
}
