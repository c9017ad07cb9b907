// Declarations of the passes of the Planning stage; see Passes.td.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_PASSES_H
#define MPC_PASSES_PLANNING_PASSES_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "compiler/Kernels/KernelPartition.h"

#include "mlir/Pass/Pass.h"

namespace mpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Planning/Passes.h.inc"

} // namespace mpc

#endif // MPC_PASSES_PLANNING_PASSES_H
