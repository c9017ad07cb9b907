// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/LowWeights.h"

#include "frontends/ONNX/Model/Graph.h"

#include "llvm/ADT/STLExtras.h"

#include <set>

using namespace mpc::onnx_frontend;
using llvm::StringRef;

bool mpc::onnx_frontend::isWorthLowType(llvm::ArrayRef<int64_t> shape) {
  return llvm::count_if(shape, [](int64_t extent) { return extent > 1; }) >= 2;
}

std::vector<proto::TensorProto *>
mpc::onnx_frontend::findLowWeights(proto::ModelProto &model) {
  proto::GraphProto &graph = *model.mutable_graph();
  llvm::StringSet<> excluded = findBodyNames(graph);
  for (const proto::GraphProto *each : findGraphs(graph))
    for (const proto::ValueInfoProto &output : each->output())
      excluded.insert(output.name());
  std::vector<proto::TensorProto *> found;
  for (proto::TensorProto &tensor : *graph.mutable_initializer())
    if (tensor.data_type() == proto::TensorProto::FLOAT &&
        !excluded.contains(tensor.name()) &&
        isWorthLowType({tensor.dims().data(), size_t(tensor.dims_size())}))
      found.push_back(&tensor);
  return found;
}

// Returns all names of values and nodes in `graph` and its bodies.
static std::set<std::string> listAllNames(proto::GraphProto &graph) {
  std::set<std::string> names;
  for (const proto::GraphProto *each : findGraphs(graph)) {
    for (const auto *infos : {&each->input(), &each->output()})
      for (const proto::ValueInfoProto &info : *infos)
        names.insert(info.name());
    for (const proto::TensorProto &tensor : each->initializer())
      names.insert(tensor.name());
    for (const proto::NodeProto &node : each->node()) {
      names.insert(node.name());
      names.insert(node.output().begin(), node.output().end());
    }
  }
  return names;
}

static void addCast(const std::string &weight, const std::string &result,
                    proto::NodeProto &node) {
  node.set_op_type("Cast");
  node.set_name(result);
  node.add_input(weight);
  node.add_output(result);
  proto::AttributeProto &to = *node.add_attribute();
  to.set_name("to");
  to.set_type(proto::AttributeProto::INT);
  to.set_i(proto::TensorProto::FLOAT);
}

void mpc::onnx_frontend::castReaders(
    proto::GraphProto &graph, llvm::ArrayRef<proto::TensorProto *> weights) {
  std::set<std::string> names = listAllNames(graph);
  llvm::StringMap<std::string> results;
  llvm::StringMap<int32_t> types;
  for (const proto::TensorProto *weight : weights) {
    std::string result = weight->name() + "_float32";
    while (!names.insert(result).second)
      result += "_";
    results[weight->name()] = result;
    types[weight->name()] = weight->data_type();
  }
  for (proto::GraphProto *each : findGraphs(graph))
    for (proto::NodeProto &node : *each->mutable_node())
      for (std::string &input : *node.mutable_input())
        if (auto found = results.find(input); found != results.end())
          input = found->second;
  for (auto *infos : {graph.mutable_input(), graph.mutable_value_info()})
    for (proto::ValueInfoProto &info : *infos)
      if (auto found = types.find(info.name()); found != types.end())
        info.mutable_type()->mutable_tensor_type()->set_elem_type(
            found->second);
  // Nodes are in topological order, so the Casts come first. The other nodes
  // keep their addresses, by which the model knows them.
  auto &nodes = *graph.mutable_node();
  std::vector<proto::NodeProto *> others(size_t(nodes.size()));
  nodes.ExtractSubrange(0, nodes.size(), others.data());
  for (const proto::TensorProto *weight : weights)
    addCast(weight->name(), results[weight->name()], *nodes.Add());
  for (proto::NodeProto *node : others)
    nodes.AddAllocated(node);
}
