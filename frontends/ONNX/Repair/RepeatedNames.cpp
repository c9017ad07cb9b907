// Separates nodes, graph outputs and opset imports that share a name.
//
//   - If two nodes of a graph have the same name, the second is renamed.
//   - A repeated graph output is dropped.
//   - The last of several imports of a domain stays; the reader has warned.
//
// Before:
//
// ```
// <ir_version: 8, opset_import: ["" : 17]>
// g (float[2] x) => (float[2] y)
// {
//   [n] h = Relu (x)
//   [n] y = Neg (h)
// }
// ```
//
// After:
//
// ```
// [n] h = Relu (x)
// [n_1] y = Neg (h)
// ```
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Repair/Repair.h"

#include "llvm/ADT/StringSet.h"

using namespace mpc::onnx_frontend;

// If a domain is imported twice, ONNX's own tools use the last import.
static void keepLastOpsets(proto::ModelProto &file) {
  auto &imports = *file.mutable_opset_import();
  llvm::StringSet<> seen;
  for (int i = imports.size() - 1; i >= 0; --i)
    if (!seen.insert(normalizeDomain(imports.Get(i).domain())).second)
      imports.DeleteSubrange(i, 1);
}

// Callers tell outputs apart by name, so repeated declarations cannot stay.
static void keepFirstOutputs(RepairContext &context) {
  llvm::StringSet<> seen;
  auto &outputs = *context.getGraph().mutable_output();
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
// One warning is enough for a file, and clears `warns`.
static void renameNodes(RepairContext &context, proto::GraphProto &graph,
                        bool &warns) {
  llvm::StringSet<> all, seen;
  for (const proto::NodeProto &node : graph.node())
    all.insert(node.name());
  for (proto::NodeProto &node : *graph.mutable_node()) {
    if (node.name().empty() || seen.insert(node.name()).second)
      continue;
    std::string name;
    for (int i = 1; name.empty() || !all.insert(name).second; ++i)
      name = node.name() + "_" + std::to_string(i);
    if (warns)
      context.warn("two nodes have the name '" + node.name() +
                   "'; the second is taken as '" + name + "'");
    warns = false;
    seen.insert(name);
    node.set_name(name);
  }
}

llvm::Error mpc::onnx_frontend::separateNames(RepairContext &context) {
  proto::ModelProto &file = context.getModel().getProto();
  keepLastOpsets(file);
  keepFirstOutputs(context);
  bool warns = true;
  for (proto::GraphProto *graph : findGraphs(file))
    renameNodes(context, *graph, warns);
  return llvm::Error::success();
}
