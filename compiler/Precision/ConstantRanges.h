// What constants make of the range of values.
//
// A mask of the smallest float that is added to scores has left the range of a
// low type before any data is seen: rounded, it is -inf, and a row of nothing
// else gives NaN. An epsilon that a low type rounds to 0 keeps no logarithm
// finite. Values that only data determines are taken to be of order 1.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_CONSTANTRANGES_H
#define MPC_COMPILER_PRECISION_CONSTANTRANGES_H

#include "compiler/Interfaces/BodyOpInterface.h"
#include "compiler/Interfaces/RangeOpInterface.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"

#include <optional>

namespace mpc {

class ConstantRanges {
public:
  /// Propagates constants, and what is frozen, through the elementwise ops,
  /// views and movements of every function, and into loops and branches.
  explicit ConstantRanges(mlir::ModuleOp module);

  /// The bounds of a value that a constant has a part in.
  std::optional<Bounds> lookup(mlir::Value value) const;

  /// Whether finite values that `value` has would become infinite in `type`, or
  /// would with a little added to them.
  bool overflows(mlir::Value value, mlir::FloatType type) const;

  /// Whether all that `value` has is smaller than the numbers that `type` has
  /// in full precision: rounded, it loses digits or is 0.
  bool vanishes(mlir::Value value, mlir::FloatType type) const;

private:
  void addFrozen(mlir::ModuleOp module);
  void visit(mlir::Block &block);
  void visit(mlir::Operation *op);
  void visitBodies(BodyOpInterface op);
  std::optional<Bounds> uniteSources(mlir::Value value) const;

  llvm::DenseMap<mlir::Value, Bounds> ranges;
};

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_CONSTANTRANGES_H
