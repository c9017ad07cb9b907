// Declares the interface of optimizer ops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_OPTIMIZEROPINTERFACE_H
#define MPC_COMPILER_INTERFACES_OPTIMIZEROPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include "compiler/Interfaces/OptimizerOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_OPTIMIZEROPINTERFACE_H
