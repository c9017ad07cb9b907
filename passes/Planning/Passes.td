// The passes of the Planning stage, in the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_PASSES_TD
#define MPC_PASSES_PLANNING_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif // MPC_PASSES_PLANNING_PASSES_TD
