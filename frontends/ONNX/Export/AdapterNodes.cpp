// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/AdapterNodes.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;
using llvm::ArrayRef;
using llvm::Error;
using llvm::StringRef;

namespace {
/// Adds adapters to the graph of one model.
class AdapterWriter {
public:
  AdapterWriter(Model &model, ArrayRef<AdapterNodes> adapters)
      : model(model), graph(*model.getProto().mutable_graph()),
        adapters(adapters) {}

  Error run();

private:
  std::string findSource(std::string name) const;
  Error addTo(proto::NodeProto node, const AdapterNodes &adapter, int32_t type);
  void addMatrices(const proto::NodeProto &node, const AdapterNodes &adapter);
  void addConvolutions(const proto::NodeProto &node,
                       const AdapterNodes &adapter);
  proto::NodeProto &addNode(StringRef type, ArrayRef<std::string> inputs,
                            const std::string &output);
  void addTransposed(const std::string &input, const std::string &output);
  void addScale(const std::string &name, double value, int32_t type);
  void addParameter(const std::string &name, ArrayRef<int64_t> shape,
                    int32_t type);

  Model &model;
  proto::GraphProto &graph;
  ArrayRef<AdapterNodes> adapters;
  /// The nodes of the new graph, in order.
  google::protobuf::RepeatedPtrField<proto::NodeProto> nodes;
  /// The inputs of Identity and Transpose nodes, by output.
  llvm::StringMap<std::string> views;
};
} // namespace

static const proto::AttributeProto *
findNodeAttribute(const proto::NodeProto &node, StringRef name) {
  for (const proto::AttributeProto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}

// Returns the stored tensor that `name` copies or transposes.
std::string AdapterWriter::findSource(std::string name) const {
  // Limit the steps: the nodes of a broken file may form a cycle.
  for (size_t i = 0; i < views.size() && views.contains(name); ++i)
    name = views.lookup(name);
  return name;
}

proto::NodeProto &AdapterWriter::addNode(StringRef type,
                                         ArrayRef<std::string> inputs,
                                         const std::string &output) {
  proto::NodeProto &node = *nodes.Add();
  node.set_op_type(type.str());
  node.set_name(output);
  for (const std::string &input : inputs)
    node.add_input(input);
  node.add_output(output);
  return node;
}

void AdapterWriter::addTransposed(const std::string &input,
                                  const std::string &output) {
  proto::AttributeProto &perm =
      *addNode("Transpose", {input}, output).add_attribute();
  perm.set_name("perm");
  perm.set_type(proto::AttributeProto::INTS);
  perm.add_ints(1);
  perm.add_ints(0);
}

// Adds a number, rounded to `type`: a cast of a float constant, since all float
// types can be cast from float.
void AdapterWriter::addScale(const std::string &name, double value,
                             int32_t type) {
  proto::TensorProto &tensor = *graph.add_initializer();
  const bool isSingle = type == proto::TensorProto::FLOAT;
  tensor.set_name(isSingle ? name : name + ".single");
  tensor.set_data_type(proto::TensorProto::FLOAT);
  tensor.add_float_data(static_cast<float>(value));
  if (isSingle)
    return;
  proto::AttributeProto &to =
      *addNode("Cast", {tensor.name()}, name).add_attribute();
  to.set_name("to");
  to.set_type(proto::AttributeProto::INT);
  to.set_i(type);
}

void AdapterWriter::addMatrices(const proto::NodeProto &node,
                                const AdapterNodes &adapter) {
  const std::string &y = node.output(0);
  std::string x = node.input(0);
  const proto::AttributeProto *transA = findNodeAttribute(node, "transA");
  if (transA && transA->i() != 0) {
    addTransposed(x, y + ".lora_x");
    x = y + ".lora_x";
  }
  addTransposed(adapter.a, y + ".lora_A.transposed");
  addTransposed(adapter.b, y + ".lora_B.transposed");
  addNode("MatMul", {x, y + ".lora_A.transposed"}, y + ".lora_A");
  addNode("MatMul", {y + ".lora_A", y + ".lora_B.transposed"}, y + ".lora_B");
}

void AdapterWriter::addConvolutions(const proto::NodeProto &node,
                                    const AdapterNodes &adapter) {
  const std::string &y = node.output(0);
  proto::NodeProto &inner =
      addNode("Conv", {node.input(0), adapter.a}, y + ".lora_A");
  *inner.mutable_attribute() = node.attribute();
  addNode("Conv", {y + ".lora_A", adapter.b}, y + ".lora_B");
}

// Adds `node`, a product, and after it the nodes of the adapter.
Error AdapterWriter::addTo(proto::NodeProto node, const AdapterNodes &adapter,
                           int32_t type) {
  const std::string y = node.output(0);
  const bool isConv = node.op_type() == "Conv";
  if (findSource(node.input(1)) != adapter.weight)
    return model.error(ErrorKind::Unsupported,
                       "node '" + node.name() + "' (" + node.op_type() +
                           ") has the weight '" + adapter.weight +
                           "' on the left; leave --unmerged out, which merges "
                           "the adapters");
  node.set_output(0, y + ".base");
  *nodes.Add() = node;
  node.set_output(0, y);
  isConv ? addConvolutions(node, adapter) : addMatrices(node, adapter);
  const proto::AttributeProto *alpha = findNodeAttribute(node, "alpha");
  const double scale =
      adapter.scale * (alpha ? static_cast<double>(alpha->f()) : 1.0);
  std::string change = y + ".lora_B";
  if (scale != 1.0) {
    addScale(y + ".lora.scale", scale, type);
    addNode("Mul", {change, y + ".lora.scale"}, y + ".lora");
    change = y + ".lora";
  }
  addNode("Add", {y + ".base", change}, y).set_name(y + ".lora.sum");
  return Error::success();
}

// Adds an initializer without a value, which is also an input.
void AdapterWriter::addParameter(const std::string &name,
                                 ArrayRef<int64_t> shape, int32_t type) {
  proto::TensorProto &tensor = *graph.add_initializer();
  tensor.set_name(name);
  tensor.set_data_type(type);
  proto::ValueInfoProto &input = *graph.add_input();
  input.set_name(name);
  auto &tensorType = *input.mutable_type()->mutable_tensor_type();
  tensorType.set_elem_type(type);
  for (int64_t extent : shape) {
    tensor.add_dims(extent);
    tensorType.mutable_shape()->add_dim()->set_dim_value(extent);
  }
}

Error AdapterWriter::run() {
  llvm::StringMap<int32_t> types;
  for (const proto::TensorProto &tensor : graph.initializer())
    types[tensor.name()] = tensor.data_type();
  for (const proto::NodeProto &node : graph.node())
    if ((node.op_type() == "Identity" || node.op_type() == "Transpose") &&
        node.input_size() == 1 && node.output_size() == 1)
      views[node.output(0)] = node.input(0);
  llvm::StringMap<const AdapterNodes *> byWeight;
  for (const AdapterNodes &adapter : adapters)
    byWeight[adapter.weight] = &adapter;
  llvm::StringSet<> used;
  for (proto::NodeProto &node : *graph.mutable_node()) {
    const bool isProduct =
        (node.op_type() == "MatMul" || node.op_type() == "Gemm" ||
         node.op_type() == "Conv") &&
        node.input_size() >= 2;
    const AdapterNodes *adapter = nullptr;
    for (int i = 0; isProduct && i < 2 && !adapter; ++i)
      adapter = byWeight.lookup(findSource(node.input(i)));
    if (!adapter) {
      nodes.Add()->Swap(&node);
      continue;
    }
    used.insert(adapter->weight);
    if (Error error = addTo(node, *adapter, types.lookup(adapter->weight)))
      return error;
  }
  for (const AdapterNodes &adapter : adapters) {
    if (!used.contains(adapter.weight))
      return model.error(ErrorKind::Unsupported,
                         "no product of the main graph reads '" +
                             adapter.weight +
                             "'; leave --unmerged out, which merges the "
                             "adapters");
    const int32_t type = types.lookup(adapter.weight);
    addParameter(adapter.a, adapter.shapeA, type);
    addParameter(adapter.b, adapter.shapeB, type);
  }
  graph.mutable_node()->Swap(&nodes);
  return Error::success();
}

Error mpc::onnx_frontend::addAdapterNodes(Model &model,
                                          ArrayRef<AdapterNodes> adapters) {
  return adapters.empty() ? Error::success()
                          : AdapterWriter(model, adapters).run();
}
