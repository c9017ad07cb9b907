// Includes all ops and attributes of the mpc dialect. TableGen must see them in
// one run, because a run generates the dialect's only attribute parser.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_MPCALLOPS_TD
#define MPC_COMPILER_DIALECT_MPC_MPCALLOPS_TD

include "compiler/Dialect/MPC/MPCEnums.td"
include "compiler/Dialect/MPC/MPCOps.td"
include "compiler/Dialect/MPC/MPCElementwiseOps.td"
include "compiler/Dialect/MPC/MPCMovementOps.td"
include "compiler/Dialect/MPC/MPCReductionOps.td"
include "compiler/Dialect/MPC/MPCContractionOps.td"
include "compiler/Dialect/MPC/MPCLossOps.td"
include "compiler/Dialect/MPC/MPCFormulaOps.td"
include "compiler/Dialect/MPC/MPCGradOps.td"
include "compiler/Dialect/MPC/MPCIndexedOps.td"
include "compiler/Dialect/MPC/MPCNormOps.td"
include "compiler/Dialect/MPC/MPCAttentionOps.td"
include "compiler/Dialect/MPC/MPCControlOps.td"
include "compiler/Dialect/MPC/MPCOptimizerOps.td"
include "compiler/Dialect/MPC/Recipe/Recipe.td"

#endif // MPC_COMPILER_DIALECT_MPC_MPCALLOPS_TD
