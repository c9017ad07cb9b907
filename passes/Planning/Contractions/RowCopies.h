// Slices and joins that row copies implement, without a kernel.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_CONTRACTIONS_ROWCOPIES_H
#define MPC_PASSES_PLANNING_CONTRACTIONS_ROWCOPIES_H

#include "compiler/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace mpc {

/// Rows in bytes: the offset of the first row, and the stride between rows.
struct Rows {
  int64_t offset = 0, stride = 0;
};

/// Rows of a kernel's argument, copied to the result: adjacent, or to the
/// places in `to`.
struct RowCopy {
  unsigned argument = 0;
  int64_t rows = 1, rowBytes = 0;
  Rows from;
  std::optional<Rows> to;
};

/// Returns the copies that implement `kernel`: a slice along one axis, or a
/// join of many tensors. Empty for other kernels, if a loop is faster, and on a
/// GPU, where copies move whole buffers.
llvm::SmallVector<RowCopy> findRowCopies(mlir::func::FuncOp kernel,
                                         const TargetInfo &target);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_CONTRACTIONS_ROWCOPIES_H
