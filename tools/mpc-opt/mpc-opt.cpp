// mpc-opt: runs passes by name on MLIR files, for developers and tests.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/Plan/Plan.h"
#include "passes/Codegen/Kernels/Loops/NVVMOps.h"
#include "passes/Pipeline.h"
#include "tools/mpc-opt/Help.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<mpc::MPCDialect, mpc::amp::AMPDialect, mpc::plan::PlanDialect,
                  mlir::func::FuncDialect>();
  // Kernels are in these dialects after the Codegen stage.
  registry.insert<mlir::arith::ArithDialect, mlir::LLVM::LLVMDialect,
                  mlir::math::MathDialect, mlir::memref::MemRefDialect,
                  mlir::scf::SCFDialect, mlir::vector::VectorDialect>();
  mpc::codegen::registerNVVMDialect(registry);
  mpc::registerAllPasses();
  if (std::optional<int> exitCode =
          mpc::tools::printHelp({argv + 1, argv + argc}))
    return *exitCode;
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "mpc's passes and dialects\n", registry));
}
