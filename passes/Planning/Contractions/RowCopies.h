// Slices and joins that copies of rows make, without code of their own.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_CONTRACTIONS_ROWCOPIES_H
#define MPC_PASSES_PLANNING_CONTRACTIONS_ROWCOPIES_H

#include "compiler/Target/TargetInfo.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace mpc {

/// Rows, in bytes: the first at an offset, the others each a stride behind.
struct Rows {
  int64_t offset = 0, stride = 0;
};

/// Rows of an argument of a kernel that go to its result: side by side, or
/// where `to` says.
struct RowCopy {
  unsigned argument = 0;
  int64_t rows = 1, rowBytes = 0;
  Rows from;
  std::optional<Rows> to;
};

/// The copies that do what `kernel` does: of a slice of all of a tensor but
/// along one axis, or of many tensors joined. None where it does something else
/// or a loop does that better, and on a GPU, whose copies are of whole buffers.
llvm::SmallVector<RowCopy> findRowCopies(mlir::func::FuncOp kernel,
                                         const TargetInfo &target);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_CONTRACTIONS_ROWCOPIES_H
