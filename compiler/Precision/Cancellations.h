// Values of which a constant leaves nothing in a low type.
//
// Rounded to bfloat16, 10000 + x has no digit of x left, and a sigmoid of 0.999
// is 1, of which 1 - s is 0: where a value is close to a constant, its distance
// from that constant is what matters, and the low type does not hold it. So of
// sqrt(1 - t * t), whose gradient is infinite where t has become 1, neither the
// square nor t is rounded.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_CANCELLATIONS_H
#define MPC_COMPILER_PRECISION_CANCELLATIONS_H

#include "compiler/Precision/ConstantRanges.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseSet.h"

namespace mpc {

class Cancellations {
public:
  /// Looks at the forward ops of every function of `module`, whose values have
  /// `ranges`, for rounding to `low`.
  Cancellations(mlir::ModuleOp module, const ConstantRanges &ranges,
                mlir::FloatType low);

  /// True if the results of `op` must not be rounded to the low type: a reader
  /// subtracts from them a value that is nearly equal, such as the 1 in 1 - p.
  bool contains(mlir::Operation *op) const { return ops.contains(op); }

private:
  void addOffset(mlir::Operation *op);
  void addDifference(mlir::Operation *op);
  void addSource(mlir::Value value);

  const ConstantRanges &ranges;
  mlir::FloatType low;
  llvm::DenseSet<mlir::Operation *> ops;
  llvm::DenseSet<mlir::Operation *> visited; ///< whose sources are in `ops`
};

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_CANCELLATIONS_H
