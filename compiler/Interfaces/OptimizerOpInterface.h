// How passes address the operands optimizer ops have in common.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_OPTIMIZEROPINTERFACE_H
#define MPC_COMPILER_INTERFACES_OPTIMIZEROPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include "compiler/Interfaces/OptimizerOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_OPTIMIZEROPINTERFACE_H
