// Kernels that reduce the last axes, row by row.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ColumnSums.h"
#include "compiler/Kernels/Heroes/Heroes.h"
#include "compiler/Kernels/Heroes/Partitions.h"
#include "compiler/Kernels/Heroes/Reductions.h"
#include "compiler/Kernels/KernelSegments.h"
#include "compiler/Kernels/RowScratch.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::heroes;

namespace {
class RowReduce : public ReductionHero {
public:
  bool isHero(Operation *op) const override { return reducesRows(op); }
  llvm::StringRef getWanted() const override {
    return "a reduction over the last axes";
  }
  bool passesAgain() const override { return true; }
  bool hasSegments() const override { return true; }
  bool loadsInAnyOrder() const override { return true; }
  KernelPartition partition(func::FuncOp kernel) const override;
  KernelPartition partition(func::FuncOp kernel,
                            const TargetInfo &gpu) const override;
};
} // namespace

KernelPartition RowReduce::partition(func::FuncOp kernel) const {
  if (isSegmented(kernel))
    return {getSegmentedExtent(kernel, 1), 1, 1};
  ReductionSpace space = getReductionSpace(kernel);
  SmallVector<Operation *> sums = findColumnSums(kernel.getBody().front());
  if (sums.empty()) {
    KernelPartition result = slice(space.outer, space.reduced);
    result.scratch = getRowScratchBytes(kernel);
    return result;
  }
  // A column sum of the kernel adds the rows of one group of adjacent rows. A
  // slice must own whole groups, so the number of rows of a group is the unit
  // of slices.
  KernelPartition result =
      slice(space.outer, space.reduced,
            getReductionSpace(sums.front()).value().reduced);
  result.scratch = getColumnSumBytes(space.reduced, sums.size());
  return result;
}

/// Threads of a block that reduces one long row. More would have too few
/// registers.
static constexpr int64_t kWideBlockThreads = 512;
/// Rows of medium length: with fewer rows than this, a whole block of threads
/// reduces each row; otherwise a warp does.
static constexpr int64_t kManyRows = 1024;

KernelPartition RowReduce::partition(func::FuncOp kernel,
                                     const TargetInfo &gpu) const {
  // One index of the parallel axis is a row of a segment, and a block of
  // threads reduces each row.
  if (isSegmented(kernel))
    return {
        getSegmentedExtent(kernel, 1), 1, 1, kBlockThreads, kBlockThreads, 1};
  ReductionSpace space = getReductionSpace(kernel);
  int64_t vector = vectorOfRows(kernel, space.reduced, gpu);
  int64_t vectors = llvm::divideCeilSigned(space.reduced, vector);
  // The threads that reduce a row are part of a warp, or a whole block. Only a
  // block needs shared memory to exchange sums.
  bool byBlock =
      vectors > 8 * kWarp || (vectors >= 2 * kWarp && space.outer < kManyRows);
  if (byBlock) {
    int64_t threads = vectors > 4 * kWideBlockThreads ? kWideBlockThreads
                      : vectors >= kBlockThreads      ? kBlockThreads
                                                      : 2 * kWarp;
    return {space.outer,   llvm::divideCeilSigned(space.outer, kEnoughBlocks),
            space.reduced, threads,
            threads,       vector};
  }
  KernelPartition result = shareRows(space.outer, space.reduced, vector);
  result.lanes = std::min(result.lanes, kWarp);
  int64_t teams = result.threads / result.lanes;
  result.grain = teams * countRounds(space.outer, teams);
  return result;
}

const KernelHero &heroes::getRowReduce() {
  static const RowReduce hero;
  return hero;
}
