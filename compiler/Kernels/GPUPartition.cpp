// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/GPUPartition.h"

#include "compiler/Kernels/KernelSegments.h"
#include "compiler/Kernels/KernelSpace.h"
#include "compiler/Kernels/TensorCoreTiling.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;

/// Threads of a block unless there is a reason for another number: eight warps,
/// of which several blocks fit a multiprocessor.
static constexpr int64_t kBlockThreads = 256;
/// Threads of a block that reduces one long row: still enough registers.
static constexpr int64_t kWideBlockThreads = 512;
static constexpr int64_t kWarp = 32;
/// More blocks than this are no better balanced; each does more instead.
static constexpr int64_t kEnoughBlocks = 4096;
/// As many as fill every multiprocessor a few times.
static constexpr int64_t kFewBlocks = 1024;
/// With fewer rows than this, a block shares a row rather than a warp.
static constexpr int64_t kManyRows = 1024;

static int64_t divideCeil(int64_t x, int64_t y) {
  return llvm::divideCeilSigned(x, y);
}

/// How often a block does `work` indices, so that there are not too many.
static int64_t countRounds(int64_t extent, int64_t work,
                           int64_t enoughBlocks = kEnoughBlocks) {
  return std::max<int64_t>(1,
                           divideCeil(divideCeil(extent, work), enoughBlocks));
}

/// Elements of a vector such that the narrowest floats fill 16 bytes and runs
/// of `run` elements divide in whole vectors.
static int64_t vectorOf(func::FuncOp kernel, int64_t run,
                        const TargetInfo &target) {
  unsigned bits = 64;
  auto visit = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    if (isa<FloatType>(tensor.getElementType()) && tensor.getNumElements() > 1)
      bits = std::min(bits, tensor.getElementTypeBitWidth());
  };
  llvm::for_each(kernel.getArgumentTypes(), visit);
  llvm::for_each(kernel.getResultTypes(), visit);
  int64_t vector = target.getVectorBits() / bits;
  while (vector > 1 && run % vector != 0)
    vector /= 2;
  return vector;
}

/// `rows` rows of `columns` elements, each for as many threads as it has
/// vectors, up to the whole block.
static KernelPartition shareRows(int64_t rows, int64_t columns,
                                 int64_t vector) {
  int64_t lanes = std::min<int64_t>(
      llvm::PowerOf2Ceil(std::max<int64_t>(1, columns / vector)),
      kBlockThreads);
  int64_t teams = kBlockThreads / lanes;
  return {rows,    teams * countRounds(rows, teams),
          columns, kBlockThreads,
          lanes,   vector};
}

/// Whether every thread first computes in f64 what depends on the step alone;
/// then each should have several elements.
static bool hasCostlyScalars(func::FuncOp kernel) {
  return llvm::any_of(kernel.getBody().front(), [](Operation &op) {
    return isa<OptimizerOpInterface>(op);
  });
}

// One index is a row, for which there is a block.
static KernelPartition shareRowSegments(func::FuncOp kernel) {
  return {getSegmentedExtent(kernel, 1), 1, 1, kBlockThreads, kBlockThreads, 1};
}

// One index is one element. Optimizers' state is wide: vectors of four.
static KernelPartition shareSegments(func::FuncOp kernel,
                                     const TargetInfo &target) {
  int64_t vector = std::min<int64_t>(4, vectorOf(kernel, 0, target));
  int64_t grain = kBlockThreads * vector;
  int64_t blocks = divideCeil(getSegmentedExtent(kernel, grain), grain);
  grain *= divideCeil(blocks, kEnoughBlocks);
  return {getSegmentedExtent(kernel, grain),
          grain,
          1,
          kBlockThreads,
          kBlockThreads,
          vector};
}

static KernelPartition sharePointwise(func::FuncOp kernel,
                                      const TargetInfo &target) {
  if (isSegmented(kernel))
    return shareSegments(kernel, target);
  ArrayRef<int64_t> space = getResultShape(kernel);
  int64_t elements = ShapedType::getNumElements(space);
  size_t uniform = findUniformAxis(kernel, space);
  if (uniform == 0) {
    // One index is one element. A remainder is done element by element.
    int64_t vector = vectorOf(kernel, 0, target);
    int64_t block = kBlockThreads * vector;
    int64_t enough = hasCostlyScalars(kernel) ? kFewBlocks : kEnoughBlocks;
    int64_t grain = block * countRounds(elements, block, enough);
    return {elements, grain, 1, kBlockThreads, kBlockThreads, vector};
  }
  // As few trailing axes as keep a block busy, so that there are many rows.
  size_t axis = space.size() - 1;
  while (axis > uniform && ShapedType::getNumElements(space.drop_front(axis)) <
                               kBlockThreads * kWarp)
    --axis;
  int64_t inner = ShapedType::getNumElements(space.drop_front(axis));
  return shareRows(
      elements / inner, inner,
      vectorOf(kernel, space.back() == 1 ? inner : space.back(), target));
}

static KernelPartition shareRowReduction(func::FuncOp kernel,
                                         const TargetInfo &target) {
  if (isSegmented(kernel))
    return shareRowSegments(kernel);
  ReductionSpace space = getReductionSpace(kernel);
  int64_t vector = vectorOf(kernel, space.reduced, target);
  int64_t vectors = divideCeil(space.reduced, vector);
  // A team is a part of a warp, or a block, which takes shared memory.
  bool byBlock =
      vectors > 8 * kWarp || (vectors >= 2 * kWarp && space.outer < kManyRows);
  if (byBlock) {
    int64_t threads = vectors > 4 * kWideBlockThreads ? kWideBlockThreads
                      : vectors >= kBlockThreads      ? kBlockThreads
                                                      : 2 * kWarp;
    return {space.outer,   divideCeil(space.outer, kEnoughBlocks),
            space.reduced, threads,
            threads,       vector};
  }
  KernelPartition result = shareRows(space.outer, space.reduced, vector);
  result.lanes = std::min(result.lanes, kWarp);
  int64_t teams = result.threads / result.lanes;
  result.grain = teams * countRounds(space.outer, teams);
  return result;
}

// One index is a block of columns, as wide as a warp reads at once; the teams
// share what is reduced.
static KernelPartition shareColumns(func::FuncOp kernel,
                                    const TargetInfo &target) {
  ReductionSpace space = getReductionSpace(kernel);
  // A vector must not reach beyond the last axis, whichever axes are merged.
  ArrayRef<int64_t> shape =
      shapeOf(findReduction(kernel.getBody().front())->getOperand(0));
  while (!shape.empty() && shape.back() == 1)
    shape = shape.drop_back();
  int64_t run = space.inner == 1 ? 1 : shape.back();
  int64_t vector = vectorOf(kernel, run, target);
  int64_t vectors = space.inner / vector;
  // Half a warp reads whole cache lines already. Two threads still read all of
  // what memory gives at once, which is worth it where there are few blocks.
  int64_t lanes = std::min<int64_t>(llvm::PowerOf2Ceil(vectors), kWarp / 2);
  while (lanes > 2 && space.outer * divideCeil(vectors, lanes) < kFewBlocks / 4)
    lanes /= 2;
  int64_t threads = kBlockThreads;
  while (threads > kWarp && threads / lanes > space.reduced)
    threads /= 2;
  return {space.outer * divideCeil(vectors, lanes),
          1,
          space.inner,
          threads,
          std::min(lanes, threads),
          vector};
}

static KernelPartition shareMovement(func::FuncOp kernel,
                                     const TargetInfo &target) {
  ArrayRef<int64_t> shape = getResultShape(kernel);
  if (shape.empty())
    return {1, 1, 1, kWarp, kWarp, 1};
  if (auto transpose =
          dyn_cast<TransposeOp>(kernel.getBody().front().front())) {
    TransposeSpace space = getTransposeSpace(transpose);
    if (space.turnsMatrices()) {
      int64_t rows = space.rows.back().size;
      int64_t matrices =
          ShapedType::getNumElements(shape) / (rows * space.columns.size);
      int64_t tiles = divideCeil(rows, kTransposeTile) *
                      divideCeil(space.columns.size, kTransposeTile);
      return {matrices * tiles, 1, space.columns.size, kBlockThreads, kWarp, 1};
    }
  }
  return shareRows(ShapedType::getNumElements(shape.drop_back()), shape.back(),
                   vectorOf(kernel, shape.back(), target));
}

// On Tensor Cores one index is a tile of the result, elsewhere a row of it.
static KernelPartition shareContraction(func::FuncOp kernel,
                                        const TargetInfo &target) {
  Operation *hero = findContraction(kernel.getBody().front());
  if (std::optional<TensorCoreTiling> tiling =
          getTensorCoreTiling(hero, target)) {
    int64_t threads = tiling->getThreads();
    return {tiling->getTileCount(),
            1,
            tiling->blockM * tiling->blockN,
            threads,
            threads,
            1};
  }
  ContractionSpace space = getContractionSpace(hero);
  return shareRows(space.rows, space.columns, 1);
}

KernelPartition mpc::getGPUPartition(func::FuncOp kernel,
                                     const TargetInfo &target) {
  switch (*getKernelKind(kernel)) {
  case KernelKind::Pointwise:
    return sharePointwise(kernel, target);
  case KernelKind::RowReduce:
    return shareRowReduction(kernel, target);
  case KernelKind::ColumnReduce:
    return shareColumns(kernel, target);
  case KernelKind::Contraction:
    return shareContraction(kernel, target);
  case KernelKind::Window: {
    ArrayRef<int64_t> shape = getResultShape(kernel);
    return shareRows(ShapedType::getNumElements(shape.drop_back()),
                     shape.back(), vectorOf(kernel, shape.back(), target));
  }
  case KernelKind::Movement:
    return shareMovement(kernel, target);
  case KernelKind::Epilogue:
    break;
  }
  llvm_unreachable("there are no epilogues on a GPU");
}
