// Reads the target of a module from its attribute `mpc.target`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_TARGET_H
#define MPC_COMPILER_DIALECT_MPC_TARGET_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Target/TargetInfo.h"

namespace mpc {

/// Returns the target of the module that is or contains `op`; `native` if the
/// module has no target.
TargetInfo getTarget(mlir::Operation *op);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_TARGET_H
