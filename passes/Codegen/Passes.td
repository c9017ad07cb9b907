// The passes of the Codegen stage, in the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_PASSES_TD
#define MPC_PASSES_CODEGEN_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif // MPC_PASSES_CODEGEN_PASSES_TD
