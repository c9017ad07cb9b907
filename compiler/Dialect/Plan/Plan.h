// The plan dialect: the flat step.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_PLAN_H
#define MPC_COMPILER_DIALECT_PLAN_PLAN_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mpc::plan {

/// What a library computes a contraction in, where that is neither f32 nor f64:
/// #plan.compute<...> on the op, from plan-place-contractions to
/// plan-build-programs.
inline constexpr llvm::StringLiteral kComputeAttr = "plan.compute";

/// Bytes of one element as the runtime stores it: i1 takes one byte.
int64_t getElementBytes(mlir::Type type);

/// Bytes of a buffer.
int64_t getBufferBytes(mlir::MemRefType type);

/// The strides, in elements, of a row-major tensor.
llvm::SmallVector<int64_t> getDenseStrides(llvm::ArrayRef<int64_t> shape);

/// Bytes of a row of the mask of bits that a fused product of n columns makes.
int64_t getAuxRowBytes(int64_t n);

} // namespace mpc::plan

#include "compiler/Dialect/Plan/PlanDialect.h.inc"

#include "compiler/Dialect/Plan/StepOpInterface.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Plan/PlanAttrs.h.inc"

#define GET_OP_CLASSES
#include "compiler/Dialect/Plan/PlanOps.h.inc"

namespace mpc::plan {

/// Whether `op`, on tensors, has its operand's memory: a reshape or an access.
bool isView(mlir::Operation *op);

/// The memory a buffer is: through views.
mlir::Value getStorage(mlir::Value buffer);

/// The memory a buffer lies in: through views and parts.
mlir::Value getMemory(mlir::Value buffer);

} // namespace mpc::plan

#endif // MPC_COMPILER_DIALECT_PLAN_PLAN_H
