// Includes all attribute definitions of the amp dialect. TableGen must see them
// in one run, because a run generates the dialect's only attribute parser.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_AMP_AMPALLATTRS_TD
#define MPC_COMPILER_DIALECT_AMP_AMPALLATTRS_TD

include "compiler/Dialect/AMP/AMPAttrs.td"
include "compiler/Dialect/AMP/Request.td"

#endif // MPC_COMPILER_DIALECT_AMP_AMPALLATTRS_TD
