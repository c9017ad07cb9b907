// Emits the elements of a rotary embedding.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_EMITROTARYEMBEDDING_H
#define MPC_PASSES_CODEGEN_KERNELS_EMITROTARYEMBEDDING_H

#include "passes/Codegen/Kernels/FragmentEmitter.h"

namespace mpc::codegen {

/// Computes the elements of `node`, an mpc.rotary_embedding, at the position of
/// `scope`. The result is in the compute type.
mlir::Value emitRotaryEmbedding(FragmentEmitter &fragments, Lanes &lanes,
                                const Scope &scope, const Node &node);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_EMITROTARYEMBEDDING_H
