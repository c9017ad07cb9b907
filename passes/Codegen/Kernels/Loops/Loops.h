// Loops the kernels share: counted loops, and loops over vectors of elements.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_LOOPS_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_LOOPS_H

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

/// The threads that share the iterations of a loop: `size` of them, of which
/// the code being emitted is run by number `rank`. One alone has no rank.
struct Team {
  mlir::Value rank;
  int64_t size = 1;

  bool isAlone() const { return size == 1; }
  /// `index` moved on by `step` per rank.
  mlir::Value shift(mlir::ImplicitLocOpBuilder &b, mlir::Value index,
                    int64_t step) const;
};

/// A long chain of additions in blocks of iterations: each block starts afresh,
/// and its end is added to totals, which may be wider. So the error of a sum of
/// millions of terms is that of one block.
class BlockedChain {
public:
  virtual ~BlockedChain() = default;

  /// The most additions of a block.
  static constexpr int64_t kLength = 32;

  /// What a block starts from.
  virtual Carried start() = 0;
  /// The totals of a chain that starts from `carried`, then with what a block
  /// ends with, and what the chain hands on.
  virtual Carried open(mlir::ValueRange carried) = 0;
  virtual Carried add(mlir::ValueRange totals, mlir::ValueRange block) = 0;
  virtual Carried close(mlir::ValueRange totals) = 0;
};

/// A chain that a loop is part of; none where it is null. An iteration adds
/// `additions` times, one after the other.
struct ChainStep {
  BlockedChain *chain = nullptr;
  int64_t additions = 1;
};

/// for index in [lower, upper) by step. Members of a team take turns, in order
/// of their ranks.
Carried emitLoop(mlir::ImplicitLocOpBuilder &b, mlir::Value lower,
                 mlir::Value upper, int64_t step, mlir::ValueRange init,
                 LoopBody body, const Team &team = {});

/// for index in [0, size) by step; one iteration is emitted without a loop,
/// none not at all. One that makes a chain too long is two loops, over blocks
/// and within a block.
Carried emitLoop(mlir::ImplicitLocOpBuilder &b, int64_t size, int64_t step,
                 mlir::ValueRange init, LoopBody body, const Team &team = {},
                 ChainStep part = {});

/// `count` vectors of `width` elements, the first from element `index`, the
/// others each `stride` elements further.
struct Chunk {
  mlir::Value index;
  int64_t width = 1;
  int64_t count = 1;
  int64_t stride = 1;

  /// Where vector `number` starts.
  mlir::Value getVector(mlir::ImplicitLocOpBuilder &b, int64_t number) const {
    return addIndex(b, index, number * stride);
  }
};
using ChunkBody =
    llvm::function_ref<Carried(Chunk chunk, mlir::ValueRange carried)>;

/// Covers [0, size) with chunks: a loop over `count` vectors of `width`, one
/// over single vectors, and straight-line chunks of narrower vectors for the
/// rest, so that nothing is masked and only a few elements are done one by one.
/// Members of a team take every vector in turn, so that together they read and
/// write adjacent ones. A chunk starts at a multiple of its width.
Carried emitChunks(mlir::ImplicitLocOpBuilder &b, int64_t size, int64_t width,
                   int64_t count, mlir::ValueRange init, ChunkBody body,
                   const Team &team = {}, ChainStep part = {});

/// The shape of a chunk.
struct ChunkShape {
  int64_t width = 1;
  int64_t count = 1;
};

/// Covers [lower, upper), known only at run time and at most `size` long, by
/// one loop per shape, which a team shares; the last shape is one element.
void emitDynamicChunks(mlir::ImplicitLocOpBuilder &b, mlir::Value lower,
                       mlir::Value upper, int64_t size,
                       llvm::ArrayRef<ChunkShape> shapes,
                       llvm::function_ref<void(Chunk)> body,
                       const Team &team = {});

/// Cuts [begin, end), known only at run time, at the multiples of `size`.
/// `body` takes the number of a piece and [lower, upper), counted from where
/// the multiple begins: the first and the last piece may be parts of one.
void emitPieces(mlir::ImplicitLocOpBuilder &b, mlir::Value begin,
                mlir::Value end, int64_t size,
                llvm::function_ref<void(mlir::Value number, mlir::Value lower,
                                        mlir::Value upper)>
                    body);

/// if (condition) body(); without the test if `condition` is null.
void emitWhere(mlir::ImplicitLocOpBuilder &b, mlir::Value condition,
               llvm::function_ref<void()> body);

/// if (condition) body(); else other(); just body() if `condition` is null.
void emitEither(mlir::ImplicitLocOpBuilder &b, mlir::Value condition,
                llvm::function_ref<void()> body,
                llvm::function_ref<void()> other);

/// Splits a row-major index into indices of axes of the given sizes.
llvm::SmallVector<mlir::Value> splitIndex(mlir::ImplicitLocOpBuilder &b,
                                          mlir::Value index,
                                          llvm::ArrayRef<int64_t> sizes);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_LOOPS_H
