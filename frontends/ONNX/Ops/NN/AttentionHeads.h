// What importers of attention and of rotary embeddings share: heads, and the op
// that attends.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_NN_ATTENTIONHEADS_H
#define MPC_FRONTENDS_ONNX_OPS_NN_ATTENTIONHEADS_H

#include "frontends/ONNX/Importer/Assemble.h"

namespace mpc::onnx_frontend {

/// [batch, tokens, heads * size] as [batch, tokens, heads, size]; a finding
/// where `heads` does not divide the elements of a token.
mlir::FailureOr<mlir::Value> splitHeads(NodeImporter &node, mlir::Value value,
                                        int64_t heads);

/// [batch, heads, tokens, size] as [batch, tokens, heads * size].
mlir::Value joinHeads(NodeImporter &node, mlir::Value value);

/// The operands of an mpc.attention. Without a bias or a mask that is null.
struct AttentionOperands {
  mlir::Value query, key, value, bias, mask;
};

/// The result of an mpc.attention; null where it cannot be created.
mlir::Value attend(NodeImporter &node, const AttentionOperands &operands,
                   llvm::SmallVector<mlir::NamedAttribute> attributes);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_NN_ATTENTIONHEADS_H
