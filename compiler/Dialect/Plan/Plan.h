// The plan dialect: a training step as a flat list.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_PLAN_H
#define MPC_COMPILER_DIALECT_PLAN_PLAN_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/Plan/Records.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mpc::plan {

/// The compute type of a contraction in a library, if neither f32 nor f64:
/// #plan.compute<...> on the op, from plan-place-contractions to
/// plan-build-programs.
inline constexpr llvm::StringLiteral kComputeAttr = "plan.compute";

/// Returns the bytes of one element in the runtime: i1 takes one byte.
int64_t getElementBytes(mlir::Type type);

/// Returns the bytes of a buffer.
int64_t getBufferBytes(mlir::MemRefType type);

/// Returns the strides, in elements, of a row-major tensor.
llvm::SmallVector<int64_t> getDenseStrides(llvm::ArrayRef<int64_t> shape);

/// Returns the bytes per row of the bit mask that a fused product of n columns
/// makes.
int64_t getAuxRowBytes(int64_t n);

} // namespace mpc::plan

#include "compiler/Dialect/Plan/PlanDialect.h.inc"

#include "compiler/Dialect/Plan/StepOpInterface.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Plan/PlanAttrs.h.inc"

#define GET_OP_CLASSES
#include "compiler/Dialect/Plan/PlanOps.h.inc"

namespace mpc::plan {

/// True if `op`, on tensors, shares its operand's memory: a reshape or an
/// access.
bool isView(mlir::Operation *op);

/// Returns the memory of a buffer, looking through views.
mlir::Value getStorage(mlir::Value buffer);

/// Returns the memory that contains a buffer, looking through views and parts.
mlir::Value getMemory(mlir::Value buffer);

} // namespace mpc::plan

#endif // MPC_COMPILER_DIALECT_PLAN_PLAN_H
