// Registers the mpc ops with MLIR. The file is large when compiled: MLIR's
// templates create tables of functions and interfaces for each op. Most of this
// code runs once at startup, but hooks such as folding and verification run for
// every op of a model, so the file is compiled with full optimization.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"

void mpc::MPCDialect::registerOps() {
  addOperations<
#define GET_OP_LIST
#include "compiler/Dialect/MPC/MPCOps.cpp.inc"
      >();
}
