// Registration of the mpc ops: a list from which MLIR's templates make tables
// of functions and interfaces for each op. That is much code. Most of it runs
// once at the start, but hooks for traits, verification and folding run for
// every op of a model, so it is optimised as all else is.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

void mpc::MPCDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/MPC/MPCOps.cpp.inc"
      >();
}
