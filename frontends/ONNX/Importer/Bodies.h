// The graphs in attributes of nodes: bodies of loops, branches of conditions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_BODIES_H
#define MPC_FRONTENDS_ONNX_IMPORTER_BODIES_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// The graph in attribute `name`, checked; nothing, with a finding, where it is
/// no valid one.
std::optional<Graph> readBody(NodeImporter &node, llvm::StringRef name);

/// A finding where `body` has other numbers of inputs and outputs.
mlir::LogicalResult checkCounts(NodeImporter &node, const Graph &body,
                                size_t inputs, size_t outputs);

/// The name of the node's first output that is not empty. Outputs have unique
/// names, so it can name the node.
llvm::StringRef findOutput(NodeImporter &node);

/// The nodes that the outputs of `graph` depend on.
std::vector<const proto::NodeProto *> findNodes(const Graph &graph);

/// A loop that has a body while it grows: a block needs an op around it.
mlir::OwningOpRef<ScanOp> createHolder(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_BODIES_H
