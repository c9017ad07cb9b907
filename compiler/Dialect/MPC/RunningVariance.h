// Declares the attributes that select the statistics of a batch normalisation:
// biased or unbiased variance, and the batch of one rank or of all ranks.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_RUNNINGVARIANCE_H
#define MPC_COMPILER_DIALECT_MPC_RUNNINGVARIANCE_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// Unit attribute of an mpc.batch_norm. With it, `new_running_var` averages the
/// unbiased variance, n / (n - 1) times the population variance for n elements
/// per channel, as PyTorch and Keras do. Without it, `new_running_var` averages
/// the population variance, as ONNX specifies. Normalisation always uses the
/// population variance.
inline constexpr llvm::StringLiteral kUnbiasedRunningVarAttr =
    "mpc.unbiased_running_var";

/// Unit attribute of an mpc.batch_norm or mpc.batch_norm_grad. With it, the
/// batch is that of all ranks of a distributed run: mean, variance and the
/// means in the gradient of the input are reduced over the ranks, whose batches
/// have equal sizes. The gradients of scale and bias stay those of one rank,
/// like other gradients of parameters.
inline constexpr llvm::StringLiteral kOverRanksAttr = "mpc.over_ranks";

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_RUNNINGVARIANCE_H
