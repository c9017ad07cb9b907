// Declares the interface that infers ranges of an op's results.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_RANGEOPINTERFACE_H
#define MPC_COMPILER_INTERFACES_RANGEOPINTERFACE_H

#include "mlir/IR/OpDefinition.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <optional>

namespace mpc {

/// The smallest and the largest element of a value.
struct Bounds {
  double low, high;
};

/// Returns the smallest interval that holds both intervals.
Bounds unite(Bounds a, Bounds b);

/// All integers from `low` to `high`.
struct IntegerRange {
  int64_t low = 0, high = 0;

  bool contains(const IntegerRange &other) const {
    return low <= other.low && other.high <= high;
  }
};

IntegerRange unite(IntegerRange a, IntegerRange b);

/// Returns the range of an integer operand, given its number.
using FindIntegerRange = llvm::function_ref<IntegerRange(unsigned operand)>;

/// Returns the joint range of all operands if `op` only moves elements
/// (transpose, concat); nullopt for other ops.
std::optional<Bounds> inferMovedRange(mlir::Operation *op,
                                      llvm::ArrayRef<Bounds> operands);

/// Returns the operands if `op` only moves elements; empty for other ops.
llvm::SmallVector<mlir::Value> listMoved(mlir::Operation *op);

} // namespace mpc

#include "compiler/Interfaces/RangeOpInterface.h.inc"

namespace mpc {

/// Call the methods of RangeOpInterface. For ops without the interface, return
/// a safe default: mostly, that nothing is known.
std::optional<Bounds> inferRange(mlir::Operation *op,
                                 llvm::ArrayRef<Bounds> operands);
bool holdsConstant(mlir::Operation *op);
std::optional<IntegerRange> inferIntegerRange(mlir::Operation *op,
                                              FindIntegerRange operand);
llvm::SmallVector<mlir::Value> listHandedOn(mlir::Operation *op);

/// Returns the two numbers near which `value` saturates: -1 and 1 for the
/// result of a tanh. An ELU gives -1 and infinity, because an ELU saturates
/// only below. nullopt if `value` does not saturate, or is a block argument.
std::optional<Bounds> getSaturation(mlir::Value value);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_RANGEOPINTERFACE_H
