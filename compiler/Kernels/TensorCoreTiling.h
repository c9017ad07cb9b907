// Plans the tiles of a matrix product on Tensor Cores, and their layout in
// shared memory.
//
// A thread block computes a tile of the result. Tiles of the operands, 32
// deep, pass through a ring of stages in shared memory. Asynchronous copies
// fill the stages ahead of use. Each warp computes `warpM` x 64 results in
// registers. Finally, the results pass through shared memory, from the order of
// the mma instruction to rows. The ops after the product then read and write 16
// bytes at a time.
//
// Planning asks here which products can be generated and how the kernels are
// launched. Codegen emits the tiling.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_TENSORCORETILING_H
#define MPC_COMPILER_KERNELS_TENSORCORETILING_H

#include "compiler/Kernels/MatrixOperand.h"
#include "compiler/Target/TargetInfo.h"

#include "mlir/IR/Operation.h"

#include <optional>

namespace mpc {

/// A tile of 16-bit elements in shared memory, in rows of 16-byte chunks, the
/// unit of copies and of ldmatrix. Each chunk is stored at its column XOR some
/// bits of its row. The eight chunks that ldmatrix reads at once, one column in
/// adjacent rows, then lie in all 32 banks.
struct SwizzledTile {
  int64_t rows = 0, chunks = 0;
  unsigned rowShift = 0;
  int64_t rowMask = 0;

  static SwizzledTile get(int64_t rows, int64_t chunks);

  int64_t getRowBytes() const { return chunks * 16; }
  int64_t getBytes() const { return rows * getRowBytes(); }
  /// Rows after which the swizzle pattern repeats.
  int64_t getPeriod() const { return (rowMask + 1) << rowShift; }
  int64_t getOffset(int64_t row, int64_t chunk) const {
    return row * getRowBytes() + (chunk ^ (row >> rowShift & rowMask)) * 16;
  }
};

/// A warp's fp32 results in shared memory: rows of 64 elements, as 16 units of
/// four. A warp writes pairs of elements, 8 rows x 4 columns at a time. A
/// thread reads one unit of a row (`width` up to 4) or two adjacent units
/// (`width` 8). No access has a bank conflict.
struct StagingTile {
  static constexpr int64_t kColumns = 64;
  static constexpr int64_t kRowBytes = kColumns * 4;

  /// Elements of a row that a thread reads.
  int64_t width = 4;

  /// Returns where a row stores `unit`, before the XOR with bits of the row
  /// number. For `width` 8, units 0, 2, 4, ... come first, since a thread reads
  /// units in pairs.
  int64_t getPosition(int64_t unit) const {
    return width < 8 ? unit : (unit & 1) * 8 + ((unit >> 1) ^ (unit & 1));
  }
  int64_t getOffset(int64_t row, int64_t unit) const {
    return row * kRowBytes + (getPosition(unit) ^ ((row & 3) << 1)) * 16;
  }
};

/// One operand of the product.
struct TensorCoreOperand {
  /// The operand's elements in memory.
  MatrixOperand matrix;
  /// True if neighbours in memory are neighbours along the depth. Otherwise
  /// they are neighbours along the rows (lhs) or columns (rhs) of the result.
  bool alongDepth = false;
  /// Elements from the start of a line to the start of the next. Lines run
  /// along the contiguous direction in memory.
  int64_t leading = 0;
  /// Bytes of one copy: 16, or the largest power of two that all row starts are
  /// multiples of.
  int64_t copyBytes = 16;
  SwizzledTile tile;
};

struct TensorCoreTiling {
  static constexpr int64_t kBlockK = 32;
  static constexpr int64_t kWarpN = StagingTile::kColumns;
  /// The shape of the mma instruction.
  static constexpr int64_t kMmaM = 16, kMmaN = 8, kMmaK = 16;

  /// The products: `batch` products of m x k by k x n. A batch that shares the
  /// rhs is rows of a single product.
  int64_t batch = 1, m = 0, n = 0, k = 0;

  int64_t blockM = 0, blockN = 0, warpM = 0;
  int64_t stages = 2;
  TensorCoreOperand lhs, rhs;

  int64_t getRowTiles() const;
  int64_t getColumnTiles() const;
  int64_t getDepthTiles() const;
  /// Counts the tiles of all batches: the number of thread blocks.
  int64_t getTileCount() const;
  int64_t getWarpsM() const { return blockM / warpM; }
  int64_t getThreads() const { return getWarpsM() * (blockN / kWarpN) * 32; }
  int64_t getStageBytes() const {
    return lhs.tile.getBytes() + rhs.tile.getBytes();
  }
  /// Bytes of dynamic shared memory of a thread block.
  int64_t getSharedBytes() const;
};

/// Returns the tiling of `op` if Tensor Cores can compute it; nullopt
/// otherwise. `op` must be a matrix product of two f16 or two bf16 block
/// arguments on a target with such Tensor Cores. Rows or columns in memory must
/// start at multiples of four bytes.
std::optional<TensorCoreTiling> getTensorCoreTiling(mlir::Operation *op,
                                                    const TargetInfo &target);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_TENSORCORETILING_H
