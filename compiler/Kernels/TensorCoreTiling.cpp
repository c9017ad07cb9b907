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
  // 128 bytes are all banks once: one row of 8 chunks, or two of 4.
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

/// From the most products per byte copied to the least.
static constexpr TileShape kTileShapes[] = {
    {128, 128, 64}, {128, 64, 32}, {64, 128, 32}, {64, 64, 32}, {32, 64, 16}};

/// About the multiprocessors of a large GPU: with fewer tiles some idle, and
/// smaller tiles finish earlier. A deep product with few tiles of the smallest
/// shape still leaves some idle; dividing its depth among blocks would not.
static constexpr int64_t kEnoughTiles = 108;

/// Each stage hides one tile's work of latency; more than four cost occupancy.
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

static TensorCoreOperand getOperand(Value value, bool alongDepth) {
  TensorCoreOperand operand;
  operand.alongDepth = alongDepth;
  operand.copyBytes = 2 * std::gcd<int64_t>(shapeOf(value).back(), 8);
  return operand;
}

static void setTile(TensorCoreOperand &operand, int64_t extent) {
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
         isa<BlockArgument>(op.getLhs()) && isa<BlockArgument>(op.getRhs()) &&
         op.getOutput().getType().getNumElements() > 0 &&
         op.getLhs().getType().getNumElements() > 0;
}

std::optional<TensorCoreTiling>
mpc::getTensorCoreTiling(Operation *op, const TargetInfo &target) {
  auto matmul = dyn_cast<MatMulOp>(op);
  if (!matmul || !canMultiply(matmul, target))
    return std::nullopt;
  // How operands come to shared memory: 4 bytes at once at least.
  TensorCoreTiling tiling;
  tiling.lhs = getOperand(matmul.getLhs(), !matmul.getTransA());
  tiling.rhs = getOperand(matmul.getRhs(), matmul.getTransB());
  if (tiling.lhs.copyBytes < 4 || tiling.rhs.copyBytes < 4)
    return std::nullopt;
  // Tiles by the extents, and operands by their tile.
  ProductExtents extents = getProductExtents(matmul);
  tiling.batch = extents.batch;
  tiling.m = extents.m;
  tiling.n = extents.n;
  tiling.k = extents.k;
  chooseTiles(tiling);
  setTile(tiling.lhs, tiling.blockM);
  setTile(tiling.rhs, tiling.blockN);
  return tiling;
}
