// Strided access to a value whose elements lie in the memory of the value that
// they were moved from.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_ACCESS_H
#define MPC_COMPILER_KERNELS_ACCESS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// Describes the elements of a value in the memory of another: the first
/// element is at `offset`, and neighbours along axis i are strides[i] apart.
struct Access {
  int64_t offset = 0;
  llvm::SmallVector<int64_t> shape, strides;

  /// Describes all elements of a dense value of shape `dense`.
  explicit Access(llvm::ArrayRef<int64_t> dense);
  /// Each turns the access to a value into the access to the moved value.
  void transpose(llvm::ArrayRef<int64_t> perm);
  void slice(llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes);
  void expand(llvm::ArrayRef<int64_t> to);
  /// Returns false if an axis of shape `to` would have no single stride.
  bool reshape(llvm::ArrayRef<int64_t> to);

  /// True if `op` moves elements by strides alone: a reshape, a transpose, a
  /// slice without steps or an expand. `op` may be null.
  static bool canFollow(mlir::Operation *op);

  /// Turns the access of the operand of `op` into the access of the result.
  /// Returns false if no strides describe the result. Expects canFollow(op).
  bool follow(mlir::Operation *op);
};

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_ACCESS_H
