// mpc-opt: runs passes by name on MLIR files, for developers and tests.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "passes/Pipeline.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mpc::MPCDialect, mpc::amp::AMPDialect,
                  mpc::plan::PlanDialect, mlir::func::FuncDialect>();
  mpc::registerAllPasses();
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "mpc's passes and dialects\n", registry));
}
