// Declarations of the passes of the Recognition stage; see Passes.td.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_RECOGNITION_PASSES_H
#define MPC_PASSES_RECOGNITION_PASSES_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace mpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Recognition/Passes.h.inc"

} // namespace mpc

#endif // MPC_PASSES_RECOGNITION_PASSES_H
