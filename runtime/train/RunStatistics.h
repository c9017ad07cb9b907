// Figures of a whole run, and what ended it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RUNSTATISTICS_H
#define MPC_RUNTIME_TRAIN_RUNSTATISTICS_H

#include "runtime/Status.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/Trainer.h"

#include <cstddef>
#include <vector>

namespace mpc::runtime::train {

/// The most memory that the process has had in use, in bytes, since
/// `resetPeakMemory` where the system allows that.
size_t peakMemory();

/// What the process had in use before does not count any longer: a compiler in
/// the same process may have needed more than the run.
void resetPeakMemory();

/// 0 of no values.
double medianOf(std::vector<double> values);

/// The "end" event of a run that `status` ended, with its totals and what ended
/// it.
MetricsLine endLine(const TrainResult &result, const Status &status,
                    int exitCode, Digits digits);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RUNSTATISTICS_H
