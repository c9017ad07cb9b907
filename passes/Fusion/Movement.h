// Tells if a transpose moves elements in memory.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_FUSION_MOVEMENT_H
#define MPC_PASSES_FUSION_MOVEMENT_H

#include "llvm/ADT/ArrayRef.h"

namespace mpc {

/// True if a transpose of a tensor of `shape` keeps the order of elements in
/// memory. Only axes of size 1 then change places.
bool keepsOrder(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> perm);

} // namespace mpc

#endif // MPC_PASSES_FUSION_MOVEMENT_H
