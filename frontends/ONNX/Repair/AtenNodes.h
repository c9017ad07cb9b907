// Reads calls of PyTorch's own operators (ATen).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_ATENNODES_H
#define MPC_FRONTENDS_ONNX_REPAIR_ATENNODES_H

#include "frontends/ONNX/Model/ONNXProto.h"

#include "llvm/ADT/StringRef.h"

namespace mpc::onnx_frontend {

/// The domain of ATen nodes. Attribute 'operator' names the called operator.
inline constexpr llvm::StringLiteral kAtenDomain = "org.pytorch.aten";

/// Returns the operator that a node calls, like "embedding" for ATen with
/// operator "aten::embedding"; empty if `node` is not an ATen node.
llvm::StringRef getAtenOperator(const proto::NodeProto &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_ATENNODES_H
