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

// Divides the columns of a kernel that reads rows in bands. Starts at `columns`
// columns per slice and halves until there are kEnoughSlices slices.
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

// A slice owns whole blocks of 64 columns. If the space has fewer than 64
// columns, a slice owns all columns of one or more outer indices.
KernelPartition ColumnReduce::partition(func::FuncOp kernel) const {
  if (std::optional<int64_t> columns = getBandColumns(kernel))
    return sliceBands(kernel, *columns);
  ReductionSpace space = getReductionSpace(kernel);
  int64_t unit = std::min(space.inner, kColumnBlock);
  return slice(space.outer * space.inner, 1, unit,
               kSliceElements / std::max<int64_t>(1, space.reduced));
}

// On a GPU, one index of the parallel axis is a block of columns, as many as a
// team reads at once. The teams of a thread block share the rows of these
// columns.
KernelPartition ColumnReduce::partition(func::FuncOp kernel,
                                        const TargetInfo &gpu) const {
  ReductionSpace space = getReductionSpace(kernel);
  // The merged columns may span several axes of the operand, but a vector must
  // not cross the end of the last axis.
  ArrayRef<int64_t> shape =
      shapeOf(findReduction(kernel.getBody().front())->getOperand(0));
  while (!shape.empty() && shape.back() == 1)
    shape = shape.drop_back();
  int64_t run = space.inner == 1 ? 1 : shape.back();
  int64_t vector = vectorOf(kernel, run, gpu);
  int64_t vectors = space.inner / vector;
  // Half a warp reads whole cache lines, and even two threads side by side use
  // the full memory bandwidth. If there are few blocks, narrower blocks give
  // more of them.
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
