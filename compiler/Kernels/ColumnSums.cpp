// SPDX-License-Identifier: Apache-2.0
#include "compiler/Kernels/ColumnSums.h"

#include "compiler/Kernels/ColumnBands.h"

using namespace mlir;
using namespace mpc;

/// What the sums of a slice take at most, in f32.
static constexpr int64_t kMostSumBytes = 16 << 10;
/// Rows that a part has at least: what the second kernel reads, and what this
/// one stores, is little beside them.
static constexpr int64_t kPartRows = 32;
/// More slices than this help no load balance on one socket.
static constexpr int64_t kMostParts = 64;
/// Elements that a slice may have, however few there are of them.
static constexpr int64_t kPartElements = 1 << 14;

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

// Those of a block of rows, and their totals.
int64_t mpc::getColumnSumBytes(int64_t columns, int64_t sums) {
  return 2 * kTotalBytes * columns * sums;
}

bool mpc::hasEnoughParts(const ReductionSpace &space) {
  return space.outer >= kEnoughSlices ||
         space.reduced * space.inner <= kPartElements;
}

int64_t mpc::divideParts(const ReductionSpace &space, int64_t extent) {
  int64_t most = std::min({kMostParts / std::max<int64_t>(1, space.outer),
                           space.reduced / kPartRows, extent});
  for (int64_t parts = most; parts > 1; --parts)
    if (extent % parts == 0)
      return parts;
  return 1;
}
