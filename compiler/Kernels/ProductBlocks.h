// Plans how a CPU multiplies large matrices without a library.
//
// A slice computes a tile of the result, a block of the depth at a time.
// All the data of a slice lies in scratch memory that fits the caches of a
// core:
//
//   for each block of 256 along the depth
//     pack the tile's rows of the left operand
//     pack the tile's columns of the right operand
//     sums += left * right
//   store the results computed from the sums
//
// Packed operands lie in panels of as many rows (or columns) as fit registers.
// Element (k, line) of a panel is at k * lines + line. The innermost loop thus
// reads both operands contiguously, whatever their strides. Packing widens
// 16-bit operands to f32.
//
//   left, panels of 6 rows          right, panels of 16 columns
//   a(0,0) a(1,0) .. a(5,0)         b(0,0) b(0,1) .. b(0,15)
//   a(0,1) a(1,1) .. a(5,1)         b(1,0) b(1,1) .. b(1,15)
//
// Every sum has a fixed order: first the products within a block of the depth,
// then the blocks.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_KERNELS_PRODUCTBLOCKS_H
#define MPC_COMPILER_KERNELS_PRODUCTBLOCKS_H

#include "compiler/Kernels/KernelSpace.h"

namespace mpc {

/// A matrix product, divided into tiles of the result and blocks of the depth.
struct ProductBlocks {
  ProductExtents extents;
  /// Rows and columns of a tile, and the depth of a block.
  int64_t rows = 0, columns = 0, depth = 0;
  /// Bytes of an element in scratch memory.
  int64_t elementBytes = 4;

  int64_t countRowTiles() const;
  int64_t countColumnTiles() const;
  int64_t countTiles() const {
    return extents.batch * countRowTiles() * countColumnTiles();
  }

  /// Byte offsets of the packed operands and the sums in scratch memory.
  int64_t getLeftOffset() const { return 0; }
  int64_t getRightOffset() const { return rows * depth * elementBytes; }
  int64_t getSumsOffset() const {
    return getRightOffset() + depth * columns * elementBytes;
  }
  int64_t getScratchBytes() const {
    return getSumsOffset() + rows * columns * elementBytes;
  }
};

/// The rows of every tile are a multiple of kTileRowUnit, the columns of
/// kTileColumnUnit. Both units are multiples of all panel sizes, so tiles
/// consist of whole panels.
inline constexpr int64_t kTileRowUnit = 12, kTileColumnUnit = 32;

/// Returns the blocks of `contraction`; nullopt for other ops than matrix
/// products, and for products too small for packing to pay.
std::optional<ProductBlocks> getProductBlocks(mlir::Operation *contraction);

} // namespace mpc

#endif // MPC_COMPILER_KERNELS_PRODUCTBLOCKS_H
