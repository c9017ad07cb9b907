// Estimates the work of computing an element.
//
// The unit is a simple vector operation, such as an addition. The estimate only
// serves to compare recomputing a value with storing and reloading the value.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_ELEMENTWORK_H
#define MPC_COMPILER_KERNELS_ELEMENTWORK_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace mpc {

/// The work of storing or loading an element. Memory bandwidth limits both: in
/// half the time that memory takes for one element, a core adds 8 floats or
/// more.
inline constexpr int64_t kAccessWork = 16;

/// Returns the work per element of the result of elementwise `op`. Returns
/// nullopt if `op` is never computed twice: a random op (costly), an op with
/// several results, and ops of optimizers and of the loss scaler (their results
/// are state).
std::optional<int64_t> getElementWork(mlir::Operation *op);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_ELEMENTWORK_H
