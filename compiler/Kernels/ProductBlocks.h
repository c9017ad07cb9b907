// How a CPU multiplies large matrices without a library.
//
// A slice computes one tile of the result, a block of the depth at a time, with
// all it works on in scratch memory, where the caches of a core hold it:
//
//   for each 256 of the depth
//     pack those columns of the tile's rows of the left operand
//     pack those rows of the tile's columns of the right operand
//     sums += left * right
//   store what the kernel makes of the sums
//
// Packed operands lie in panels, as many rows (or columns) as fit registers:
// element (k, line) of a panel is at k * lines + line, so that the innermost
// loop reads both without a gap, whatever strides the operands have. What the
// operands hold in 16 bits is f32 there.
//
//   left, panels of 6 rows          right, panels of 16 columns
//   a(0,0) a(1,0) .. a(5,0)         b(0,0) b(0,1) .. b(0,15)
//   a(0,1) a(1,1) .. a(5,1)         b(1,0) b(1,1) .. b(1,15)
//
// Every sum has one order: the products of a block of the depth one after the
// other, then the blocks.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_PRODUCTBLOCKS_H
#define MPC_COMPILER_KERNELS_PRODUCTBLOCKS_H

#include "compiler/Kernels/KernelSpace.h"

namespace mpc {

/// A product of matrices by tiles of its result and blocks of its depth.
struct ProductBlocks {
  ProductExtents extents;
  /// Rows and columns of a tile, and the depth of a block.
  int64_t rows = 0, columns = 0, depth = 0;
  /// Of an element in scratch memory.
  int64_t elementBytes = 4;

  int64_t countRowTiles() const;
  int64_t countColumnTiles() const;
  int64_t countTiles() const {
    return extents.batch * countRowTiles() * countColumnTiles();
  }

  /// Where the packed operands and the sums lie in scratch memory, in bytes.
  int64_t getLeftOffset() const { return 0; }
  int64_t getRightOffset() const { return rows * depth * elementBytes; }
  int64_t getSumsOffset() const {
    return getRightOffset() + depth * columns * elementBytes;
  }
  int64_t getScratchBytes() const {
    return getSumsOffset() + rows * columns * elementBytes;
  }
};

/// Rows and columns of every tile are multiples of these, so of any panel.
inline constexpr int64_t kTileRowUnit = 12, kTileColumnUnit = 32;

/// The blocks of `contraction`; nothing for one that is no product of matrices,
/// or too small for packing to pay.
std::optional<ProductBlocks> getProductBlocks(mlir::Operation *contraction);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_PRODUCTBLOCKS_H
