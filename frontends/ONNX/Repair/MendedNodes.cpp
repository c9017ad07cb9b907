// Repairs malformed nodes and lists whose meaning is clear.
//
//   - A Conv bias of zeros with a wrong length is dropped; PyTorch's exporter
//     adds such a bias to a Conv3d without a bias.
//   - If two nodes of a graph have the same name, the second is renamed.
//   - An integer attribute that must be a list becomes a list of one.
//   - `value_floats` of a Constant becomes a tensor, without a warning.
//   - Repeated opset imports and repeated graph outputs are dropped.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17]>
// g (float[1,1,2] x) => (float[1,3,2] y)
// <float[3,1,1] w = {1, 2, 3}, float[1] b = {0}>
// {
//   y = Conv <strides: int = 1> (x, w, b)
// }
// ```
//
// After:
//
// ```
// y = Conv <strides: ints = [1]> (x, w)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/NodeScope.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/MathExtras.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

namespace {
class Mender {
public:
  explicit Mender(RepairContext &context)
      : context(context), model(context.getModel()), scope(model) {}

  void run();

private:
  void keepLastOpsets();
  void keepFirstOutputs(proto::GraphProto &graph);
  void separateNames(NodeScope::Nodes &nodes);
  void collect(const proto::GraphProto &graph);
  std::optional<int64_t> countZeros(StringRef value, int64_t channels);
  void mendBias(proto::NodeProto &node);
  void mendLists(proto::NodeProto &node);
  void packFloats(proto::NodeProto &node);

  RepairContext &context;
  Model &model;
  NodeScope scope;
  /// Initializers and float Constants; other nodes by their results. Null for
  /// names that several graphs define.
  llvm::StringMap<const proto::TensorProto *> tensors;
  llvm::StringMap<const proto::NodeProto *> producers;
  bool saysBias = true, saysName = true;
};
} // namespace

static std::string describe(const proto::NodeProto &node) {
  return "node '" + getNodeName(node) + "' (" + node.op_type() + ")";
}

// If a domain is imported twice, ONNX's own tools use the last import.
void Mender::keepLastOpsets() {
  auto &imports = *model.getProto().mutable_opset_import();
  llvm::StringSet<> seen;
  for (int i = imports.size() - 1; i >= 0; --i)
    if (!seen.insert(normalizeDomain(imports.Get(i).domain())).second)
      imports.DeleteSubrange(i, 1);
}

// Callers tell outputs apart by name, so repeated declarations cannot stay.
void Mender::keepFirstOutputs(proto::GraphProto &graph) {
  llvm::StringSet<> seen;
  auto &outputs = *graph.mutable_output();
  for (int i = 0; i < outputs.size();) {
    if (seen.insert(outputs.Get(i).name()).second) {
      ++i;
      continue;
    }
    context.warn("graph output '" + outputs.Get(i).name() +
                 "' is declared twice; the second declaration is left "
                 "out");
    outputs.DeleteSubrange(i, 1);
  }
}

// ONNX Runtime refuses a graph with two nodes of the same name.
void Mender::separateNames(NodeScope::Nodes &nodes) {
  llvm::StringSet<> all, seen;
  for (const proto::NodeProto &node : nodes)
    all.insert(node.name());
  for (proto::NodeProto &node : nodes) {
    if (node.name().empty() || seen.insert(node.name()).second)
      continue;
    std::string name;
    for (int i = 1; name.empty() || !all.insert(name).second; ++i)
      name = node.name() + "_" + std::to_string(i);
    if (saysName)
      context.warn("two nodes have the name '" + node.name() +
                   "'; the second is taken as '" + name + "'");
    saysName = false;
    seen.insert(name);
    node.set_name(name);
  }
}

void Mender::collect(const proto::GraphProto &graph) {
  // A name that two graphs define is ambiguous.
  auto add = [](auto &map, StringRef name, auto *what) {
    auto [entry, isNew] = map.try_emplace(name, what);
    if (!isNew)
      entry->second = nullptr;
  };
  for (const proto::TensorProto &tensor : graph.initializer())
    add(tensors, tensor.name(), &tensor);
  for (const proto::NodeProto &node : graph.node()) {
    if (const proto::TensorProto *tensor = findConstantTensor(node))
      add(tensors, node.output(0), tensor);
    for (const std::string &output : node.output())
      add(producers, output, &node);
  }
}

static bool hasElements(const proto::TensorProto &tensor, int64_t count) {
  int64_t found = 1;
  for (int64_t extent : tensor.dims())
    if (llvm::MulOverflow(found, extent, found))
      return false;
  return found == count;
}

// Counts the zeros in `value`, the bias of a Conv of `channels`; nullopt if it
// has other values or the right length.
std::optional<int64_t> Mender::countZeros(StringRef value, int64_t channels) {
  const proto::TensorProto *tensor = tensors.lookup(value);
  const proto::NodeProto *node = producers.lookup(value);
  // ConstantOfShape without the attribute `value` gives zeros.
  const bool isFilled = !tensor && node &&
                        node->op_type() == "ConstantOfShape" &&
                        node->input_size() == 1 && node->attribute_size() == 0;
  if (isFilled) {
    int64_t count = 1;
    const auto shape = scope.readIntegers(node->input(0));
    for (int64_t extent : shape.value_or(llvm::SmallVector<int64_t>()))
      if (llvm::MulOverflow(count, extent, count))
        return std::nullopt;
    return shape ? std::optional(count) : std::nullopt;
  }
  if (!tensor || hasElements(*tensor, channels))
    return std::nullopt;
  llvm::Expected<HostTensor> values = model.decode(*tensor, "tensor");
  // Drop the error: the import will report the tensor.
  if (!values)
    return llvm::consumeError(values.takeError()), std::nullopt;
  const int64_t count = values->getNumElements();
  const bool isZeros = values->isFloat() && values->isSplat() && count > 0 &&
                       values->getDouble(0) == 0;
  return isZeros ? std::optional(count) : std::nullopt;
}

// PyTorch's exporter gives a Conv3d without a bias a bias of zeros, by mistake
// of shape [M, 2].
void Mender::mendBias(proto::NodeProto &node) {
  if (node.op_type() != "Conv" || node.input_size() != 3 ||
      node.input(2).empty())
    return;
  const proto::TensorProto *weight = tensors.lookup(node.input(1));
  if (!weight || weight->dims_size() == 0)
    return;
  const std::optional<int64_t> count =
      countZeros(node.input(2), weight->dims(0));
  if (!count || *count == weight->dims(0))
    return;
  if (saysBias)
    context.warn(describe(node) + ": a bias of " + std::to_string(*count) +
                 " zeros, expected " + std::to_string(weight->dims(0)) +
                 "; taken as none");
  saysBias = false;
  node.mutable_input()->RemoveLast();
}

// Some tools write a list of one integer as an integer.
void Mender::mendLists(proto::NodeProto &node) {
  static const llvm::StringSet<> lists = {
      "axes",           "dilations",    "ends",   "kernel_shape",
      "output_padding", "output_shape", "pads",   "perm",
      "shape",          "split",        "starts", "strides"};
  if (!normalizeDomain(node.domain()).empty())
    return;
  for (proto::AttributeProto &attribute : *node.mutable_attribute()) {
    if (attribute.type() != proto::AttributeProto::INT ||
        !lists.contains(attribute.name()))
      continue;
    context.warn(describe(node) + ": attribute '" + attribute.name() +
                 "' is an integer, expected a list; taken as [" +
                 std::to_string(attribute.i()) + "]");
    attribute.set_type(proto::AttributeProto::INTS);
    attribute.add_ints(attribute.i());
    attribute.clear_i();
  }
}

// Turns a list of floats into a tensor. A weight may be a list, but searches
// and writers of weights handle only tensors.
void Mender::packFloats(proto::NodeProto &node) {
  if (node.op_type() != "Constant" || !normalizeDomain(node.domain()).empty())
    return;
  for (proto::AttributeProto &attribute : *node.mutable_attribute()) {
    if (attribute.name() != "value_floats" ||
        attribute.type() != proto::AttributeProto::FLOATS)
      continue;
    proto::TensorProto &tensor = *attribute.mutable_t();
    tensor.set_data_type(proto::TensorProto::FLOAT);
    tensor.add_dims(attribute.floats_size());
    tensor.mutable_float_data()->CopyFrom(attribute.floats());
    attribute.clear_floats();
    attribute.set_type(proto::AttributeProto::TENSOR);
    attribute.set_name("value");
  }
}

void Mender::run() {
  proto::ModelProto &file = model.getProto();
  keepLastOpsets();
  keepFirstOutputs(*file.mutable_graph());
  std::vector<proto::GraphProto *> graphs = findGraphs(file);
  for (proto::GraphProto *graph : graphs)
    for (proto::NodeProto &node : *graph->mutable_node())
      packFloats(node);
  for (const proto::GraphProto *graph : graphs)
    collect(*graph);
  for (proto::GraphProto *graph : graphs) {
    separateNames(*graph->mutable_node());
    for (proto::NodeProto &node : *graph->mutable_node()) {
      mendBias(node);
      mendLists(node);
    }
  }
  for (proto::FunctionProto &function : *file.mutable_functions())
    for (proto::NodeProto &node : *function.mutable_node())
      mendLists(node);
}

llvm::Error mpc::onnx_frontend::mendNodes(RepairContext &context) {
  Mender(context).run();
  return llvm::Error::success();
}
