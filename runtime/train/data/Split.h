// Chooses the samples to hold back for evaluation.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_SPLIT_H
#define MPC_RUNTIME_TRAIN_DATA_SPLIT_H

#include <cstdint>
#include <vector>

namespace mpc::runtime::train {

/// Chooses `held` of `count` samples by `seed`. Returns true for each chosen
/// sample. If `classes` has the class of each sample, the chosen samples have
/// the same proportions of classes. The numbers of samples per class are
/// rounded down; the classes with the largest remainders then give one more, as
/// with scikit-learn's `stratify`.
std::vector<bool> chooseHeld(int64_t count, int64_t held, uint64_t seed,
                             const std::vector<int64_t> &classes = {});

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_SPLIT_H
