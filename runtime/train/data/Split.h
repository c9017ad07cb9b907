// Which samples are held back to evaluate on.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_SPLIT_H
#define MPC_RUNTIME_TRAIN_DATA_SPLIT_H

#include <cstdint>
#include <vector>

namespace mpc::runtime::train {

/// For each of `count` samples whether it is one of the `held`, chosen by
/// `seed`. With `classes`, one of each sample, every class gives its share,
/// rounded so that the numbers are `held` in all: those with the largest
/// remainders give one more, as scikit-learn's `stratify` has it.
std::vector<bool> chooseHeld(int64_t count, int64_t held, uint64_t seed,
                             const std::vector<int64_t> &classes = {});

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_SPLIT_H
