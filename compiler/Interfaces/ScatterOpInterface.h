// Declares the interface of scatters: ops that write elements at given indices.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_SCATTEROPINTERFACE_H
#define MPC_COMPILER_INTERFACES_SCATTEROPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include "compiler/Interfaces/ScatterOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_SCATTEROPINTERFACE_H
