// Emits the arithmetic of reductions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_REDUCTION_ACCUMULATORS_H
#define MPC_PASSES_CODEGEN_KERNELS_REDUCTION_ACCUMULATORS_H

#include "passes/Codegen/Kernels/Loops/Loops.h"

namespace mpc::codegen {

/// Combines the lanes of a vector in log2(width) halving steps, in an order
/// fixed by the width. Returns a scalar unchanged.
mlir::Value
foldLanes(mlir::ImplicitLocOpBuilder &b, mlir::Value vector,
          llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

/// The operations of one reduction op on accumulators. Accumulators of floats
/// are f32 or f64, whatever the operands' type; accumulators of integers are
/// i32 or i64. Both are scalars or vectors.
class Accumulator {
public:
  Accumulator(mlir::ImplicitLocOpBuilder &builder, mlir::Operation *op)
      : b(builder), op(op) {}

  /// Returns the element type of an accumulator.
  static mlir::Type getType(mlir::Operation *op);
  /// Returns the element type of totals, to which many accumulators are added:
  /// f64 for sums of floats, otherwise the accumulator's type.
  static mlir::Type getTotalType(mlir::Operation *op);
  /// Returns the neutral element in `width` lanes; a scalar if `width` is 1.
  mlir::Value getInit(int64_t width);
  mlir::Value combine(mlir::Value x, mlir::Value y);
  /// Combines all accumulators pairwise. The order depends on their number
  /// alone.
  mlir::Value combine(mlir::ValueRange accumulators);
  /// Combines the lanes of a vector; returns a scalar unchanged.
  mlir::Value combineLanes(mlir::Value vector);
  /// Returns the op's result for an accumulated value: a mean is divided by the
  /// number of elements.
  mlir::Value finish(mlir::Value accumulated);

private:
  mlir::ImplicitLocOpBuilder &b;
  mlir::Operation *op;
};

/// The BlockedChain of a loop that carries accumulators. Totals of f32 sums are
/// f64. Sums in f64, maxima and integers need no wider type.
class AccumulatorChain : public BlockedChain {
public:
  explicit AccumulatorChain(mlir::ImplicitLocOpBuilder &builder) : b(builder) {}

  /// Appends `count` carried values, of `width` lanes each, that accumulate for
  /// reduction `op`.
  void carry(mlir::Operation *op, int64_t width, int64_t count = 1);

  /// Returns this chain if some totals are wider than their accumulators.
  /// Otherwise null, since blocks would not make any result more exact.
  BlockedChain *ifNeeded();

  Carried start() override;
  Carried open(mlir::ValueRange carried) override;
  Carried add(mlir::ValueRange totals, mlir::ValueRange block) override;
  Carried close(mlir::ValueRange totals) override;

private:
  struct Entry {
    mlir::Operation *op;
    int64_t width;
  };
  mlir::ImplicitLocOpBuilder &b;
  llvm::SmallVector<Entry> entries;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_REDUCTION_ACCUMULATORS_H
