// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ProductBlocks.h"

#include "compiler/Kernels/KernelPartition.h"
#include "compiler/Kernels/MatrixOperand.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Smallest sizes for which packing pays: packing costs about as much as ten
/// rows of the product.
static constexpr int64_t kMinSide = 64, kMinDepth = 32;
/// Largest depth of a block: a panel of the right operand then takes half of a
/// first-level cache.
static constexpr int64_t kMaxDepth = 256;
/// With this many tiles, the threads of a small socket are busy, and few idle
/// at the end.
static constexpr int64_t kEnoughProductTiles = 16;

/// Sizes of tiles, largest first. Larger tiles pack the same data less often.
/// The left operand's block must fit a second-level cache.
static constexpr struct {
  int64_t rows, columns;
} kTiles[] = {{192, 512}, {192, 256}, {96, 256}, {96, 128}};

int64_t ProductBlocks::countRowTiles() const {
  return llvm::divideCeilSigned(extents.m, rows);
}

int64_t ProductBlocks::countColumnTiles() const {
  return llvm::divideCeilSigned(extents.n, columns);
}

/// True if rows or columns of both operands are contiguous in memory. Packing
/// of panels relies on contiguous lines.
static bool areAdjacent(const std::optional<MatrixOperands> &matrices) {
  auto isAdjacent = [](const MatrixOperand &operand) {
    return operand.rowStride == 1 || operand.columnStride == 1;
  };
  return matrices && isAdjacent(matrices->lhs) && isAdjacent(matrices->rhs);
}

std::optional<ProductBlocks> mpc::getProductBlocks(Operation *contraction) {
  auto matmul = dyn_cast<MatMulOp>(contraction);
  if (!matmul)
    return std::nullopt;
  ProductBlocks blocks;
  blocks.extents = getProductExtents(matmul);
  const ProductExtents &extents = blocks.extents;
  if (extents.m < kMinSide || extents.n < kMinSide || extents.k < kMinDepth ||
      !areAdjacent(getMatrixOperands(matmul, extents)))
    return std::nullopt;
  blocks.elementBytes = isF64(matmul) ? 8 : 4;
  blocks.depth = divideEvenly(extents.k, kMaxDepth * 4 / blocks.elementBytes,
                              /*unit=*/8);
  // Choose the largest tiles that still give enough tiles for all cores.
  for (auto [rows, columns] : kTiles) {
    blocks.rows = divideEvenly(extents.m, rows, kTileRowUnit);
    blocks.columns = divideEvenly(extents.n, columns, kTileColumnUnit);
    if (blocks.countTiles() >= kEnoughProductTiles)
      break;
  }
  return blocks;
}
