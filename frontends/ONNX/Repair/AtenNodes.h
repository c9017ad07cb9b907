// Calls of PyTorch's own operators in a graph.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_ATENNODES_H
#define MPC_FRONTENDS_ONNX_REPAIR_ATENNODES_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// The domain of ATen, whose attribute 'operator' names what it calls.
inline constexpr llvm::StringLiteral kAtenDomain = "org.pytorch.aten";

/// The operator that a node calls, such as "embedding" for ATen with operator
/// "aten::embedding"; empty where the node is no ATen.
llvm::StringRef getAtenOperator(const proto::NodeProto &node);

/// Replaces calls of embedding, max_pool2d_with_indices and its backward, and
/// of _adaptive_avg_pool2d to one pixel and its backward by the ONNX nodes that
/// do the same: ONNX Runtime's exporter of modules (ORTModule) writes calls in
/// their place. Calls whose settings are not known are left alone. Returns a
/// note of what was done, or an empty string.
std::string replaceAtenNodes(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_ATENNODES_H
