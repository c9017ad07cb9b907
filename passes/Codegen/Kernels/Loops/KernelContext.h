// The common state of kernel emitters: the kernel on tensors, the function
// being emitted, its buffers and bounds, and the target.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_KERNELCONTEXT_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_KERNELCONTEXT_H

#include "compiler/Kernels/KernelPartition.h"
#include "compiler/Target/TargetInfo.h"
#include "passes/Codegen/Kernels/Loops/Loops.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mpc::codegen {

/// Address spaces of buffers on a GPU.
inline constexpr int64_t kGlobalMemory = 1, kSharedMemory = 3;

/// Returns the type of `elementType` in memory and in registers: booleans are
/// bytes, and integers are signless.
mlir::Type getStorageType(mlir::Type elementType);

struct KernelContext {
  /// The kernel on tensors.
  mlir::func::FuncOp kernel;
  /// A builder at the end of the entry block of the function being emitted.
  mlir::ImplicitLocOpBuilder &b;
  /// The flat buffers of the kernel's arguments, then of its results.
  llvm::SmallVector<mlir::Value> buffers;
  /// The arguments after the buffers: begin and end of the slice, or row_begin,
  /// row_end, col_begin, col_end and ld of an epilogue's tile.
  llvm::SmallVector<mlir::Value> bounds;
  const TargetInfo &target;
  /// The division of the kernel's work into slices and, on a GPU, threads.
  KernelPartition partition;
  /// The threads that process a slice: teams share the rows (`rows`), and the
  /// threads of a team share the columns of a row (`columns`). A CPU has one
  /// thread.
  Team rows, columns;
  /// The scratch memory of the worker thread, a buffer of bytes; null if the
  /// kernel needs none.
  mlir::Value scratch = {};

  /// Returns the buffer that an argument is read from or a value is returned
  /// in; null for any other value.
  mlir::Value getBuffer(mlir::Value value) const;

  /// Returns the type that float formulas of `op` are computed in: f64 if an
  /// operand or result is f64, otherwise f32.
  static mlir::FloatType getComputeType(mlir::Operation *op);

  /// Returns the lanes of a vector. CPU: lanes of the kernel's widest compute
  /// type. GPU: elements that a thread loads at once.
  int64_t getVectorWidth();

  /// Loads `width` adjacent elements of a buffer; a scalar if `width` is 1.
  /// `offset` is a multiple of `multiple`, from which a GPU derives the
  /// alignment.
  mlir::Value load(mlir::Value buffer, mlir::Value offset, int64_t width,
                   int64_t multiple);
  void store(mlir::Value value, mlir::Value buffer, mlir::Value offset,
             int64_t multiple);

  /// Creates shared memory of the thread block for `elements` elements of
  /// `type`.
  mlir::Value createShared(int64_t elements, mlir::Type type);

  /// Returns scratch memory from byte `offset` on, for `elements` elements of
  /// `type`.
  mlir::Value createScratch(int64_t offset, int64_t elements, mlir::Type type);

private:
  llvm::MaybeAlign getAlignment(mlir::VectorType type, int64_t multiple) const;
};

// Emit the loop nest of each kernel kind. Report an error if the kernel's body
// holds something that its kind does not allow.
#define MPC_KERNEL_KIND(KIND, WORD)                                            \
  mlir::LogicalResult emit##KIND(KernelContext &context);
#include "compiler/Dialect/MPC/KernelKinds.def"

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_KERNELCONTEXT_H
