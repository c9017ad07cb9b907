// Where the elements of a value lie in the memory of another one that it is
// moved from.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_ACCESS_H
#define MPC_COMPILER_KERNELS_ACCESS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// The elements of a value in the memory of another: the first is at `offset`,
/// neighbours along axis i are strides[i] apart.
struct Access {
  int64_t offset = 0;
  llvm::SmallVector<int64_t> shape, strides;

  /// All elements of a dense value of that shape.
  explicit Access(llvm::ArrayRef<int64_t> dense);
  void transpose(llvm::ArrayRef<int64_t> perm);
  void slice(llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes);
  void expand(llvm::ArrayRef<int64_t> to);
  /// False where an axis of the new shape would have no one stride.
  bool reshape(llvm::ArrayRef<int64_t> to);

  /// Whether `op`, which may be null, is one to follow: a reshape, a transpose,
  /// a slice without steps or an expand.
  static bool canFollow(mlir::Operation *op);

  /// Makes the access of the operand of `op`, one to follow, that of its
  /// result. False where no strides say where its result is.
  bool follow(mlir::Operation *op);
};

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_ACCESS_H
