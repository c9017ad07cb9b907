// Declares the interface of elementwise ops that use the index of an element or
// read other elements, such as dropout and gather.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_INDEXEDOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_INDEXEDOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"

namespace mpc {

/// Marks an axis of an operand that corresponds to no axis of the result.
inline constexpr int64_t kOwnAxis = -1;

} // namespace mpc

#include "compiler/Interfaces/IndexedOpInterface.h.inc"

namespace mpc {

/// Returns, for each axis of `operand` of an elementwise op, the corresponding
/// axis of the result. Unless the op differs, these are the last axes, as NumPy
/// broadcasts: [1, 2] for an operand of 4 x 6 and a result of 8 x 4 x 6. An
/// axis of size 1 is broadcast.
llvm::SmallVector<int64_t> getOperandAxes(mlir::OpOperand &operand);

/// True if the op must read `operand` from memory, because the op reads
/// elements at other indices than the loops, as a gather does. The producer
/// must then be in another kernel.
bool readsMemory(mlir::OpOperand &operand);

/// True if `op` reads any operand from memory.
bool readsMemory(mlir::Operation *op);

/// True if another operand holds the indices at which the op reads `operand`,
/// as for the data of a gather.
bool isTable(mlir::OpOperand &operand);

/// Returns the operand of `op` that is read at indices held by another operand,
/// such as the data of a gather; null if there is none.
mlir::OpOperand *findTable(mlir::Operation *op);

/// True if an elementwise op computes with the index of an element, as dropout
/// does, or reads operands at another index, as gather does.
bool dependsOnPlace(mlir::Operation *op);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_INDEXEDOPINTERFACE_H
