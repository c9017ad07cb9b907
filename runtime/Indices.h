// Checks integers that index an axis against the axis size.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_INDICES_H
#define MPC_RUNTIME_INDICES_H

#include "runtime/PlanSchema.h"
#include "runtime/Status.h"
#include "runtime/Tensor.h"

#include <limits>
#include <optional>
#include <vector>

namespace mpc::runtime {

/// A range of valid indices: [low, high), and the ignored label.
struct IndexRange {
  int64_t low = std::numeric_limits<int64_t>::min();
  int64_t high = std::numeric_limits<int64_t>::max();
  std::optional<int64_t> ignored = std::nullopt;

  bool holds(int64_t index) const {
    return (index >= low && index < high) || index == ignored;
  }
  bool operator==(const IndexRange &other) const {
    return low == other.low && high == other.high && ignored == other.ignored;
  }
};

/// Returns the range of all elements of `box`.
inline IndexRange rangeOf(const IndexBox &box) {
  return {box.isLabel ? 0 : -box.size, box.size, box.ignored};
}

/// An out-of-range index, and its row-major position in the tensor.
struct StrayIndex {
  int64_t position = 0, index = 0;
};

/// Returns the first element of `box` that is out of range. `bytes` is a tensor
/// of `shape`; `type` is I32 or I64. nullopt if all are in range.
std::optional<StrayIndex> findStrayIndex(DType type, const void *bytes,
                                         const Shape &shape,
                                         const IndexBox &box);

/// Checks all indices of all boxes. The error describes the first stray index
/// of the first box that has one: "element 5: index 12 is not in [-10, 10)".
Status checkIndices(DType type, const void *bytes, const Shape &shape,
                    const std::vector<IndexBox> &boxes);

/// Returns, per element of a sample in row-major order, the range that all
/// boxes around the element allow; the full range if there is no box. `shape`
/// is the shape of a batch with samples along `batchAxis`, or -1 without such
/// an axis. Skips boxes that cover only some samples.
std::vector<IndexRange> sampleRanges(const std::vector<IndexBox> &boxes,
                                     const Shape &shape, int64_t batchAxis);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_INDICES_H
