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
  // Column sums need slices of whole parts of the rows.
  KernelPartition result =
      slice(space.outer, space.reduced,
            getReductionSpace(sums.front()).value().reduced);
  result.scratch = getColumnSumBytes(space.reduced, sums.size());
  return result;
}

/// Threads of a block that reduces one long row. More would have too few
/// registers.
static constexpr int64_t kWideBlockThreads = 512;
/// With fewer rows than this, a block shares a row, rather than a warp.
static constexpr int64_t kManyRows = 1024;

KernelPartition RowReduce::partition(func::FuncOp kernel,
                                     const TargetInfo &gpu) const {
  // An index is a row of a segment, and each row has a block.
  if (isSegmented(kernel))
    return {
        getSegmentedExtent(kernel, 1), 1, 1, kBlockThreads, kBlockThreads, 1};
  ReductionSpace space = getReductionSpace(kernel);
  int64_t vector = vectorOfRows(kernel, space.reduced, gpu);
  int64_t vectors = llvm::divideCeilSigned(space.reduced, vector);
  // A team is a part of a warp, or a whole block, which needs shared memory.
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
