// Drops attributes with remarks for people.
//
// Editors of graphs store remarks about a node in attributes like
// 'description'. ONNX Runtime refuses files with unknown attributes. Drops text
// attributes of ONNX and com.microsoft nodes if no operator defines an
// attribute of the name. Numeric attributes stay, because an operator may
// compute with the number.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17]>
// g (float[2] x) => (float[2] y)
// {
//   y = Relu <description: string = "the last layer"> (x)
// }
// ```
//
// After:
//
// ```
// y = Relu (x)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Repair/Repair.h"

#include "frontends/ONNX/Model/Graph.h"

#include "llvm/ADT/MapVector.h"

using namespace mpc::onnx_frontend;
using llvm::StringRef;

// True if some operator of ONNX or com.microsoft defines a text attribute
// `name`.
static bool saysWhatToCompute(StringRef name) {
  static const llvm::StringSet<> known = {
      // ai.onnx and ai.onnx.preview.training
      "activations", "approximate", "auto_pad", "case_change_action",
      "coordinate_transformation_mode", "delimiter", "direction", "equation",
      "keep_aspect_ratio_policy", "locale", "map_form", "mode", "nearest_mode",
      "norm", "padding_mode", "pattern", "pixel_format", "pool_strings",
      "reduction", "round_mode", "stopwords", "string_vocabulary", "to",
      "value_string", "value_strings", "xs", "y", "zs",
      // Text attributes of the operators of com.microsoft
      "activation", "activation_type", "func_name", "k_quant_type", "metric",
      "name", "norm_type", "operator", "overload_name", "pad_value",
      "quant_type", "separators", "tokenexp", "update_rule", "v_quant_type"};
  return known.contains(name);
}

namespace {
/// For an attribute name, the nodes from which the attribute is dropped: the
/// first node as text, and the number of nodes.
struct Found {
  std::string first;
  unsigned nodes = 0;
};
} // namespace

static bool isComment(const proto::AttributeProto &attribute) {
  bool isText = attribute.type() == proto::AttributeProto::STRING ||
                attribute.type() == proto::AttributeProto::STRINGS;
  // Keep a text attribute if a graph is attached to it: other code searches the
  // graph for nodes.
  const bool hasGraph = attribute.has_g() || !attribute.graphs().empty();
  return isText && !hasGraph && attribute.ref_attr_name().empty() &&
         !saysWhatToCompute(attribute.name());
}

static void dropFrom(proto::NodeProto &node,
                     llvm::MapVector<StringRef, Found> &comments,
                     llvm::StringSet<> &names) {
  auto &attributes = *node.mutable_attribute();
  for (const proto::AttributeProto &attribute : attributes) {
    if (!isComment(attribute))
      continue;
    StringRef name = names.insert(attribute.name()).first->getKey();
    Found &found = comments[name];
    if (++found.nodes == 1)
      found.first =
          "node '" + getNodeName(node) + "' (" + getOpName(node) + ")";
  }
  attributes.erase(
      std::remove_if(attributes.begin(), attributes.end(), isComment),
      attributes.end());
}

llvm::Error mpc::onnx_frontend::dropComments(RepairContext &context) {
  proto::ModelProto &file = context.getModel().getProto();
  // Skip calls of the file's own functions, which may define attributes of any
  // name.
  llvm::StringSet<> functions;
  for (const proto::FunctionProto &function : file.functions())
    functions.insert(
        (normalizeDomain(function.domain()) + ":" + function.name()).str());
  llvm::MapVector<StringRef, Found> comments;
  llvm::StringSet<> names;
  auto dropFromAll = [&](auto &nodes) {
    for (proto::NodeProto &node : nodes) {
      StringRef domain = normalizeDomain(node.domain());
      if ((domain.empty() || domain == "com.microsoft") &&
          !functions.contains((domain + ":" + node.op_type()).str()))
        dropFrom(node, comments, names);
    }
  };
  for (proto::GraphProto *graph : findGraphs(file))
    dropFromAll(*graph->mutable_node());
  for (proto::FunctionProto &function : *file.mutable_functions())
    dropFromAll(*function.mutable_node());
  for (const auto &[name, found] : comments) {
    std::string others;
    if (found.nodes > 1)
      others = ", as in " + std::to_string(found.nodes - 1) + " other node" +
               (found.nodes > 2 ? "s" : "");
    context.warn(found.first + ": attribute '" + name.str() +
                 "' is unknown to ONNX; taken as a comment and left out" +
                 others);
  }
  return llvm::Error::success();
}
