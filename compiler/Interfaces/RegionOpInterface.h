// How an op can share a kernel with its neighbours.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"

// RegionRole, and stringifyRegionRole: "reduction", as messages call the ops of
// a role.
#include "compiler/Interfaces/RegionRole.h.inc"

#include "compiler/Interfaces/RegionOpInterface.h.inc"

namespace mpc {

/// Whether `op` takes part in kernels as `role`.
bool hasRole(mlir::Operation *op, RegionRole role);

/// The matrix product or convolution in the body of a region or kernel; null
/// where there is none.
mlir::Operation *findContraction(mlir::Block &body);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_REGIONOPINTERFACE_H
