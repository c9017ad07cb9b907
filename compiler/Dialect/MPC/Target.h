// What a module is compiled for: its attribute `mpc.target`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_TARGET_H
#define MPC_COMPILER_DIALECT_MPC_TARGET_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Target/TargetInfo.h"

namespace mpc {

/// The target of the module that `op` is or is in; `native` where the module
/// does not say.
TargetInfo getTarget(mlir::Operation *op);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_TARGET_H
