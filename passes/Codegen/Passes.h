// Declarations of the passes of the Codegen stage; see Passes.td.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_PASSES_H
#define MPC_PASSES_CODEGEN_PASSES_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"
#include "mlir/Pass/Pass.h"

namespace mpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/Codegen/Passes.h.inc"

} // namespace mpc

#endif // MPC_PASSES_CODEGEN_PASSES_H
