// Finds kernels that only slice or concatenate, and the copies of rows that can
// replace such kernels.
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

/// Copies `rows` rows of `rowBytes` bytes from a kernel's argument to the
/// result. The copied rows are adjacent in the result, or lie as `to` says.
struct RowCopy {
  unsigned argument = 0;
  int64_t rows = 1, rowBytes = 0;
  Rows from;
  std::optional<Rows> to;
};

/// Returns the copies that do the work of `kernel`: a slice along one axis, or
/// a concat of many tensors. Empty for other kernels, and if a kernel is
/// faster. Empty on a GPU, where a copy step copies whole buffers only.
llvm::SmallVector<RowCopy> findRowCopies(mlir::func::FuncOp kernel,
                                         const TargetInfo &target);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_CONTRACTIONS_ROWCOPIES_H
