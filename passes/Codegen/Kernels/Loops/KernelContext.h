// What emitters of kernels share: the kernel on tensors, the function of loops
// that is emitted for it, its buffers and bounds, and the target.
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

/// The type elements of `type` have in memory and in registers: booleans are
/// bytes, integers carry no sign.
mlir::Type getStorageType(mlir::Type elementType);

struct KernelContext {
  /// The kernel on tensors.
  mlir::func::FuncOp kernel;
  /// At the end of the entry block of the function being emitted.
  mlir::ImplicitLocOpBuilder &b;
  /// The buffers of arguments and results, flat.
  llvm::SmallVector<mlir::Value> buffers;
  /// What follows the buffers: begin and end, or an epilogue's row_begin,
  /// row_end, col_begin, col_end and ld.
  llvm::SmallVector<mlir::Value> bounds;
  const TargetInfo &target;
  /// How the kernel's work is divided.
  KernelPartition partition;
  /// The threads of a slice: teams that share its rows, and the threads of a
  /// team, which share the columns. One alone on a CPU.
  Team rows, columns;
  /// The worker's memory, in bytes; null where the partition has no scratch.
  mlir::Value scratch = {};

  /// The buffer an argument is read from or a value is returned in; null for a
  /// value that is neither.
  mlir::Value getBuffer(mlir::Value value) const;

  /// The type float formulas of `op` are computed in: f64 where any operand or
  /// result is f64, else f32.
  static mlir::FloatType getComputeType(mlir::Operation *op);

  /// Lanes of a vector: of the kernel's widest compute type on a CPU; on a GPU
  /// as many as a thread loads at once.
  int64_t getVectorWidth();

  /// `width` adjacent elements of a buffer: a scalar where it is 1. `offset` is
  /// known to be a multiple of `multiple`, which a GPU must know.
  mlir::Value load(mlir::Value buffer, mlir::Value offset, int64_t width,
                   int64_t multiple);
  void store(mlir::Value value, mlir::Value buffer, mlir::Value offset,
             int64_t multiple);

  /// Memory of the thread block, for `elements` of `type`.
  mlir::Value createShared(int64_t elements, mlir::Type type);

  /// Scratch memory from byte `offset` on, for `elements` of `type`.
  mlir::Value createScratch(int64_t offset, int64_t elements, mlir::Type type);

private:
  llvm::MaybeAlign getAlignment(mlir::VectorType type, int64_t multiple) const;
};

// The loop nests, by kind of kernel. Each emits an error where the kernel's
// body is not what its kind may hold.
#define MPC_KERNEL_KIND(KIND, WORD)                                            \
  mlir::LogicalResult emit##KIND(KernelContext &context);
#include "compiler/Dialect/MPC/KernelKinds.def"

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_KERNELCONTEXT_H
