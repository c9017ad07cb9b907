// Declares the interface of ops with bodies, such as loops.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_BODYOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_BODYOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

#include "compiler/Interfaces/BodyOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_BODYOPINTERFACE_H
