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

/// Elements of an input of integers, of type i32 or i64: those in [begin, end)
/// along every axis are in [-size, size), for they name elements of an axis of
/// that size.
struct IndexBox {
  Shape begin, end;
  int64_t size = 0;
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

/// The size of an element that is no index.
inline constexpr int64_t kNoIndex = std::numeric_limits<int64_t>::max();

/// The least size of the boxes that hold it, for every element of a sample in
/// row-major order; kNoIndex where there is none. `shape` is that of
/// a batch, whose samples are along `batchAxis`, or -1 where they are not along
/// any. Boxes of only some samples are left out.
std::vector<int64_t> sampleSizes(const std::vector<IndexBox> &boxes,
                                 const Shape &shape, int64_t batchAxis);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_INDICES_H
