// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/TensorCoreTiling.h"

#include "compiler/Kernels/KernelSpace.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace mpc;

using llvm::divideCeilSigned;

//===----------------------------------------------------------------------===//
// Tiling
//===----------------------------------------------------------------------===//

SwizzledTile SwizzledTile::get(int64_t rows, int64_t chunks) {
  assert(chunks >= 4 && llvm::isPowerOf2_64(chunks) && "no rows of banks");
  // Shared memory has 32 banks of 4 bytes. One row of 8 chunks, or two rows of
  // 4 chunks, span all banks once.
  if (chunks == 4)
    return {rows, chunks, 1, 3};
  return {rows, chunks, 0, 7};
}

int64_t TensorCoreTiling::getRowTiles() const {
  return divideCeilSigned(m, blockM);
}

int64_t TensorCoreTiling::getColumnTiles() const {
  return divideCeilSigned(n, blockN);
}

int64_t TensorCoreTiling::getDepthTiles() const {
  return divideCeilSigned(k, kBlockK);
}

int64_t TensorCoreTiling::getTileCount() const {
  return batch * getRowTiles() * getColumnTiles();
}

int64_t TensorCoreTiling::getSharedBytes() const {
  return std::max(stages * getStageBytes(), blockM * blockN * 4);
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

namespace {
struct TileShape {
  int64_t blockM, blockN, warpM;
};
} // namespace

/// Sorted by the ratio of products to copied bytes, best first.
static constexpr TileShape kTileShapes[] = {
    {128, 128, 64}, {128, 64, 32}, {64, 128, 32}, {64, 64, 32}, {32, 64, 16}};

/// About the number of multiprocessors of a large GPU. With fewer tiles, some
/// multiprocessors idle, so chooseTiles takes smaller tiles. If even the
/// smallest tiles are too few, multiprocessors idle; mpc does not divide the
/// depth among blocks.
static constexpr int64_t kEnoughTiles = 108;

/// Limits the tiles in flight: each further stage hides more of the latency of
/// copies, but takes shared memory, so fewer blocks fit a multiprocessor.
static constexpr int64_t kMaxStages = 4;

static void chooseTiles(TensorCoreTiling &tiling) {
  for (const TileShape &shape : kTileShapes) {
    tiling.blockM = shape.blockM;
    tiling.blockN = shape.blockN;
    tiling.warpM = shape.warpM;
    bool halfEmpty =
        2 * tiling.m <= shape.blockM || 2 * tiling.n <= shape.blockN;
    if (!halfEmpty && tiling.getTileCount() >= kEnoughTiles)
      break;
  }
  tiling.stages = std::clamp<int64_t>(tiling.getDepthTiles(), 2, kMaxStages);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

/// The 16-bit elements of a 16-byte chunk, the unit of shared memory; and the
/// bytes of the smallest asynchronous copy.
static constexpr int64_t kChunkElements = 8, kLeastCopyBytes = 4;

/// Describes one operand of the product for copies to shared memory. `matrix`
/// has `extent` rows (lhs) or columns (rhs), each of `depth` elements along the
/// contraction axis. nullopt if memory is contiguous in neither direction, or
/// if no aligned copy of four bytes or more is possible.
static std::optional<TensorCoreOperand> getOperand(const MatrixOperand &matrix,
                                                   bool isTransposed,
                                                   int64_t extent,
                                                   int64_t depth) {
  TensorCoreOperand operand;
  operand.matrix = matrix;
  int64_t outer = matrix.rowStride, inner = matrix.columnStride;
  if (isTransposed)
    std::swap(outer, inner);
  operand.alongDepth = inner == 1;
  if (inner != 1 && outer != 1)
    return std::nullopt;
  operand.leading = operand.alongDepth ? outer : inner;
  // A copy must start at a multiple of its size in every line of every matrix.
  int64_t unit = std::gcd(operand.alongDepth ? depth : extent, kChunkElements);
  for (int64_t stride : matrix.batchStrides)
    unit = std::gcd(unit, stride);
  unit = std::gcd(std::gcd(unit, operand.leading), matrix.offset);
  operand.copyBytes = 2 * unit;
  return operand.copyBytes < kLeastCopyBytes ? std::nullopt
                                             : std::optional(operand);
}

static void setTile(TensorCoreOperand &operand, int64_t extent) {
  assert(extent % 8 == 0 && "chunks have eight elements");
  constexpr int64_t depth = TensorCoreTiling::kBlockK;
  operand.tile = operand.alongDepth ? SwizzledTile::get(extent, depth / 8)
                                    : SwizzledTile::get(depth, extent / 8);
}

static bool canMultiply(MatMulOp op, const TargetInfo &target) {
  Type element = elementOf(op.getLhs());
  return target.isGPU() && (element.isF16() || element.isBF16()) &&
         element == elementOf(op.getRhs()) &&
         target.hasNativeContraction(element) &&
         !elementOf(op.getOutput()).isF64() &&
         op.getOutput().getType().getNumElements() > 0 &&
         op.getLhs().getType().getNumElements() > 0;
}

std::optional<TensorCoreTiling>
mpc::getTensorCoreTiling(Operation *op, const TargetInfo &target) {
  auto matmul = dyn_cast<MatMulOp>(op);
  if (!matmul || !canMultiply(matmul, target))
    return std::nullopt;
  // Find out how the operands reach shared memory.
  ProductExtents extents = getProductExtents(matmul);
  std::optional<MatrixOperands> matrices = getMatrixOperands(matmul, extents);
  if (!matrices || !isa<BlockArgument>(matrices->lhs.source) ||
      !isa<BlockArgument>(matrices->rhs.source))
    return std::nullopt;
  std::optional<TensorCoreOperand> lhs =
      getOperand(matrices->lhs, matmul.getTransA(), extents.m, extents.k);
  std::optional<TensorCoreOperand> rhs =
      getOperand(matrices->rhs, !matmul.getTransB(), extents.n, extents.k);
  if (!lhs || !rhs)
    return std::nullopt;
  TensorCoreTiling tiling;
  tiling.lhs = *lhs;
  tiling.rhs = *rhs;
  tiling.batch = extents.batch;
  tiling.m = extents.m;
  tiling.n = extents.n;
  tiling.k = extents.k;
  chooseTiles(tiling);
  setTile(tiling.lhs, tiling.blockM);
  setTile(tiling.rhs, tiling.blockN);
  assert(tiling.stages >= 2 && "one stage computes while another is copied");
  assert(tiling.blockM % tiling.warpM == 0 && "warps divide a tile evenly");
  return tiling;
}
