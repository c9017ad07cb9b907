// The plan dialect: a training step as a flat list of steps over memory
// buffers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_PLAN_PLAN_H
#define MPC_COMPILER_DIALECT_PLAN_PLAN_H

#include "compiler/Dialect/MPC/MPC.h"
#include "compiler/Dialect/Plan/Records.h"
#include "runtime/AttentionOperands.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace mpc::plan {

/// Attribute #plan.compute<tf32> of a contraction that a GPU's library computes
/// in tf32. The pass plan-place-contractions sets the attribute,
/// plan-build-programs reads it last.
inline constexpr llvm::StringLiteral kComputeAttr = "plan.compute";

/// Attribute @parameter of a step or of an op on tensors that only the owner of
/// the parameter runs, and of a variable that only the owner holds. The pass
/// plan-shard-updates sets the attribute.
inline constexpr llvm::StringLiteral kOwnerAttr = "plan.owner";

/// Returns the attribute kOwnerAttr of `op`; null if all ranks run the op or
/// hold the variable.
mlir::FlatSymbolRefAttr getOwner(mlir::Operation *op);

/// Returns the bytes of one element in the runtime: i1 takes one byte.
int64_t getElementBytes(mlir::Type type);

/// Returns the size of a buffer in bytes.
int64_t getBufferBytes(mlir::MemRefType type);

/// Returns the strides, in elements, of a row-major tensor.
llvm::SmallVector<int64_t> getDenseStrides(llvm::ArrayRef<int64_t> shape);

/// Returns the bytes per row of the bit mask that a product fused with a relu
/// writes: a bit per column, n columns, and padding.
int64_t getAuxRowBytes(int64_t n);

} // namespace mpc::plan

#include "compiler/Dialect/Plan/PlanDialect.h.inc"

#include "compiler/Dialect/Plan/StepOpInterface.h.inc"

#define GET_ATTRDEF_CLASSES
#include "compiler/Dialect/Plan/PlanAttrs.h.inc"

#define GET_OP_CLASSES
#include "compiler/Dialect/Plan/PlanOps.h.inc"

namespace mpc::plan {

/// True if the result of `op` shares the memory of its operand: a reshape, a
/// plan.access or a plan.share. `op` works on tensors.
bool isView(mlir::Operation *op);

/// Returns the buffer of which `buffer` is a view, through any number of
/// plan.view ops; `buffer` itself if it is no view.
mlir::Value getStorage(mlir::Value buffer);

/// Verifies that a step writes neither an input nor a constant.
llvm::LogicalResult verifyWrites(mlir::Operation *step);

/// Like getStorage, but also looks through plan.part: returns the whole memory
/// of which `buffer` is a part.
mlir::Value getMemory(mlir::Value buffer);

} // namespace mpc::plan

#endif // MPC_COMPILER_DIALECT_PLAN_PLAN_H
