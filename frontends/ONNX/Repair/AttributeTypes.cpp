// Gives attributes the type required by the operator.
//
//   - An integer in place of a list becomes a list: 1 becomes [1].
//   - `value_floats` of a Constant becomes a tensor `value`, without a warning.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 11]>
// g (float[2,3] x) => (float[2,1,3] y)
// {
//   y = Unsqueeze <axes: int = 1> (x)
// }
// ```
//
// After:
//
// ```
// y = Unsqueeze <axes: ints = [1]> (x)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Repair/Repair.h"

#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;

// Turns integers in place of lists into lists: some tools write [1] as 1.
static void mendLists(RepairContext &context, proto::NodeProto &node) {
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
    context.warn("node '" + getNodeName(node) + "' (" + node.op_type() +
                 "): attribute '" + attribute.name() +
                 "' is an integer, expected a list; taken as [" +
                 std::to_string(attribute.i()) + "]");
    attribute.set_type(proto::AttributeProto::INTS);
    attribute.add_ints(attribute.i());
    attribute.clear_i();
  }
}

// Turns a Constant's list of floats into a tensor. The list may be a weight,
// but the search for weights and the export handle only tensors.
static void packFloats(proto::NodeProto &node) {
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

llvm::Error mpc::onnx_frontend::mendAttributeTypes(RepairContext &context) {
  proto::ModelProto &file = context.getModel().getProto();
  for (proto::GraphProto *graph : findGraphs(file))
    for (proto::NodeProto &node : *graph->mutable_node()) {
      packFloats(node);
      mendLists(context, node);
    }
  for (proto::FunctionProto &function : *file.mutable_functions())
    for (proto::NodeProto &node : *function.mutable_node())
      mendLists(context, node);
  return llvm::Error::success();
}
