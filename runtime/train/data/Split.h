// Chooses the samples to hold back for evaluation.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_SPLIT_H
#define MPC_RUNTIME_TRAIN_DATA_SPLIT_H

#include <cstdint>
#include <vector>

namespace mpc::runtime::train {

/// Returns, for each of `count` samples, true if it is one of the `held`
/// samples, which `seed` chooses. With `classes`, the class of each sample,
/// every class gives a proportional share. Shares are rounded so that they add
/// up to `held`: classes with the largest remainders give one more, as with
/// scikit-learn's `stratify`.
std::vector<bool> chooseHeld(int64_t count, int64_t held, uint64_t seed,
                             const std::vector<int64_t> &classes = {});

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_SPLIT_H
