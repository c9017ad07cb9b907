// What it takes to compute an element.
//
// In simple vector operations, such as an addition: enough to compare computing
// a value once more with storing it and loading it back.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_ELEMENTWORK_H
#define MPC_COMPILER_KERNELS_ELEMENTWORK_H

#include "mlir/IR/Operation.h"

#include <optional>

namespace mpc {

/// What storing or loading an element takes. A core adds 8 floats or more in
/// the time that memory takes for half a one.
inline constexpr int64_t kAccessWork = 16;

/// What an element of the result of elementwise `op` takes; nothing for an op
/// that is never computed twice: a random one (costly), one with several
/// results, an optimizer's or the loss scaler's (their results are state).
std::optional<int64_t> getElementWork(mlir::Operation *op);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_ELEMENTWORK_H
