// Kernels that reduce the leading axes, column by column.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ColumnBands.h"
#include "compiler/Kernels/Heroes/Heroes.h"
#include "compiler/Kernels/Heroes/Partitions.h"
#include "compiler/Kernels/Heroes/Reductions.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::heroes;

namespace {
class ColumnReduce : public ReductionHero {
public:
  bool isHero(Operation *op) const override { return !reducesRows(op); }
  llvm::StringRef getWanted() const override {
    return "a reduction over leading axes";
  }
  KernelPartition partition(func::FuncOp kernel) const override;
  KernelPartition partition(func::FuncOp kernel,
                            const TargetInfo &gpu) const override;
};
} // namespace

// Slices a kernel that runs in bands: narrows the slices until there are
// enough.
static KernelPartition sliceBands(func::FuncOp kernel, int64_t columns) {
  ReductionSpace space = getReductionSpace(kernel);
  auto isEnough = [&] {
    return space.outer * llvm::divideCeilSigned(space.inner, columns) >=
           kEnoughSlices;
  };
  while (columns > kColumnBlock && !isEnough())
    columns = llvm::alignTo(columns / 2, kColumnBlock);
  KernelPartition result =
      slice(space.outer * space.inner, 1, columns,
            kSliceElements / std::max<int64_t>(1, space.reduced));
  result.scratch = columns * kTotalBytes * countReductions(kernel);
  return result;
}

// A slice owns whole blocks of columns. If columns are few, a slice owns whole
// groups of all columns.
KernelPartition ColumnReduce::partition(func::FuncOp kernel) const {
  if (std::optional<int64_t> columns = getBandColumns(kernel))
    return sliceBands(kernel, *columns);
  ReductionSpace space = getReductionSpace(kernel);
  int64_t unit = std::min(space.inner, kColumnBlock);
  return slice(space.outer * space.inner, 1, unit,
               kSliceElements / std::max<int64_t>(1, space.reduced));
}

// An index is a block of columns, as wide as a warp reads at once. The teams
// share the reduced elements.
KernelPartition ColumnReduce::partition(func::FuncOp kernel,
                                        const TargetInfo &gpu) const {
  ReductionSpace space = getReductionSpace(kernel);
  // A vector must not reach beyond the last axis, whichever axes are merged.
  ArrayRef<int64_t> shape =
      shapeOf(findReduction(kernel.getBody().front())->getOperand(0));
  while (!shape.empty() && shape.back() == 1)
    shape = shape.drop_back();
  int64_t run = space.inner == 1 ? 1 : shape.back();
  int64_t vector = vectorOf(kernel, run, gpu);
  int64_t vectors = space.inner / vector;
  // Half a warp already reads whole cache lines. Even two threads use the full
  // memory bandwidth, and narrow blocks help if there are few blocks.
  int64_t lanes = std::min<int64_t>(llvm::PowerOf2Ceil(vectors), kWarp / 2);
  while (lanes > 2 &&
         space.outer * llvm::divideCeilSigned(vectors, lanes) < kFewBlocks / 4)
    lanes /= 2;
  int64_t threads = kBlockThreads;
  while (threads > kWarp && threads / lanes > space.reduced)
    threads /= 2;
  return {space.outer * llvm::divideCeilSigned(vectors, lanes),
          1,
          space.inner,
          threads,
          std::min(lanes, threads),
          vector};
}

const KernelHero &heroes::getColumnReduce() {
  static const ColumnReduce hero;
  return hero;
}
