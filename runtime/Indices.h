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

/// The valid values of an index: [low, high), and the label `ignored`, if any.
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

/// Returns the valid values of the indices in `box`.
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

/// Returns the valid range of each element of one sample, in row-major order. A
/// box limits the elements in a part of an input. The range of an element is
/// the intersection of the ranges of all boxes with the element; without a box,
/// any value is valid. `shape` is the shape of a batch. `batchAxis` is the axis
/// of the samples; -1 if there is none. Ignores boxes that cover only some
/// samples, because a range must hold for every sample.
std::vector<IndexRange> sampleRanges(const std::vector<IndexBox> &boxes,
                                     const Shape &shape, int64_t batchAxis);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_INDICES_H
