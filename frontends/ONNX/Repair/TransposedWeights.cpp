// Restores weights transposed by PyTorch's exporter.
//
// Restores name and layout of the weights of linear layers. For y = x Wᵀ the
// exporter writes only Wᵀ, under a made-up name like "val_7". Afterwards the
// file has W and a Transpose. So name patterns, PyTorch checkpoints and
// exported weights use the name of the parameter.
//
// Before:
//
// ```
// <ir_version: 10, opset_import: ["" : 18], producer_name: "pytorch">
// # pkg.torch.export.ExportedProgram.graph_signature:
//     p_fc_weight: PARAMETER target='fc.weight'
// g (float[1,2] x) => (float[1,3] y)
// <
//   # pkg.onnxscript.optimizer.folded_from: ['fc.weight']
//   float[2,3] val_0 = {1, 2, 3, 4, 5, 6}
// >
// {
//   # pkg.torch.onnx.fx_node: %linear : call_function[target=
//       torch.ops.aten.linear.default](args = (%x, %p_fc_weight),
//       kwargs = {})
//   y = MatMul (x, val_0)
// }
// ```
//
// After:
//
// ```
// # pkg.torch.export.graph_signature.InputSpec.kind: PARAMETER
// # pkg.torch.onnx.original_node_name: p_fc_weight
// float[3,2] "fc.weight" = {1, 4, 2, 5, 3, 6}
// ...
// [transpose_of_val_0] val_0 = Transpose <perm: ints = [1, 0]> ("fc.weight")
// ...
// y = MatMul (x, val_0)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/TransposedWeights.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/HostTensor.h"
#include "frontends/ONNX/Model/Metadata.h"
#include "frontends/ONNX/Repair/Repair.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

namespace {
class WeightRestorer {
public:
  explicit WeightRestorer(RepairContext &context)
      : model(context.getModel()), graph(context.getGraph()),
        taken(context.findNames()) {}

  std::string run();

private:
  void collect();
  StringRef findProgramName(const proto::NodeProto &node);

  Model &model;
  proto::GraphProto &graph;
  const llvm::MapVector<StringRef, StringRef> &signature =
      model.getProgram().signature;
  llvm::StringSet<> taken;
  /// For each initializer folded from a single parameter: the name of the
  /// parameter.
  llvm::StringMap<StringRef> foldedFrom;
  llvm::StringMap<proto::ValueInfoProto *> values;
  /// Initializers that a linear layer reads as its weight: these are transposed
  /// parameters.
  llvm::StringSet<> transposed;
};
} // namespace

void WeightRestorer::collect() {
  // Find initializers folded from one parameter, by the exporter's metadata
  // "folded_from".
  for (proto::ValueInfoProto &value : *graph.mutable_value_info()) {
    auto sources = readFoldedParameters(value);
    if (sources.size() != 1 || !isExportersName(value.name()))
      continue;
    foldedFrom.try_emplace(value.name(), sources[0]);
    values.try_emplace(value.name(), &value);
  }
  // Inputs and outputs must keep their names.
  for (const auto *list : {&graph.input(), &graph.output()})
    for (const proto::ValueInfoProto &value : *list)
      foldedFrom.erase(value.name());
  // If a linear layer reads a folded initializer as weight, the initializer is
  // the transposed parameter.
  for (const proto::NodeProto &node : graph.node()) {
    if (node.input_size() < 2)
      continue;
    auto folded = foldedFrom.find(node.input(1));
    if (folded != foldedFrom.end() && findProgramName(node) == folded->second)
      transposed.insert(node.input(1));
  }
}

// Returns the name in PyTorch of a linear layer's weight, by the call in the
// metadata. Empty if `node` is no linear layer, or has transB.
StringRef WeightRestorer::findProgramName(const proto::NodeProto &node) {
  StringRef op = node.op_type();
  if (!node.domain().empty() || (op != "MatMul" && op != "Gemm"))
    return {};
  for (const proto::AttributeProto &attribute : node.attribute())
    if (attribute.name() == "transB" && attribute.i() != 0)
      return {};
  ProgramCall call = readCall(node);
  std::optional<int> argument = findArgument(call, op, 1);
  if (!argument || !call.target.contains(".linear."))
    return {};
  std::optional<StringRef> source = call.findSource(*argument);
  return source ? signature.lookup(*source) : StringRef();
}

std::string WeightRestorer::run() {
  if (signature.empty())
    return {};
  collect();
  std::vector<std::pair<std::string, std::string>> matrices;
  for (proto::TensorProto &tensor : *graph.mutable_initializer()) {
    const std::string former = tensor.name();
    // Skip a weight whose parameter the file has, too: joinInitializers joins
    // the two.
    if (!transposed.contains(former) || tensor.dims_size() != 2 ||
        !holdsFloats(tensor) || taken.contains(foldedFrom.lookup(former)))
      continue;
    const std::string name = foldedFrom.lookup(former).str();
    if (!transposeInitializer(model, tensor, name))
      continue;
    taken.insert(name);
    matrices.emplace_back(name, former);
  }
  if (matrices.empty())
    return {};
  // Give the restored parameters the exporter's metadata of parameters.
  llvm::StringMap<StringRef> sources;
  for (auto [source, name] : signature)
    sources.try_emplace(name, source);
  for (const auto &[name, former] : matrices) {
    values.lookup(former)->clear_metadata_props();
    describeInitializer(graph, name, sources.lookup(name));
  }
  addTransposes(graph, matrices);
  std::vector<std::string> done;
  for (const auto &matrix : matrices)
    done.push_back("'" + matrix.first + "'");
  return "the exporter transposed weights, which have their name and layout "
         "again: " +
         listFirst(done, 1);
}

llvm::Error mpc::onnx_frontend::restoreWeights(RepairContext &context) {
  context.note(WeightRestorer(context).run());
  return llvm::Error::success();
}

bool mpc::onnx_frontend::transposeInitializer(Model &model,
                                              proto::TensorProto &matrix,
                                              StringRef name) {
  const int64_t rows = matrix.dims(0), columns = matrix.dims(1);
  if (matrix.data_location() == proto::TensorProto::EXTERNAL) {
    model.readTransposed(matrix);
  } else {
    llvm::Expected<HostTensor> values = model.decode(matrix, "initializer");
    if (!values) {
      // Drop the error: the import reports undecodable tensors.
      llvm::consumeError(values.takeError());
      return false;
    }
    HostTensor turned = values->transpose();
    matrix.clear_float_data();
    matrix.clear_double_data();
    matrix.clear_int32_data();
    matrix.set_raw_data(turned.data.data(), turned.data.size());
  }
  matrix.set_dims(0, columns);
  matrix.set_dims(1, rows);
  model.setFormerName(name, matrix.name());
  matrix.set_name(name.str());
  return true;
}

// Adds a Transpose from `from` to `to` at the end of the graph's nodes.
static proto::NodeProto *addTranspose(proto::GraphProto &graph,
                                      const std::string &from,
                                      const std::string &to) {
  proto::NodeProto &node = *graph.add_node();
  node.set_name("transpose_of_" + to);
  node.set_op_type("Transpose");
  node.add_input(from);
  node.add_output(to);
  proto::AttributeProto &perm = *node.add_attribute();
  perm.set_name("perm");
  perm.set_type(proto::AttributeProto::INTS);
  perm.add_ints(1);
  perm.add_ints(0);
  return &node;
}

void mpc::onnx_frontend::addTransposes(
    proto::GraphProto &graph,
    llvm::ArrayRef<std::pair<std::string, std::string>> matrices) {
  const int former = graph.node_size();
  llvm::MapVector<StringRef, proto::NodeProto *> pending;
  for (const auto &[from, to] : matrices)
    pending[to] = addTranspose(graph, from, to);
  // Place each Transpose before the first reader. Place all before a node with
  // bodies, because a body may read any.
  auto &nodes = *graph.mutable_node();
  std::vector<proto::NodeProto *> order;
  auto place = [&](proto::NodeProto *&transpose) {
    if (transpose)
      order.push_back(std::exchange(transpose, nullptr));
  };
  for (int i = 0; i < former; ++i) {
    proto::NodeProto *node = nodes.Mutable(i);
    if (!getBodies(*node).empty())
      for (auto &entry : pending)
        place(entry.second);
    for (const std::string &input : node->input())
      if (auto it = pending.find(input); it != pending.end())
        place(it->second);
    order.push_back(node);
  }
  for (auto &entry : pending)
    place(entry.second);
  // Write the nodes back in the new order.
  llvm::copy(order, nodes.pointer_begin());
}
