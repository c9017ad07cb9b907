// Finds the elements of a row that a row kernel keeps between passes.
//
// A row kernel passes over a row once per dependent reduction, and once to
// store results. Softmax has three passes: the maximum, the sum of exp(x -
// maximum), and exp(x - maximum) / sum. Costly values, here the exponential,
// are computed in the first pass that needs them. Later passes read such values
// from the worker's scratch memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_ROWSCRATCH_H
#define MPC_COMPILER_KERNELS_ROWSCRATCH_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc {

/// The elements of one row of the result of `op`: `bytes` bytes of the worker's
/// memory from byte `offset` on.
struct RowScratch {
  mlir::Operation *op;
  int64_t offset, bytes;
};

/// Returns the values that `kernel`, a row_reduce without segments, keeps, in
/// the order of its ops. Empty if the rows are too long for a cache, or if the
/// kernel makes column sums (ColumnSums.h), which use the scratch memory.
llvm::SmallVector<RowScratch> findRowScratch(mlir::func::FuncOp kernel);

/// Returns the total bytes of all kept rows.
int64_t getRowScratchBytes(mlir::func::FuncOp kernel);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_ROWSCRATCH_H
