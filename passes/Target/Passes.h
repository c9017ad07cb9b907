// Declares the pass mpc-attach-target; see Passes.td.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_TARGET_PASSES_H
#define MPC_PASSES_TARGET_PASSES_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

namespace mpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Target/Passes.h.inc"

} // namespace mpc

#endif // MPC_PASSES_TARGET_PASSES_H
