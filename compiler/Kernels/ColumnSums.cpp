// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ColumnSums.h"

#include "compiler/Kernels/ColumnBands.h"

using namespace mlir;
using namespace mpc;

/// Limits the bytes of the sums of a slice, at 4 bytes per sum.
static constexpr int64_t kMostSumBytes = 16 << 10;
/// If each slice adds at most this many elements, the work is small, and fewer
/// than kEnoughSlices slices are enough.
static constexpr int64_t kFewElements = 1 << 14;

SmallVector<Operation *> mpc::findColumnSums(Block &body) {
  SmallVector<Operation *> sums;
  bool hasRows = false;
  for (Operation &op : body) {
    if (!isa<ReductionOpInterface>(op))
      continue;
    if (reducesRows(&op))
      hasRows = true;
    else
      sums.push_back(&op);
  }
  return hasRows ? sums : SmallVector<Operation *>();
}

bool mpc::fitColumnSums(int64_t columns, int64_t sums) {
  return columns * sums * static_cast<int64_t>(sizeof(float)) <= kMostSumBytes;
}

// Each column has a sum of the current band and a total of all bands.
int64_t mpc::getColumnSumBytes(int64_t columns, int64_t sums) {
  return 2 * kTotalBytes * columns * sums;
}

bool mpc::canAddBesideRows(ArrayRef<ReductionOpInterface> sums) {
  assert(!sums.empty() && "a kernel adds sums");
  ReductionOpInterface first = sums.front();
  std::optional<ReductionSpace> space = getReductionSpace(first);
  if (!space)
    return false;
  // A separate column kernel would divide the columns in the same way, so both
  // kernels add in the same order and give the same bits.
  auto count = static_cast<int64_t>(sums.size());
  bool goesInBands = getColumnsOfSlice(*space, count) > kColumnBlock;
  // If several axes were reduced, a band of 8 rows could end in the middle of
  // an axis.
  ArrayRef<int64_t> shape = shapeOf(first->getOperand(0));
  bool isOneAxis = llvm::count_if(first.getReducedAxes(), [&](int64_t axis) {
                     return shape[axis] > 1;
                   }) == 1;
  bool hasSlices = space->outer >= kEnoughSlices ||
                   space->reduced * space->inner <= kFewElements;
  return goesInBands && isOneAxis && hasSlices;
}
