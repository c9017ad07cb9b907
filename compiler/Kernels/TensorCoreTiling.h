// How a matrix product is cut into tiles for Tensor Cores, and how the tiles
// lie in shared memory.
//
// A thread block computes one tile of the result. Tiles of the operands, 32
// deep, pass through a ring of stages in shared memory that asynchronous copies
// fill ahead of their use; each warp computes `warpM` x 64 of the result in
// registers. The results then pass through shared memory once more, from the
// order of the mma instruction to rows, so that the ops after the product read
// and write 16 bytes at a time.
//
// Planning asks here which products a kernel can be generated for and how it is
// launched, Codegen emits what is said here.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_TENSORCORETILING_H
#define MPC_COMPILER_KERNELS_TENSORCORETILING_H

#include "compiler/Kernels/MatrixOperand.h"
#include "compiler/Target/TargetInfo.h"

#include "mlir/IR/Operation.h"

#include <optional>

namespace mpc {

/// A tile of 16-bit elements in shared memory: rows of 16-byte chunks, the unit
/// of copies and of ldmatrix. A chunk stands at its column exclusive-or some
/// bits of its row: eight chunks of one column in adjacent rows, which are what
/// ldmatrix reads at once, then lie in all 32 banks.
struct SwizzledTile {
  int64_t rows = 0, chunks = 0;
  unsigned rowShift = 0;
  int64_t rowMask = 0;

  static SwizzledTile get(int64_t rows, int64_t chunks);

  int64_t getRowBytes() const { return chunks * 16; }
  int64_t getBytes() const { return rows * getRowBytes(); }
  /// Rows after which the pattern repeats.
  int64_t getPeriod() const { return (rowMask + 1) << rowShift; }
  int64_t getOffset(int64_t row, int64_t chunk) const {
    return row * getRowBytes() + (chunk ^ (row >> rowShift & rowMask)) * 16;
  }
};

/// The fp32 results of a warp in shared memory: rows of 64, in 16 units of four
/// elements. A warp writes pairs of elements, of 8 rows x 4 columns at once,
/// and reads whole units along rows, one (`width` up to 4) or two (8) adjacent
/// ones per thread; neither has two threads of one access in a bank.
struct StagingTile {
  static constexpr int64_t kColumns = 64;
  static constexpr int64_t kRowBytes = kColumns * 4;

  /// Elements of a row that a thread reads.
  int64_t width = 4;

  /// Where a unit stands in its row, before the row's bits are applied.
  int64_t getPosition(int64_t unit) const {
    return width < 8 ? unit : (unit & 1) * 8 + ((unit >> 1) ^ (unit & 1));
  }
  int64_t getOffset(int64_t row, int64_t unit) const {
    return row * kRowBytes + (getPosition(unit) ^ ((row & 3) << 1)) * 16;
  }
};

/// One operand of the product.
struct TensorCoreOperand {
  /// Where its elements are.
  MatrixOperand matrix;
  /// Whether neighbours in memory are neighbours along the depth, else along
  /// the rows (lhs) or columns (rhs) of the result.
  bool alongDepth = false;
  /// Elements between the lines that these neighbours make up.
  int64_t leading = 0;
  /// Bytes of one copy: 16, or less where rows start at odd multiples of less.
  int64_t copyBytes = 16;
  SwizzledTile tile;
};

struct TensorCoreTiling {
  static constexpr int64_t kBlockK = 32;
  static constexpr int64_t kWarpN = StagingTile::kColumns;
  /// The shape of the mma instruction.
  static constexpr int64_t kMmaM = 16, kMmaN = 8, kMmaK = 16;

  /// The products: `batch` times m x n, k deep. Batches that share their rhs
  /// are rows of a single product.
  int64_t batch = 1, m = 0, n = 0, k = 0;

  int64_t blockM = 0, blockN = 0, warpM = 0;
  int64_t stages = 2;
  TensorCoreOperand lhs, rhs;

  int64_t getRowTiles() const;
  int64_t getColumnTiles() const;
  int64_t getDepthTiles() const;
  /// Tiles of all batches: thread blocks.
  int64_t getTileCount() const;
  int64_t getWarpsM() const { return blockM / warpM; }
  int64_t getThreads() const { return getWarpsM() * (blockN / kWarpN) * 32; }
  int64_t getStageBytes() const {
    return lhs.tile.getBytes() + rhs.tile.getBytes();
  }
  /// Dynamic shared memory of a thread block.
  int64_t getSharedBytes() const;
};

/// The tiling of `op` where a kernel for Tensor Cores can be generated: a
/// matrix product of two f16 or two bf16 buffers (block arguments) whose rows
/// or columns in memory start at multiples of four bytes, on a target that has
/// them.
std::optional<TensorCoreTiling> getTensorCoreTiling(mlir::Operation *op,
                                                    const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_TENSORCORETILING_H
