// Emits loops that kernels share: counted loops, and loops over vectors of
// elements.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_LOOPS_LOOPS_H
#define MPC_PASSES_CODEGEN_KERNELS_LOOPS_LOOPS_H

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace mpc::codegen {

/// The values that one iteration passes to the next.
using Carried = llvm::SmallVector<mlir::Value>;

/// Emits one iteration and returns the carried values after it.
using LoopBody =
    llvm::function_ref<Carried(mlir::Value index, mlir::ValueRange carried)>;

mlir::Value createIndex(mlir::ImplicitLocOpBuilder &b, int64_t value);
mlir::Value addIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value x, int64_t y);
mlir::Value addIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value x,
                     mlir::Value y);
mlir::Value mulIndex(mlir::ImplicitLocOpBuilder &b, mlir::Value x, int64_t y);

/// The threads that share the iterations of a loop: `size` threads, of which
/// thread `rank` runs the emitted code. A single thread has no rank.
struct Team {
  mlir::Value rank;
  int64_t size = 1;

  bool isAlone() const { return size == 1; }
  /// Returns `index` plus `step` times the rank.
  mlir::Value shift(mlir::ImplicitLocOpBuilder &b, mlir::Value index,
                    int64_t step) const;
};

/// Divides a long chain of additions into blocks of iterations. Each block
/// starts from the neutral element, and its result is added to totals, which
/// may be wider. The error of a sum of millions of terms is then that of one
/// block.
class BlockedChain {
public:
  virtual ~BlockedChain() = default;

  /// The most additions of a block.
  static constexpr int64_t kLength = 32;

  /// Returns the carried values with which a block starts: neutral elements.
  virtual Carried start() = 0;
  /// open: turns the carried values into totals. add: adds the result of a
  /// block to the totals. close: turns the totals back into carried values.
  virtual Carried open(mlir::ValueRange carried) = 0;
  virtual Carried add(mlir::ValueRange totals, mlir::ValueRange block) = 0;
  virtual Carried close(mlir::ValueRange totals) = 0;
};

/// The BlockedChain to which a loop's additions belong; none if `chain` is
/// null. Each iteration makes `additions` additions, one after the other.
struct ChainStep {
  BlockedChain *chain = nullptr;
  int64_t additions = 1;
};

/// Emits: for index in [lower, upper) by step. Members of a team take turns, in
/// order of rank.
Carried emitLoop(mlir::ImplicitLocOpBuilder &b, mlir::Value lower,
                 mlir::Value upper, int64_t step, mlir::ValueRange init,
                 LoopBody body, const Team &team = {});

/// Emits: for index in [0, size) by step. A single iteration is emitted without
/// a loop. Nothing is emitted if `size` is 0. If the chain of dependent
/// additions gets too long, emits two loops: over blocks, and within a block.
Carried emitLoop(mlir::ImplicitLocOpBuilder &b, int64_t size, int64_t step,
                 mlir::ValueRange init, LoopBody body, const Team &team = {},
                 ChainStep part = {});

/// `count` vectors of `width` elements. The first starts at element `index`,
/// each further one `stride` elements later.
struct Chunk {
  mlir::Value index;
  int64_t width = 1;
  int64_t count = 1;
  int64_t stride = 1;

  /// Returns the start of vector `number`.
  mlir::Value getVector(mlir::ImplicitLocOpBuilder &b, int64_t number) const {
    return addIndex(b, index, number * stride);
  }
};
using ChunkBody =
    llvm::function_ref<Carried(Chunk chunk, mlir::ValueRange carried)>;

/// Covers [0, size) with chunks: a loop over `count` vectors of `width`, a loop
/// over single vectors, and straight-line chunks of narrower vectors for the
/// rest. Nothing is masked, and few elements are processed singly. Members of a
/// team take vectors in turn, and together read and write adjacent vectors. A
/// chunk starts at a multiple of its width.
Carried emitChunks(mlir::ImplicitLocOpBuilder &b, int64_t size, int64_t width,
                   int64_t count, mlir::ValueRange init, ChunkBody body,
                   const Team &team = {}, ChainStep part = {});

/// The shape of a chunk: `count` vectors of `width` elements.
struct ChunkShape {
  int64_t width = 1;
  int64_t count = 1;
};

/// Covers [lower, upper), known only at run time and at most `size` long, with
/// one loop per shape. A team shares each loop. The last shape must divide the
/// rest; a single element always does.
void emitDynamicChunks(mlir::ImplicitLocOpBuilder &b, mlir::Value lower,
                       mlir::Value upper, int64_t size,
                       llvm::ArrayRef<ChunkShape> shapes,
                       llvm::function_ref<void(Chunk)> body,
                       const Team &team = {});

/// Cuts [begin, end), known only at run time, into runs at the multiples of
/// `size`, and emits a loop over the runs. `body` gets the number of a run, and
/// the range [lower, upper) relative to the start of this run. The first and
/// last run may be cut.
void emitRunLoop(mlir::ImplicitLocOpBuilder &b, mlir::Value begin,
                 mlir::Value end, int64_t size,
                 llvm::function_ref<void(mlir::Value number, mlir::Value lower,
                                         mlir::Value upper)>
                     body);

/// Emits: if (condition) body(). Omits the test if `condition` is null.
void emitWhere(mlir::ImplicitLocOpBuilder &b, mlir::Value condition,
               llvm::function_ref<void()> body);

/// Emits: if (condition) body(); else other(). Emits just body() if `condition`
/// is null.
void emitEither(mlir::ImplicitLocOpBuilder &b, mlir::Value condition,
                llvm::function_ref<void()> body,
                llvm::function_ref<void()> other);

/// Splits a row-major index into indices along axes of the given sizes: 13 with
/// sizes [4, 6] into [2, 1]. The first size is not used.
llvm::SmallVector<mlir::Value> splitIndex(mlir::ImplicitLocOpBuilder &b,
                                          mlir::Value index,
                                          llvm::ArrayRef<int64_t> sizes);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_LOOPS_LOOPS_H
