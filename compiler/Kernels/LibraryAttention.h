// Decides if the library of a GPU computes an attention as a whole.
//
// The library (cuDNN) multiplies, masks, takes the softmax and multiplies again
// in one call, so no tensor of the scores' shape is in memory. It takes 16-bit
// operands of four axes. Every other attention is computed by products and
// kernels.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_LIBRARYATTENTION_H
#define MPC_COMPILER_KERNELS_LIBRARYATTENTION_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Target/TargetInfo.h"

#include <string>

namespace mpc {

/// A bias up to this number hides a score: in f32, the sum has none of the
/// score's digits, and a softmax with another key rounds it to 0.
inline constexpr double kHidingBias = -1e30;

/// The leading axes of an attention as the library takes them. Adjacent query
/// heads share a key head.
struct AttentionAxes {
  int64_t batch, heads, keyHeads;
};

/// Merges the leading axes of query and key: all axes but the last two. [8, 4,
/// 3] and [8, 4, 1] become a batch of 8 with 12 heads and 4 key heads. Returns
/// nullopt if the heads that share a key head are not adjacent.
std::optional<AttentionAxes> findAttentionAxes(llvm::ArrayRef<int64_t> query,
                                               llvm::ArrayRef<int64_t> key);

/// Returns the shape of four axes under which the library reads `spread`, a
/// bias or a mask of `attention`, for an attention that has AttentionAxes.
/// nullopt if `spread` varies along some of the axes that become the heads, but
/// not along all, or if all keys share a value.
std::optional<llvm::SmallVector<int64_t>> findSpreadShape(AttentionOp attention,
                                                          mlir::Value spread);

/// Returns the reason why the library of `target` cannot compute the op: a
/// clause for a message. Empty if the library can. The answer for an attention
/// does not depend on the gradient, so an evaluation gets the bits of training.
std::string findAttentionObstacle(AttentionOp op, const TargetInfo &target);

/// Like the function for attentions. Expects a gradient whose forward pass the
/// library computes.
std::string findAttentionObstacle(AttentionGradOp op);

/// True if the module has an attention that the library of its target can
/// compute. Call behind the Precision stage, which decides the types.
bool hasLibraryAttention(mlir::ModuleOp module);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_LIBRARYATTENTION_H
