// What transposes move.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_MOVEMENT_H
#define MPC_PASSES_FUSION_MOVEMENT_H

#include "llvm/ADT/ArrayRef.h"

namespace mpc {

/// Whether a transpose of a tensor of `shape` leaves the elements in their
/// order in memory: only axes of one index change places.
bool keepsOrder(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> perm);

} // namespace mpc

#endif // MPC_PASSES_FUSION_MOVEMENT_H
