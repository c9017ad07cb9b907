// Reproducible shuffling: the order of an epoch depends on the seed and the
// epoch alone, so it is the same on every machine and needs no state to resume.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_PERMUTATION_H
#define MPC_RUNTIME_TRAIN_SUPPORT_PERMUTATION_H

#include "runtime/train/support/Random.h"

#include <cstdint>
#include <vector>

namespace mpc::runtime::train {

/// A permutation of [0, count), every one equally likely over the seeds, by the
/// shuffle of Fisher and Yates.
std::vector<int64_t> permutation(int64_t count, uint64_t seed, Stream stream,
                                 uint64_t number);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_PERMUTATION_H
