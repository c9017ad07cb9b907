// Integers that name elements of an axis.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_INDICES_H
#define MPC_RUNTIME_INDICES_H

#include "runtime/Status.h"
#include "runtime/Tensor.h"

#include <limits>
#include <optional>
#include <vector>

namespace mpc::runtime {

/// Integers that name elements of an axis: those in [low, high), and the
/// ignored label.
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

/// Elements of an input of integers, of type i32 or i64: those in [begin, end)
/// along every axis are in [-size, size), for they name elements of an axis of
/// that size; labels, which do not count from the end, in [0, size).
struct IndexBox {
  Shape begin, end;
  int64_t size = 0;
  bool isLabel = false;
  std::optional<int64_t> ignored = std::nullopt;

  IndexRange range() const { return {isLabel ? 0 : -size, size, ignored}; }
};

/// An index that names no element, and which of the tensor's elements it is.
struct StrayIndex {
  int64_t position = 0, index = 0;
};

/// The first element of the box that is not in its range, of a tensor of that
/// shape.
std::optional<StrayIndex> findStrayIndex(DType type, const void *bytes,
                                         const Shape &shape,
                                         const IndexBox &box);

/// Whether all indices of the boxes name elements; else "element 5: index 12 is
/// not in [-10, 10)", of the first one of the first box that has one.
Status checkIndices(DType type, const void *bytes, const Shape &shape,
                    const std::vector<IndexBox> &boxes);

/// What all boxes that hold it allow, for every element of a sample in
/// row-major order; all integers where there is none. `shape` is that of
/// a batch, whose samples are along `batchAxis`, or -1 where they are not along
/// any. Boxes of only some samples are left out.
std::vector<IndexRange> sampleRanges(const std::vector<IndexBox> &boxes,
                                     const Shape &shape, int64_t batchAxis);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_INDICES_H
