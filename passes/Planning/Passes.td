// The passes of the Planning stage: two rooms of passes on regions, then those
// that make kernels and programs of them. passes/Pipeline.cpp has their order.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_PASSES_TD
#define MPC_PASSES_PLANNING_PASSES_TD

include "passes/Planning/PlacementPasses.td"
include "passes/Planning/RegionPasses.td"
include "passes/Planning/KernelPasses.td"

#endif // MPC_PASSES_PLANNING_PASSES_TD
