// Shuffles reproducibly: the order of an epoch depends only on seed and epoch,
// so every computer has an equal order, and resuming needs no state.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_PERMUTATION_H
#define MPC_RUNTIME_TRAIN_SUPPORT_PERMUTATION_H

#include "runtime/train/support/Random.h"

#include <cstdint>
#include <vector>

namespace mpc::runtime::train {

/// Returns a permutation of [0, count) by the shuffle of Fisher and Yates. The
/// permutation depends only on the arguments. Over all seeds, every permutation
/// is equally likely.
std::vector<int64_t> permutation(int64_t count, uint64_t seed, Stream stream,
                                 uint64_t number);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_PERMUTATION_H
