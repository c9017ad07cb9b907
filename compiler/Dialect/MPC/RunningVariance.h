// Which variance of a batch a running variance takes up.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_RUNNINGVARIANCE_H
#define MPC_COMPILER_DIALECT_MPC_RUNNINGVARIANCE_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// Unit attribute of a mpc.batch_norm whose `new_running_var` takes up the
/// unbiased variance, n / (n - 1) times the population variance of n elements a
/// channel: what PyTorch and Keras do. Without it, as in ONNX's specification,
/// it takes up the population variance. What the op normalises by is the
/// population variance in any case.
inline constexpr llvm::StringLiteral kUnbiasedRunningVarAttr =
    "mpc.unbiased_running_var";

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_RUNNINGVARIANCE_H
