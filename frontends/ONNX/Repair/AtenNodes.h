// Reads calls of PyTorch's own operators (ATen).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_ATENNODES_H
#define MPC_FRONTENDS_ONNX_REPAIR_ATENNODES_H

#include "frontends/ONNX/Model/ONNXProto.h"

#include "llvm/ADT/StringRef.h"

namespace mpc::onnx_frontend {

/// The domain of nodes of type ATen. The attribute 'operator' names the called
/// operator of PyTorch.
inline constexpr llvm::StringLiteral kAtenDomain = "org.pytorch.aten";

/// Returns the operator called by an ATen node: "embedding" for the attribute
/// operator = "aten::embedding". Empty if `node` is no ATen node.
llvm::StringRef getAtenOperator(const proto::NodeProto &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_ATENNODES_H
