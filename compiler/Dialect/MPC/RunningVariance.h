// Declares the attribute that selects biased or unbiased variance for the
// running statistics of a batch normalisation.
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

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_RUNNINGVARIANCE_H
