// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ColumnSums.h"

#include "compiler/Kernels/ColumnBands.h"

using namespace mlir;
using namespace mpc;

/// Limits the sums of a slice, counted in f32.
static constexpr int64_t kMostSumBytes = 16 << 10;
/// If a slice has at most this many elements, even a single slice is enough.
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

// Sums of a band of rows, and their totals.
int64_t mpc::getColumnSumBytes(int64_t columns, int64_t sums) {
  return 2 * kTotalBytes * columns * sums;
}

bool mpc::canAddBesideRows(ArrayRef<ReductionOpInterface> sums) {
  assert(!sums.empty() && "a kernel adds sums");
  ReductionOpInterface first = sums.front();
  std::optional<ReductionSpace> space = getReductionSpace(first);
  if (!space)
    return false;
  // Use the division of a separate column kernel, so that sums have the same
  // bits.
  auto count = static_cast<int64_t>(sums.size());
  bool goesInBands = getColumnsOfSlice(*space, count) > kColumnBlock;
  // Bands over several axes could end in the middle of an axis.
  ArrayRef<int64_t> shape = shapeOf(first->getOperand(0));
  bool isOneAxis = llvm::count_if(first.getReducedAxes(), [&](int64_t axis) {
                     return shape[axis] > 1;
                   }) == 1;
  bool hasSlices = space->outer >= kEnoughSlices ||
                   space->reduced * space->inner <= kFewElements;
  return goesInBands && isOneAxis && hasSlices;
}
