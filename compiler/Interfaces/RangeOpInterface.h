// What numbers an op's results can be.
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

/// All numbers of both, and those between.
Bounds unite(Bounds a, Bounds b);

/// All integers from `low` to `high`.
struct IntegerRange {
  int64_t low = 0, high = 0;

  bool contains(const IntegerRange &other) const {
    return low <= other.low && other.high <= high;
  }
};

IntegerRange unite(IntegerRange a, IntegerRange b);

/// The integers that an operand, by its number, can be.
using FindIntegerRange = llvm::function_ref<IntegerRange(unsigned operand)>;

/// Of an op that moves elements, of one operand or of several as a concat, the
/// range of all; of any other op nothing.
std::optional<Bounds> inferMovedRange(mlir::Operation *op,
                                      llvm::ArrayRef<Bounds> operands);

/// The operands of an op that moves elements; none of any other op.
llvm::SmallVector<mlir::Value> listMoved(mlir::Operation *op);

} // namespace mpc

#include "compiler/Interfaces/RangeOpInterface.h.inc"

namespace mpc {

/// What the methods of RangeOpInterface say, of any op.
std::optional<Bounds> inferRange(mlir::Operation *op,
                                 llvm::ArrayRef<Bounds> operands);
bool holdsConstant(mlir::Operation *op);
std::optional<IntegerRange> inferIntegerRange(mlir::Operation *op,
                                              FindIntegerRange operand);
llvm::SmallVector<mlir::Value> listHandedOn(mlir::Operation *op);

/// At which two numbers `value` gathers: -1 and 1 for the result of a tanh, -1
/// and infinity, which is none, for that of an ELU. Nothing of an argument.
std::optional<Bounds> getSaturation(mlir::Value value);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_RANGEOPINTERFACE_H
