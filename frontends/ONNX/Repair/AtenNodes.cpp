// Replaces calls of PyTorch's own operators (ATen) by ONNX nodes.
//
// ONNX Runtime's exporter of modules (ORTModule) writes ATen nodes, each of
// which calls an operator by name. Replaces calls of embedding, of
// max_pool2d_with_indices, of _adaptive_avg_pool2d with an output of 1 x 1, and
// of the two backward operators. A call whose settings are not constant stays.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17, "org.pytorch.aten" : 1]>
// g (int64[2] ids) => (float[2,2] y)
// <float[3,2] w = {1, 2, 3, 4, 5, 6}, int64 padding = {-1}, bool no = {0}>
// {
//   y = org.pytorch.aten.ATen <operator: string = "embedding">
//       (w, ids, padding, no, no)
// }
// ```
//
// After:
//
// ```
// y = Gather (w, ids)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/AtenNodes.h"

#include "frontends/ONNX/Model/ExportedProgram.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/NodeScope.h"
#include "frontends/ONNX/Repair/Repair.h"

#include <map>

using namespace mpc::onnx_frontend;
using llvm::ArrayRef;
using llvm::SmallVector;
using llvm::StringRef;

StringRef mpc::onnx_frontend::getAtenOperator(const proto::NodeProto &node) {
  if (node.op_type() != "ATen")
    return {};
  for (const proto::AttributeProto &attribute : node.attribute())
    if (attribute.name() == "operator") {
      StringRef name = attribute.s();
      name.consume_front("aten::");
      return name;
    }
  return {};
}

namespace {
class AtenReplacer {
public:
  explicit AtenReplacer(Model &model)
      : graph(*model.getProto().mutable_graph()), scope(model) {}

  std::string run();

private:
  std::optional<int64_t> readInteger(const proto::NodeProto &node, int input);
  bool replace(proto::NodeProto &node, StringRef called);
  bool replaceEmbedding(proto::NodeProto &node);
  bool replaceMaxPool(proto::NodeProto &node);
  bool replaceMaxPoolGrad(proto::NodeProto &node);
  bool replaceMean(proto::NodeProto &node);
  bool replaceMeanGrad(proto::NodeProto &node);

  proto::GraphProto &graph;
  NodeScope scope;
  /// The number of replaced calls of each operator.
  std::map<std::string, int> done;
};
} // namespace

// Turns `node` into the ONNX op `op` with `inputs`, and removes all attributes.
// The name and the outputs of the node stay.
static void setOp(proto::NodeProto &node, StringRef op,
                  std::vector<std::string> inputs) {
  node.clear_domain();
  node.set_op_type(op.str());
  node.clear_attribute();
  node.clear_input();
  for (std::string &input : inputs)
    node.add_input(std::move(input));
}

static void addIntegers(proto::NodeProto &node, StringRef name,
                        ArrayRef<int64_t> values) {
  proto::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name(name.str());
  attribute.set_type(proto::AttributeProto::INTS);
  for (int64_t value : values)
    attribute.add_ints(value);
}

std::optional<int64_t> AtenReplacer::readInteger(const proto::NodeProto &node,
                                                 int input) {
  auto values = scope.readIntegers(node.input(input));
  if (!values || values->size() != 1)
    return std::nullopt;
  return values->front();
}

// Replaces embedding(weight, indices, padding_idx, scale_grad_by_freq, sparse)
// by a Gather.
bool AtenReplacer::replaceEmbedding(proto::NodeProto &node) {
  if (node.input_size() < 2 || node.input_size() > 5)
    return false;
  int64_t padding = -1;
  if (node.input_size() > 2) {
    std::optional<int64_t> given = readInteger(node, 2);
    if (!given)
      return false;
    padding = *given;
  }
  // Keep a call with scale_grad_by_freq, which divides the gradient of each row
  // by the number of reads of the row. ONNX has no op for this division.
  if (node.input_size() > 3 && readInteger(node, 3) != 0)
    return false;
  setOp(node, "Gather", {node.input(0), node.input(1)});
  // Write the metadata that PyTorch's newer exporter writes: the importer then
  // knows the padding row, which is not trained. Row -1 means "no padding row";
  // without metadata the importer would guess a row.
  auto *entry = node.add_metadata_props();
  entry->set_key(kProgramCall.str());
  entry->set_value("%embedding : [num_users=1] = call_function[target=" +
                   kEmbeddingTarget.str() +
                   "default](args = (%weight, %indices, " +
                   std::to_string(padding) + "), kwargs = {})");
  return true;
}

// Replaces max_pool2d_with_indices(x, kernel_size, stride, padding, dilation,
// ceil_mode) by a MaxPool.
bool AtenReplacer::replaceMaxPool(proto::NodeProto &node) {
  if (node.input_size() != 6)
    return false;
  std::optional<SmallVector<int64_t>> window[4];
  for (int i = 0; i < 4; ++i) {
    window[i] = scope.readIntegers(node.input(1 + i));
    if (!window[i])
      return false;
    if (window[i]->size() == 1)
      window[i]->push_back(window[i]->front());
  }
  auto &[kernel, strides, padding, dilations] = window;
  std::optional<int64_t> roundsUp = readInteger(node, 5);
  // PyTorch's default stride is the window size.
  if (strides->empty())
    strides = kernel;
  if (!roundsUp || kernel->size() != 2 || strides->size() != 2 ||
      padding->size() != 2 || dilations->size() != 2)
    return false;
  setOp(node, "MaxPool", {node.input(0)});
  addIntegers(node, "kernel_shape", *kernel);
  addIntegers(node, "strides", *strides);
  addIntegers(node, "dilations", *dilations);
  addIntegers(node, "pads",
              {(*padding)[0], (*padding)[1], (*padding)[0], (*padding)[1]});
  proto::AttributeProto &attribute = *node.add_attribute();
  attribute.set_name("ceil_mode");
  attribute.set_type(proto::AttributeProto::INT);
  attribute.set_i(*roundsUp);
  return true;
}

// Replaces max_pool2d_with_indices_backward(gradient, x, kernel_size, stride,
// padding, dilation, ceil_mode, indices) by MaxPoolGrad(gradient, indices). The
// importer takes the settings of MaxPoolGrad from the forward node.
bool AtenReplacer::replaceMaxPoolGrad(proto::NodeProto &node) {
  if (node.input_size() != 8)
    return false;
  setOp(node, "MaxPoolGrad", {node.input(0), node.input(7)});
  return true;
}

// _adaptive_avg_pool2d(x, output_size).
bool AtenReplacer::replaceMean(proto::NodeProto &node) {
  if (node.input_size() != 2)
    return false;
  auto size = scope.readIntegers(node.input(1));
  if (!size || size->empty() || size->size() > 2 ||
      llvm::any_of(*size, [](int64_t extent) { return extent != 1; }))
    return false;
  setOp(node, "GlobalAveragePool", {node.input(0)});
  return true;
}

// Replaces _adaptive_avg_pool2d_backward(gradient, x) by GlobalAveragePoolGrad,
// which is right if the pooling has an output of 1 x 1. For a gradient of more
// than one pixel, the import reports an error.
bool AtenReplacer::replaceMeanGrad(proto::NodeProto &node) {
  if (node.input_size() != 2)
    return false;
  setOp(node, "GlobalAveragePoolGrad", {node.input(0), node.input(1)});
  return true;
}

bool AtenReplacer::replace(proto::NodeProto &node, StringRef called) {
  if (called == "embedding")
    return replaceEmbedding(node);
  if (called == "max_pool2d_with_indices")
    return replaceMaxPool(node);
  if (called == "max_pool2d_with_indices_backward")
    return replaceMaxPoolGrad(node);
  if (called == "_adaptive_avg_pool2d")
    return replaceMean(node);
  if (called == "_adaptive_avg_pool2d_backward")
    return replaceMeanGrad(node);
  return false;
}

std::string AtenReplacer::run() {
  for (proto::GraphProto *part : findGraphs(graph))
    for (proto::NodeProto &node : *part->mutable_node())
      if (std::string called = getAtenOperator(node).str(); !called.empty())
        if (replace(node, called))
          ++done[called];
  if (done.empty())
    return {};
  // A single note lists all replaced operators, with the number of calls.
  std::string list;
  for (const auto &[called, count] : done)
    list += (list.empty() ? "" : ", ") + called + " x" + std::to_string(count);
  return "calls of PyTorch's operators (ATen) are taken for the ops of ONNX "
         "that do the same: " +
         list;
}

llvm::Error mpc::onnx_frontend::replaceAtenNodes(RepairContext &context) {
  // Most files have no ATen nodes, so build no view of their names.
  const bool hasCalls =
      llvm::any_of(findGraphs(context.getGraph()), [](const auto *part) {
        return llvm::any_of(part->node(), [](const proto::NodeProto &node) {
          return !getAtenOperator(node).empty();
        });
      });
  if (hasCalls)
    context.note(AtenReplacer(context.getModel()).run());
  return llvm::Error::success();
}
