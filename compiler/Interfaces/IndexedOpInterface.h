// Elementwise ops that depend on where their elements are.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_INDEXEDOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_INDEXEDOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

namespace mpc {

/// For an axis of an operand that no axis of the result runs along.
inline constexpr int64_t kOwnAxis = -1;

} // namespace mpc

#include "compiler/Interfaces/IndexedOpInterface.h.inc"

namespace mpc {

/// The axis of the result of elementwise op `operand.getOwner()` along which
/// each axis of the operand runs: the last ones by NumPy's rules, unless the op
/// says otherwise. An axis of size 1 is broadcast along its axis.
llvm::SmallVector<int64_t> getOperandAxes(mlir::OpOperand &operand);

/// Whether the op reads the operand from memory even where the operand's
/// producer is in its kernel, so that the producer must be in another.
bool readsMemory(mlir::OpOperand &operand);

/// Whether any operand of `op` must be in memory.
bool readsMemory(mlir::Operation *op);

/// Whether the op reads elements of the operand that another operand names: the
/// data of a gather.
bool isTable(mlir::OpOperand &operand);

/// The table of `op`; null where it has none.
mlir::OpOperand *findTable(mlir::Operation *op);

/// True if an elementwise op computes with the index of its elements, as
/// dropout does, or reads operands elsewhere than at that index, as gather
/// does.
bool dependsOnPlace(mlir::Operation *op);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_INDEXEDOPINTERFACE_H
