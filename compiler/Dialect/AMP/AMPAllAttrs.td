// Every attribute of the amp dialect, for one run of TableGen: a dialect has
// one parser of attributes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_AMP_AMPALLATTRS_TD
#define MPC_COMPILER_DIALECT_AMP_AMPALLATTRS_TD

include "compiler/Dialect/AMP/AMPAttrs.td"
include "compiler/Dialect/AMP/Request.td"

#endif // MPC_COMPILER_DIALECT_AMP_AMPALLATTRS_TD
