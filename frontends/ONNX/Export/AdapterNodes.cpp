// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/AdapterNodes.h"

#include "frontends/ONNX/Model/Graph.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringMap.h"

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
  void findWeights();
  std::string findSource(std::string name) const;
  const AdapterNodes *findAdapter(const proto::NodeProto &node) const;
  Error addTo(proto::NodeProto node, const AdapterNodes &adapter);
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
  /// The element type of each initializer, a proto::TensorProto::DataType.
  llvm::StringMap<int32_t> types;
  /// The adapters by the name of the weight, and by the name of a MatMulNBits
  /// node, whose weight has no name.
  llvm::StringMap<const AdapterNodes *> byWeight, byProduct;
  /// The element type of each adapter's matrices.
  llvm::DenseMap<const AdapterNodes *, int32_t> typeOf;
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
Error AdapterWriter::addTo(proto::NodeProto node, const AdapterNodes &adapter) {
  const std::string y = node.output(0);
  const bool isConv = node.op_type() == "Conv";
  if (!byProduct.contains(getNodeName(node)) &&
      byWeight.lookup(findSource(node.input(1))) != &adapter)
    return model.error(ErrorKind::Unsupported,
                       "node '" + node.name() + "' (" + node.op_type() +
                           ") has the weight '" + adapter.module +
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
    addScale(y + ".lora.scale", scale, typeOf.lookup(&adapter));
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

// Finds the tensor or the product of each adapter, and the element type of the
// matrices A and B: the type of the weight or, if quantized, of the scales.
void AdapterWriter::findWeights() {
  llvm::StringMap<const AdapterNodes *> byModule;
  for (const AdapterNodes &adapter : adapters) {
    if (adapter.weight.empty()) {
      byModule[adapter.module] = &adapter;
      continue;
    }
    byWeight[adapter.weight] = &adapter;
    typeOf[&adapter] = types.lookup(adapter.weight);
  }
  for (const proto::NodeProto &node : graph.node()) {
    const AdapterNodes *adapter = byModule.lookup(getNodeName(node));
    const bool isProduct = node.op_type() == "MatMulNBits";
    const int scales = isProduct ? 2 : 1;
    if (!adapter || node.output_size() == 0 || node.input_size() <= scales)
      continue;
    if (isProduct)
      byProduct[getNodeName(node)] = adapter;
    else
      byWeight[node.output(0)] = adapter;
    auto type = types.find(node.input(scales));
    typeOf[adapter] =
        type == types.end() ? proto::TensorProto::FLOAT : type->second;
  }
}

// Returns the adapter of a product; null if `node` has none.
const AdapterNodes *
AdapterWriter::findAdapter(const proto::NodeProto &node) const {
  const bool isProduct = node.op_type() == "MatMul" ||
                         node.op_type() == "Gemm" || node.op_type() == "Conv";
  const AdapterNodes *adapter = byProduct.lookup(getNodeName(node));
  for (int i = 0; isProduct && node.input_size() >= 2 && i < 2 && !adapter; ++i)
    adapter = byWeight.lookup(findSource(node.input(i)));
  return adapter;
}

Error AdapterWriter::run() {
  for (const proto::TensorProto &tensor : graph.initializer())
    types[tensor.name()] = tensor.data_type();
  for (const proto::NodeProto &node : graph.node())
    if ((node.op_type() == "Identity" || node.op_type() == "Transpose") &&
        node.input_size() == 1 && node.output_size() == 1)
      views[node.output(0)] = node.input(0);
  findWeights();
  llvm::DenseSet<const AdapterNodes *> used;
  for (proto::NodeProto &node : *graph.mutable_node()) {
    const AdapterNodes *adapter = findAdapter(node);
    if (!adapter) {
      nodes.Add()->Swap(&node);
      continue;
    }
    used.insert(adapter);
    if (Error error = addTo(node, *adapter))
      return error;
  }
  for (const AdapterNodes &adapter : adapters) {
    const bool isQuantized = adapter.weight.empty();
    if (!used.contains(&adapter))
      return model.error(
          ErrorKind::Unsupported,
          "no product of the main graph reads '" +
              (isQuantized ? adapter.module : adapter.weight) + "'; " +
              (isQuantized ? "write the adapters alone, with --trained-only"
                           : "leave --unmerged out, which merges the "
                             "adapters"));
    addParameter(adapter.a, adapter.shapeA, typeOf.lookup(&adapter));
    addParameter(adapter.b, adapter.shapeB, typeOf.lookup(&adapter));
  }
  graph.mutable_node()->Swap(&nodes);
  return Error::success();
}

Error mpc::onnx_frontend::addAdapterNodes(Model &model,
                                          ArrayRef<AdapterNodes> adapters) {
  return adapters.empty() ? Error::success()
                          : AdapterWriter(model, adapters).run();
}
