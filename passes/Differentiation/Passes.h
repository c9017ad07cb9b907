// Declarations of the passes of the Differentiation stage; see Passes.td.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_DIFFERENTIATION_PASSES_H
#define MPC_PASSES_DIFFERENTIATION_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Differentiation/Passes.h.inc"

} // namespace mpc

#endif // MPC_PASSES_DIFFERENTIATION_PASSES_H
