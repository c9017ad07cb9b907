// The passes of the Planning stage: two files of passes on regions, then the
// passes that turn regions into kernels and programs. passes/Pipeline.cpp
// defines the order.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_PASSES_TD
#define MPC_PASSES_PLANNING_PASSES_TD

include "passes/Planning/PlacementPasses.td"
include "passes/Planning/RegionPasses.td"
include "passes/Planning/KernelPasses.td"

#endif // MPC_PASSES_PLANNING_PASSES_TD
