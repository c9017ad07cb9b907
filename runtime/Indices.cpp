// SPDX-License-Identifier: Apache-2.0
#include "runtime/Indices.h"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace mpc::runtime {

/// Calls `visit(first, count)` for every contiguous run of elements in the box,
/// until `visit` returns true. `first` is a row-major position in a tensor of
/// `shape`.
template <typename Visitor>
static void forEachRun(const Shape &shape, const IndexBox &box,
                       Visitor &&visit) {
  // A run spans the trailing axes that the box covers entirely, and the box's
  // range of the axis before. In a tensor of 4x3x5, the box [0:2, 1:3, 0:5] has
  // two runs of 10 elements.
  size_t axes = shape.size();
  int64_t inner = 1;
  while (axes > 0 && box.begin[axes - 1] == 0 &&
         box.end[axes - 1] == shape[axes - 1])
    inner *= shape[--axes];
  int64_t run = inner;
  if (axes > 0)
    run *= box.end[axes - 1] - box.begin[axes - 1];
  for (size_t axis = 0; axis < shape.size(); ++axis)
    if (box.begin[axis] >= box.end[axis])
      return;
  Shape place = box.begin;
  while (true) {
    int64_t first = 0;
    for (size_t axis = 0; axis < axes; ++axis)
      first = first * shape[axis] + place[axis];
    if (visit(first * inner, run))
      return;
    size_t axis = axes > 0 ? axes - 1 : 0;
    while (axis > 0 && ++place[axis - 1] == box.end[axis - 1]) {
      place[axis - 1] = box.begin[axis - 1];
      --axis;
    }
    if (axis == 0)
      return;
  }
}

/// Implements findStrayIndex for indices of type T. Copies each index before
/// reading it, since `bytes` may be unaligned.
template <typename T>
static std::optional<StrayIndex>
findStray(const void *bytes, const Shape &shape, const IndexBox &box) {
  std::optional<StrayIndex> stray;
  const IndexRange range = rangeOf(box);
  forEachRun(shape, box, [&](int64_t first, int64_t count) {
    const auto *from =
        static_cast<const std::byte *>(bytes) + first * int64_t(sizeof(T));
    for (int64_t i = 0; i < count && !stray; ++i, from += sizeof(T)) {
      T index;
      std::memcpy(&index, from, sizeof(T));
      if (!range.holds(index))
        stray = StrayIndex{first + i, index};
    }
    return stray.has_value();
  });
  return stray;
}

std::optional<StrayIndex> findStrayIndex(DType type, const void *bytes,
                                         const Shape &shape,
                                         const IndexBox &box) {
  assert(type == DType::I32 || type == DType::I64);
  return type == DType::I64 ? findStray<int64_t>(bytes, shape, box)
                            : findStray<int32_t>(bytes, shape, box);
}

Status checkIndices(DType type, const void *bytes, const Shape &shape,
                    const std::vector<IndexBox> &boxes) {
  for (const IndexBox &box : boxes)
    if (const auto stray = findStrayIndex(type, bytes, shape, box))
      return Status(StatusCode::InvalidInput,
                    "element " + std::to_string(stray->position) +
                        (box.isLabel ? ": label " : ": index ") +
                        std::to_string(stray->index) + " is not in [" +
                        std::to_string(rangeOf(box).low) + ", " +
                        std::to_string(box.size) + ")" +
                        (box.ignored ? " and not the ignored " +
                                           std::to_string(*box.ignored)
                                     : ""));
  return Status();
}

/// Returns the indices that both ranges allow. An ignored label stays allowed
/// if either range ignores it and the other allows it.
static IndexRange intersect(const IndexRange &range, const IndexRange &other) {
  const auto allows = [](const IndexRange &in, std::optional<int64_t> label) {
    return label && in.holds(*label);
  };
  IndexRange both{std::max(range.low, other.low),
                  std::min(range.high, other.high)};
  if (allows(other, range.ignored))
    both.ignored = range.ignored;
  else if (allows(range, other.ignored))
    both.ignored = other.ignored;
  return both;
}

std::vector<IndexRange> sampleRanges(const std::vector<IndexBox> &boxes,
                                     const Shape &shape, int64_t batchAxis) {
  // Reduce the shape to a batch of a single sample.
  Shape sample = shape;
  if (batchAxis >= 0)
    sample[size_t(batchAxis)] = 1;
  std::vector<IndexRange> ranges(size_t(numElements(sample)));
  for (IndexBox box : boxes) {
    // Skip a box over part of the batch: its range does not hold for every
    // sample.
    if (batchAxis >= 0) {
      const size_t axis = size_t(batchAxis);
      if (box.begin[axis] != 0 || box.end[axis] != shape[axis])
        continue;
      box.end[axis] = 1;
    }
    forEachRun(sample, box, [&](int64_t first, int64_t count) {
      for (int64_t i = first; i < first + count; ++i)
        ranges[size_t(i)] = intersect(ranges[size_t(i)], rangeOf(box));
      return false;
    });
  }
  return ranges;
}

} // namespace mpc::runtime
