// Describes a tensor that results from reshapes, transposes and slices of
// another tensor by an offset and strides in the other tensor's memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_ACCESS_H
#define MPC_COMPILER_KERNELS_ACCESS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// An offset and strides that read a moved tensor in the memory of its source:
/// the first element is at `offset`, and neighbours along axis i are strides[i]
/// elements apart. Columns 2 and 3 of a 4 x 8 tensor: offset 2, shape (4, 2),
/// strides (8, 1).
struct Access {
  int64_t offset = 0;
  llvm::SmallVector<int64_t> shape, strides;

  /// Describes all elements of a row-major tensor of shape `dense`.
  explicit Access(llvm::ArrayRef<int64_t> dense);
  /// Each of these functions turns the description of an op's operand into the
  /// description of the op's result.
  void transpose(llvm::ArrayRef<int64_t> perm);
  void slice(llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes);
  void expand(llvm::ArrayRef<int64_t> to);
  /// Returns false if an axis of shape `to` would have no single stride.
  bool reshape(llvm::ArrayRef<int64_t> to);

  /// True if `op` moves elements by strides alone: a reshape, a transpose, a
  /// slice without steps or an expand. `op` may be null.
  static bool canFollow(mlir::Operation *op);

  /// Turns this description of the operand of `op` into the description of the
  /// result. Returns false if no strides describe the result. Expects
  /// canFollow(op).
  bool follow(mlir::Operation *op);
};

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_ACCESS_H
