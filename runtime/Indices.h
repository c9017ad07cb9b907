// Integers that name elements of an axis.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_INDICES_H
#define MPC_RUNTIME_INDICES_H

#include "runtime/Tensor.h"

#include <optional>

namespace mpc::runtime {

/// An index that names no element, and which of the indices it is.
struct StrayIndex {
  int64_t position = 0, index = 0;
};

/// The first of `count` indices, of type i32 or i64, that is not in
/// [-size, size).
std::optional<StrayIndex> findStrayIndex(DType type, const void *bytes,
                                         int64_t count, int64_t size);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_INDICES_H
