// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/UnneededOutputs.h"

#include "frontends/ONNX/Importer/FunctionImporter.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using llvm::Error;

// Returns the value that a loss reads: the output, the first result of the node
// or the value called `source`, which may end in :AXIS. Empty if there is none.
static StringRef findLossValue(const Graph &graph, StringRef source) {
  for (StringRef name : {source, source.rsplit(':').first}) {
    for (const proto::ValueInfoProto *output : graph.getOutputs())
      if (output->name() == name)
        return output->name();
    for (const proto::NodeProto *node : graph.getNodes())
      if (node->name() == name && node->output_size() > 0)
        return node->output(0);
    if (const proto::NodeProto *producer = graph.getProducer(name))
      for (const std::string &value : producer->output())
        if (value == name)
          return value;
  }
  return {};
}

SmallVector<StringRef>
mpc::onnx_frontend::findUnneeded(FunctionImporter &function,
                                 ArrayRef<StringRef> outputs,
                                 ArrayRef<std::string> lossSources) {
  const Graph &graph = function.getGraph();
  SmallVector<StringRef> failed;
  for (StringRef output : outputs)
    if (function.lookup(output).failed)
      failed.push_back(output);
  for (StringRef source : lossSources) {
    // A loss without a name reads the only output.
    if (source.empty()) {
      if (outputs.size() != failed.size() + 1)
        return {};
      continue;
    }
    const StringRef value = findLossValue(graph, source);
    if (value.empty() || function.lookup(value).failed)
      return {};
  }
  return failed;
}

void mpc::onnx_frontend::replaceOutputs(const Graph &graph,
                                        ArrayRef<StringRef> leftOut,
                                        ArrayRef<std::string> lossSources,
                                        SmallVectorImpl<StringRef> &outputs) {
  llvm::erase_if(outputs, [&](StringRef output) {
    return llvm::is_contained(leftOut, output);
  });
  for (StringRef source : lossSources) {
    const StringRef value = findLossValue(graph, source);
    if (value.empty() || llvm::is_contained(outputs, value) ||
        llvm::is_contained(graph.getNodesFor(outputs),
                           graph.getProducer(value)))
      continue;
    outputs.push_back(value);
  }
}

void mpc::onnx_frontend::noteLeftOut(const Model &model,
                                     ArrayRef<StringRef> leftOut, Error error) {
  std::vector<std::string> quoted;
  for (StringRef output : leftOut)
    quoted.push_back("'" + output.str() + "'");
  std::string reason;
  llvm::handleAllErrors(std::move(error), [&](const llvm::ErrorInfoBase &info) {
    if (reason.empty())
      reason = info.message();
  });
  const bool isOne = quoted.size() == 1;
  model.note((isOne ? "output " : "outputs ") + listFirst(quoted, 3) +
             (isOne ? " is" : " are") + " left out, as no loss needs " +
             (isOne ? "it" : "them") + ", and the trained model keeps " +
             (isOne ? "it" : "them") + ": " + reason);
}
