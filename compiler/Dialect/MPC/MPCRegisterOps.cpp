// Registration of the mpc ops: a list from which MLIR's templates make tables
// of functions and interfaces for each op. That is much code that runs once at
// the start or seldom, so it is compiled without optimisation
// (mpc_compile_fast).
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

void mpc::MPCDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/MPC/MPCOps.cpp.inc"
      >();
}
