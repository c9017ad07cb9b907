// Rewrites the ops with a training mode, BatchNormalization and Dropout.
//
// | op | opset | training mode is | inference mode is |
// |---|---|---|---|
// | BatchNorm | 1 to 6 | is_test = 0, up to 5 outputs | is_test = 1, 1 output |
// | BatchNorm | 7 to 13 | up to 5 outputs | 1 output |
// | BatchNorm | 14 on | training_mode = 1, up to 3 outputs | 1 output |
// | Dropout | 1 to 6 | is_test = 0 | is_test = 1 |
// | Dropout | 7 to 11 | cannot be expressed | always |
// | Dropout | 12 on | third input | two inputs |
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Export/InferenceMode.h"

#include "frontends/ONNX/Model/Model.h"

#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

namespace {
using Nodes = google::protobuf::RepeatedPtrField<proto::NodeProto>;
using Opsets = google::protobuf::RepeatedPtrField<proto::OperatorSetIdProto>;

/// Rewrites one list of nodes: a graph's or a function's.
class InferenceMode {
public:
  InferenceMode(int64_t opset, llvm::StringSet<> read)
      : opset(opset), read(std::move(read)) {}

  void rewrite(Nodes &nodes);

private:
  /// Rewrites a BatchNormalization. Returns nodes to insert after `node`.
  std::vector<proto::NodeProto> rewriteBatchNorm(proto::NodeProto &node);
  void rewriteDropout(proto::NodeProto &node);
  bool isRead(const proto::NodeProto &node, int output) const {
    return output < node.output_size() && !node.output(output).empty() &&
           read.contains(node.output(output));
  }

  int64_t opset;
  /// The names of values that have readers.
  llvm::StringSet<> read;
};
} // namespace

static void setIsTest(proto::NodeProto &node) {
  for (proto::AttributeProto &attribute : *node.mutable_attribute())
    if (attribute.name() == "is_test")
      return attribute.set_i(1);
  proto::AttributeProto *attribute = node.add_attribute();
  attribute->set_name("is_test");
  attribute->set_type(proto::AttributeProto::INT);
  attribute->set_i(1);
}

std::vector<proto::NodeProto>
InferenceMode::rewriteBatchNorm(proto::NodeProto &node) {
  std::vector<proto::NodeProto> added;
  // Outputs 3 and 4 hold statistics that a gradient node reads. If either has
  // readers, the node stays in training mode.
  if (node.input_size() < 5 || isRead(node, 3) || isRead(node, 4))
    return added;
  // In inference mode the running statistics do not change. Readers of the
  // updated statistics, outputs 1 and 2, get inputs 3 and 4 through Identity
  // nodes.
  for (int output : {1, 2}) {
    if (!isRead(node, output))
      continue;
    proto::NodeProto &identity = added.emplace_back();
    identity.set_op_type("Identity");
    identity.add_input(node.input(output + 2));
    identity.add_output(node.output(output));
  }
  // In inference mode the node has one output.
  while (node.output_size() > 1)
    node.mutable_output()->RemoveLast();
  if (opset < 7)
    setIsTest(node);
  auto *attributes = node.mutable_attribute();
  for (int i = attributes->size() - 1; i >= 0; --i)
    if (attributes->Get(i).name() == "training_mode")
      attributes->DeleteSubrange(i, 1);
  return added;
}

void InferenceMode::rewriteDropout(proto::NodeProto &node) {
  if (opset < 7)
    return setIsTest(node);
  if (opset < 12)
    return;
  while (node.input_size() > 2)
    node.mutable_input()->RemoveLast();
  // Remove empty names at the end: an absent ratio leaves the data as the only
  // input.
  while (node.input_size() > 1 && node.input(node.input_size() - 1).empty())
    node.mutable_input()->RemoveLast();
}

// Inserts `node` into `nodes` at index `position`. The Identity of an output
// stands directly behind the node that had the output, so before all readers.
static void insert(Nodes &nodes, proto::NodeProto node, int position) {
  nodes.Add()->Swap(&node);
  for (int i = nodes.size() - 1; i > position; --i)
    nodes.SwapElements(i, i - 1);
}

void InferenceMode::rewrite(Nodes &nodes) {
  for (int i = 0; i < nodes.size(); ++i) {
    proto::NodeProto &node = *nodes.Mutable(i);
    if (!normalizeDomain(node.domain()).empty())
      continue;
    if (node.op_type() == "Dropout")
      rewriteDropout(node);
    if (node.op_type() == "BatchNormalization")
      for (proto::NodeProto &identity : rewriteBatchNorm(node))
        insert(nodes, std::move(identity), ++i);
  }
}

//===----------------------------------------------------------------------===//
// The lists of nodes of a model
//===----------------------------------------------------------------------===//

static int64_t getOpset(const Opsets &imports) {
  int64_t opset = 0;
  for (const proto::OperatorSetIdProto &import : imports)
    if (normalizeDomain(import.domain()).empty())
      opset = import.version();
  return opset;
}

// Returns the node list `nodes` and the node lists of all bodies below. Adds
// the outputs of bodies to `read`, because the node around a body reads them.
static std::vector<Nodes *> collectNodes(Nodes &nodes,
                                         llvm::StringSet<> &read) {
  std::vector<Nodes *> lists = {&nodes};
  auto add = [&](proto::GraphProto &graph) {
    for (const proto::ValueInfoProto &output : graph.output())
      read.insert(output.name());
    lists.push_back(graph.mutable_node());
  };
  for (size_t i = 0; i < lists.size(); ++i)
    for (proto::NodeProto &node : *lists[i])
      for (proto::AttributeProto &attribute : *node.mutable_attribute()) {
        if (attribute.has_g())
          add(*attribute.mutable_g());
        for (proto::GraphProto &graph : *attribute.mutable_graphs())
          add(graph);
      }
  return lists;
}

static void setInferenceMode(Nodes &nodes, llvm::StringSet<> read,
                             const Opsets &imports) {
  std::vector<Nodes *> lists = collectNodes(nodes, read);
  for (Nodes *list : lists)
    for (const proto::NodeProto &node : *list)
      read.insert(node.input().begin(), node.input().end());
  InferenceMode mode(getOpset(imports), std::move(read));
  for (Nodes *list : lists)
    mode.rewrite(*list);
}

void mpc::onnx_frontend::setInferenceMode(proto::ModelProto &model) {
  llvm::StringSet<> outputs;
  for (const proto::ValueInfoProto &output : model.graph().output())
    outputs.insert(output.name());
  ::setInferenceMode(*model.mutable_graph()->mutable_node(), std::move(outputs),
                     model.opset_import());
  for (proto::FunctionProto &function : *model.mutable_functions()) {
    llvm::StringSet<> results;
    results.insert(function.output().begin(), function.output().end());
    ::setInferenceMode(*function.mutable_node(), std::move(results),
                       function.opset_import_size() > 0
                           ? function.opset_import()
                           : model.opset_import());
  }
}
