// The passes of the Planning stage, in the order they run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_PASSES_TD
#define MPC_PASSES_PLANNING_PASSES_TD

include "mlir/Pass/PassBase.td"

def PrintPartitionPass : Pass<"plan-print-partition", "::mlir::ModuleOp"> {
  let summary = "say how the work of every kernel is divided";
  let description = [{
    Emits one remark per kernel function: extent, grain and inner of
    `compiler/Analysis/KernelPartition.h`. Changes nothing; for tests and for
    reading a plan. See test/compiler/Analysis/kernel-partition.mlir.
  }];
}

#endif // MPC_PASSES_PLANNING_PASSES_TD
