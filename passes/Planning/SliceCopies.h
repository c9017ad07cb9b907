// Slices that a copy of rows makes, without code of their own.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PLANNING_SLICECOPIES_H
#define MPC_PASSES_PLANNING_SLICECOPIES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace mpc {

/// Rows of a kernel's argument, in bytes, that its result has side by side.
struct SliceCopy {
  int64_t rows = 1, offset = 0, stride = 0;
};

/// What `kernel` copies; nothing where it does anything but take a box that is
/// all of its tensor but along one axis, or where a loop does that faster.
std::optional<SliceCopy> findSliceCopy(mlir::func::FuncOp kernel);

} // namespace mpc

#endif // MPC_PASSES_PLANNING_SLICECOPIES_H
