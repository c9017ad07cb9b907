// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ProductBlocks.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Packing an operand costs as much as some ten of its rows in the product.
static constexpr int64_t kMinSide = 64, kMinDepth = 32;
/// The depth of a block, for which a panel of the right operand takes half of a
/// first-level cache.
static constexpr int64_t kMaxDepth = 256;
/// Tiles keep the threads of a small socket busy with little left at the end.
static constexpr int64_t kEnoughProductTiles = 16;

/// Sides of a tile: the left operand's block fits a second-level cache; the
/// fewer tiles, the less is packed twice.
static constexpr struct {
  int64_t rows, columns;
} kTiles[] = {{192, 512}, {192, 256}, {96, 256}, {96, 128}};

// The length of equal parts of `extent`, as few as are at most `most` long, in
// multiples of `unit`.
static int64_t divideEvenly(int64_t extent, int64_t most, int64_t unit) {
  int64_t parts = llvm::divideCeilSigned(extent, most);
  return llvm::alignTo(llvm::divideCeilSigned(extent, parts), unit);
}

int64_t ProductBlocks::countRowTiles() const {
  return llvm::divideCeilSigned(extents.m, rows);
}

int64_t ProductBlocks::countColumnTiles() const {
  return llvm::divideCeilSigned(extents.n, columns);
}

std::optional<ProductBlocks> mpc::getProductBlocks(Operation *contraction) {
  auto matmul = dyn_cast<MatMulOp>(contraction);
  if (!matmul)
    return std::nullopt;
  ProductBlocks blocks;
  blocks.extents = getProductExtents(matmul);
  const ProductExtents &extents = blocks.extents;
  if (extents.m < kMinSide || extents.n < kMinSide || extents.k < kMinDepth)
    return std::nullopt;
  bool isWide = llvm::any_of(matmul->getOperands(), [](Value operand) {
    return elementOf(operand).isF64();
  });
  blocks.elementBytes = isWide || elementOf(matmul).isF64() ? 8 : 4;
  blocks.depth = divideEvenly(extents.k, kMaxDepth * 4 / blocks.elementBytes,
                              /*unit=*/8);
  for (auto [rows, columns] : kTiles) {
    blocks.rows = divideEvenly(extents.m, rows, kTileRowUnit);
    blocks.columns = divideEvenly(extents.n, columns, kTileColumnUnit);
    if (blocks.countTiles() >= kEnoughProductTiles)
      break;
  }
  return blocks;
}
