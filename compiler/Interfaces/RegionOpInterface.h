// Declares the interface by which an op tells its role in kernels.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"

// Defines RegionRole and stringifyRegionRole, which names a role in messages
// ("reduction").
#include "compiler/Interfaces/RegionRole.h.inc"

#include "compiler/Interfaces/RegionOpInterface.h.inc"

namespace mpc {

/// True if `op` has the role `role` in kernels.
bool hasRole(mlir::Operation *op, RegionRole role);

/// Returns the matrix product or convolution in `body`, the body of a region or
/// kernel; null if there is none.
mlir::Operation *findContraction(mlir::Block &body);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_H
