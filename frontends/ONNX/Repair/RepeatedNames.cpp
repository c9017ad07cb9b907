// Separates nodes, graph outputs and opset imports that share a name.
//
//   - If two nodes of a graph share a name, the second gets a new name.
//   - If an output of the graph is declared twice, the first declaration stays.
//   - If an opset domain is imported twice, the last import stays. The reader
//     has already warned.
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

// Keeps the last import of each domain, as ONNX's own tools do.
static void keepLastOpsets(proto::ModelProto &file) {
  auto &imports = *file.mutable_opset_import();
  llvm::StringSet<> seen;
  for (int i = imports.size() - 1; i >= 0; --i)
    if (!seen.insert(normalizeDomain(imports.Get(i).domain())).second)
      imports.DeleteSubrange(i, 1);
}

// Drops repeated declarations of graph outputs, because callers identify an
// output by name.
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

// Gives nodes of a graph different names: ONNX Runtime refuses repeated names.
// `warns` is true until the first warning, which stands for the whole file.
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
