// Helpers for importers of attention and rotary embeddings: splitting heads,
// and creating mpc.attention.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_NN_ATTENTIONHEADS_H
#define MPC_FRONTENDS_ONNX_OPS_NN_ATTENTIONHEADS_H

#include "frontends/ONNX/Importer/Assemble.h"

namespace mpc::onnx_frontend {

/// Reshapes [batch, tokens, heads * size] to [batch, tokens, heads, size].
/// Reports an error if `heads` does not divide the elements of a token.
mlir::FailureOr<mlir::Value> splitHeads(NodeImporter &node, mlir::Value value,
                                        int64_t heads);

/// Turns [batch, heads, tokens, size] into [batch, tokens, heads * size].
mlir::Value joinHeads(NodeImporter &node, mlir::Value value);

/// The operands of an mpc.attention; `bias` and `mask` are null if absent.
struct AttentionOperands {
  mlir::Value query, key, value, bias, mask;
};

/// Creates an mpc.attention and returns its output; null if invalid.
mlir::Value attend(NodeImporter &node, const AttentionOperands &operands,
                   llvm::SmallVector<mlir::NamedAttribute> attributes);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_NN_ATTENTIONHEADS_H
