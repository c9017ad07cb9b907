// Helpers for nodes that hold graphs in attributes: the bodies of loops and the
// branches of conditions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_BODIES_H
#define MPC_FRONTENDS_ONNX_IMPORTER_BODIES_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// Returns the graph in attribute `name` of the node, checked. Reports an error
/// and returns nullopt if the graph is invalid.
std::optional<Graph> readBody(NodeImporter &node, llvm::StringRef name);

/// Reports an error unless `body` has `inputs` inputs and `outputs` outputs.
mlir::LogicalResult checkCounts(NodeImporter &node, const Graph &body,
                                size_t inputs, size_t outputs);

/// The name of the node's first output that is present. Output names are
/// unique, so this name can identify the node.
llvm::StringRef findOutput(NodeImporter &node);

/// The nodes that the outputs of `graph` depend on.
std::vector<const proto::NodeProto *> findNodes(const Graph &graph);

/// Creates a temporary `mpc.scan` outside the function. Its region holds the
/// block of a loop body or branch while the importer builds the block, because
/// a block needs a parent op.
mlir::OwningOpRef<ScanOp> createHolder(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_BODIES_H
