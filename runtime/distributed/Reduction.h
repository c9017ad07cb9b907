// Reduces the parts of several ranks on the host.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_REDUCTION_H
#define MPC_RUNTIME_DISTRIBUTED_REDUCTION_H

#include "runtime/Status.h"

#include <cstddef>

namespace mpc::runtime {

/// Checks that `type` has the reduction. An Internal error for a mean of
/// integers, and for sums of i1.
Status checkReduction(DType type, Reduce kind);

/// Writes to `result` the reduction of `parts` arrays of `count` elements. Part
/// p begins at byte `p * stride` of `data`. `result` may be any part.
///
/// Adds the parts in ascending order, so the bits depend on the parts alone.
/// Adds f16 and bf16 elements as f32, and divides before adding for a mean. A
/// maximum is NaN if an element is NaN.
void reduceParts(const void *data, size_t stride, size_t parts, void *result,
                 size_t count, DType type, Reduce kind);
/// Like above, of arrays at any addresses.
void reduceParts(const std::byte *const *parts, size_t numParts, void *result,
                 size_t count, DType type, Reduce kind);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_REDUCTION_H
