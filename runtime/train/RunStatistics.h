// Figures of a whole run, and what ended it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RUNSTATISTICS_H
#define MPC_RUNTIME_TRAIN_RUNSTATISTICS_H

#include "runtime/Status.h"
#include "runtime/train/Trainer.h"

#include <cstddef>
#include <vector>

namespace mpc::runtime::train {

/// The most memory that the process has had in use, in bytes.
size_t peakMemory();

/// 0 of no values.
double medianOf(std::vector<double> values);

/// What ended a run, as the metrics have it.
const char *endOf(const TrainResult &result, const Status &status);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RUNSTATISTICS_H
