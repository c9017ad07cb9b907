// Finds values that must not be rounded to a low type, because they lie close
// to a constant and would lose all information.
//
// Rounded to bfloat16, 10000 + x has no digit of x left. A sigmoid of 0.999
// becomes 1, and 1 - s becomes 0. Near a constant, only the distance from the
// constant matters, and the low type does not hold the distance. sqrt(1 - t *
// t) has an infinite gradient once t has become 1, so neither t nor its square
// is rounded.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_CANCELLATIONS_H
#define MPC_COMPILER_PRECISION_CANCELLATIONS_H

#include "compiler/Precision/ConstantRanges.h"
#include "compiler/Precision/ModelTypes.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseSet.h"

namespace mpc {

class Cancellations {
public:
  /// Analyses the forward ops of all functions of `module` for rounding to
  /// `low`. `ranges` holds the ranges of their values, and `types` the types of
  /// the model.
  Cancellations(mlir::ModuleOp module, const ConstantRanges &ranges,
                const ModelTypes &types, mlir::FloatType low);

  /// True if the results of `op` must not be rounded to the low type. Then `op`
  /// is a sum such as 10000 + x, or the producer of p in 1 - p, where p may
  /// come close to 1.
  bool contains(mlir::Operation *op) const { return ops.contains(op); }
  /// Returns the constant of such an op; nullopt for other ops.
  std::optional<RangeFinding> lookup(mlir::Operation *op) const;

private:
  void addOffset(mlir::Operation *op);
  void addDifference(mlir::Operation *op);
  void addSource(mlir::Value value, const RangeFinding &finding);

  const ConstantRanges &ranges;
  const ModelTypes &types;
  mlir::FloatType low;
  llvm::DenseMap<mlir::Operation *, RangeFinding> ops;
  llvm::DenseSet<mlir::Operation *> visited; ///< ops inserted by addSource
};

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_CANCELLATIONS_H
