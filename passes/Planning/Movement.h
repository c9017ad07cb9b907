// Kernels that only move elements.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_MOVEMENT_H
#define MPC_PASSES_PLANNING_MOVEMENT_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// The op of a kernel that does nothing else than move what the kernel reads,
/// without changing its type; null for any other kernel.
mlir::Operation *findMovement(mlir::Operation *op);

/// Whether keeping all of `source` in memory, as long as `part` of it is
/// needed, costs less than a copy: what is there anyway, or is no more than
/// four parts.
bool isWorthKeeping(mlir::Value source, mlir::Value part);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_MOVEMENT_H
