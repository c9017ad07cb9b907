// Loops the kernels share: counted loops, and loops over vectors of elements.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_LOOPS_H
#define MPC_PASSES_CODEGEN_LOOPS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mpc::codegen {

/// What a loop hands from one iteration to the next.
using Carried = llvm::SmallVector<mlir::Value>;

/// Emits one iteration; returns the carried values after it.
using LoopBody =
    llvm::function_ref<Carried(mlir::Value index, mlir::ValueRange carried)>;

mlir::Value createIndex(mlir::ImplicitLocOpBuilder &b, int64_t value);
mlir::Value addIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value x, int64_t y);
mlir::Value addIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value x,
                     mlir::Value y);
mlir::Value mulIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value x, int64_t y);

/// for index in [lower, upper) by step.
Carried emitLoop(mlir::ImplicitLocOpBuilder &b, mlir::Value lower,
                 mlir::Value upper, int64_t step, mlir::ValueRange init,
                 LoopBody body);

/// for index in [0, size) by step; one iteration is emitted without a loop.
Carried emitLoop(mlir::ImplicitLocOpBuilder &b, int64_t size, int64_t step,
                 mlir::ValueRange init, LoopBody body);

/// `count` adjacent vectors of `width` elements, from element `index`.
struct Chunk {
  mlir::Value index;
  int64_t width = 1;
  int64_t count = 1;
};
using ChunkBody =
    llvm::function_ref<Carried(Chunk chunk, mlir::ValueRange carried)>;

/// Covers [0, size) with chunks: a loop over `count` vectors of `width`, one
/// over single vectors, and straight-line chunks of narrower vectors for the
/// rest, so that nothing is masked and only a few elements are done one by one.
Carried emitChunks(mlir::ImplicitLocOpBuilder &b, int64_t size, int64_t width,
                   int64_t count, mlir::ValueRange init, ChunkBody body);

/// The shape of a chunk.
struct ChunkShape {
  int64_t width = 1;
  int64_t count = 1;
};

/// Covers [lower, upper), known only at run time and at most `size` long, by
/// one loop per shape; the last shape is one element.
void emitDynamicChunks(mlir::ImplicitLocOpBuilder &b, mlir::Value lower,
                       mlir::Value upper, int64_t size,
                       llvm::ArrayRef<ChunkShape> shapes,
                       llvm::function_ref<void(Chunk)> body);

/// Splits a row-major index into indices of axes of the given sizes.
llvm::SmallVector<mlir::Value> splitIndex(mlir::ImplicitLocOpBuilder &b,
                                          mlir::Value index,
                                          llvm::ArrayRef<int64_t> sizes);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_LOOPS_H
