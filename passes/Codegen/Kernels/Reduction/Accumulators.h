// Arithmetic of the reductions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_REDUCTION_ACCUMULATORS_H
#define MPC_PASSES_CODEGEN_KERNELS_REDUCTION_ACCUMULATORS_H

#include "passes/Codegen/Kernels/Loops/Loops.h"

namespace mpc::codegen {

/// Combines the lanes of a vector in halves: log2 steps, in an order fixed by
/// the width. A scalar is itself.
mlir::Value
foldLanes(mlir::ImplicitLocOpBuilder &b, mlir::Value vector,
          llvm::function_ref<mlir::Value(mlir::Value, mlir::Value)> combine);

/// What one reduction op does with its accumulators. Accumulators are f32 or
/// f64, scalar or vector, whatever floats the op's operands are; of integers
/// i32 or i64.
class Accumulator {
public:
  Accumulator(mlir::ImplicitLocOpBuilder &builder, mlir::Operation *op)
      : b(builder), op(op) {}

  /// The type of each.
  static mlir::Type getType(mlir::Operation *op);
  /// The type of totals of many.
  static mlir::Type getTotalType(mlir::Operation *op);
  /// The neutral element, `width` times (a scalar where it is 1).
  mlir::Value getInit(int64_t width);
  mlir::Value combine(mlir::Value x, mlir::Value y);
  /// All of them, pairwise: the order depends on their number alone.
  mlir::Value combine(mlir::ValueRange accumulators);
  /// The lanes of a vector; a scalar is itself.
  mlir::Value combineLanes(mlir::Value vector);
  /// From what was accumulated to the op's value.
  mlir::Value finish(mlir::Value accumulated);

private:
  mlir::ImplicitLocOpBuilder &b;
  mlir::Operation *op;
};

/// The chains of a loop that carries accumulators: totals of sums in f32 are
/// f64. Those in f64, maxima and integers need nothing wider.
class AccumulatorChain : public BlockedChain {
public:
  explicit AccumulatorChain(mlir::ImplicitLocOpBuilder &builder) : b(builder) {}

  /// Appends `count` carried values that accumulate for reduction `op`, each of
  /// `width` lanes.
  void carry(mlir::Operation *op, int64_t width, int64_t count = 1);

  /// This, or null where no totals would be wider: long chains are as good.
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
