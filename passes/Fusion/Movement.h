// Tells if a transpose moves any element in memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_MOVEMENT_H
#define MPC_PASSES_FUSION_MOVEMENT_H

#include "llvm/ADT/ArrayRef.h"

namespace mpc {

/// True if a transpose of `shape` by `perm` leaves all elements in place in
/// memory: only axes of size 1 change their order, as in (8, 1, 4) to (8, 4,
/// 1).
bool keepsOrder(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> perm);

} // namespace mpc

#endif // MPC_PASSES_FUSION_MOVEMENT_H
