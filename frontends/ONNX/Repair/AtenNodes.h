// Replaces calls of PyTorch's own operators (ATen) by ONNX nodes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_ATENNODES_H
#define MPC_FRONTENDS_ONNX_REPAIR_ATENNODES_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// The domain of ATen nodes. Attribute 'operator' names the called operator.
inline constexpr llvm::StringLiteral kAtenDomain = "org.pytorch.aten";

/// Returns the operator that a node calls, like "embedding" for ATen with
/// operator "aten::embedding"; empty if `node` is not an ATen node.
llvm::StringRef getAtenOperator(const proto::NodeProto &node);

/// Replaces ATen calls by equivalent ONNX nodes: embedding,
/// max_pool2d_with_indices, _adaptive_avg_pool2d to one pixel, and the backward
/// ops of both poolings. ONNX Runtime's exporter of modules (ORTModule) writes
/// such calls. Calls whose settings are not constant stay. Returns a note of
/// the replaced calls; empty if there are none.
std::string replaceAtenNodes(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_ATENNODES_H
