// Registers the mpc ops. MLIR's templates create function and interface tables
// for each op, which is much code. Most of the code runs once at startup, but
// the hooks for traits, verification and folding run for every op of a model.
// So this file is optimised like all others.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

void mpc::MPCDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/MPC/MPCOps.cpp.inc"
      >();
}
