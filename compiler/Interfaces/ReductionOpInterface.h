// Declares the interface of reductions over axes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_REDUCTIONOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_REDUCTIONOPINTERFACE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/OpDefinition.h"

#include "compiler/Interfaces/ReductionOpInterface.h.inc"

#endif // MPC_COMPILER_INTERFACES_REDUCTIONOPINTERFACE_H
