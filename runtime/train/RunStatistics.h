// Figures of a whole run, and what ended it.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RUNSTATISTICS_H
#define MPC_RUNTIME_TRAIN_RUNSTATISTICS_H

#include "runtime/Status.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/record/Metrics.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpc::runtime::train {

/// The most memory that the process has had in use, in bytes, since
/// `resetPeakMemory` where the system allows that.
size_t peakMemory();

/// What the process had in use before does not count any longer: a compiler in
/// the same process may have needed more than the run.
void resetPeakMemory();

/// The times of a run's steps, in bounded memory: all of them, and of long runs
/// every second, fourth, ... one.
class StepTimes {
public:
  void add(double milliseconds);
  /// 0 of none.
  double median() const;

private:
  static constexpr size_t kMost = size_t(1) << 14;
  std::vector<double> kept;
  int64_t count = 0, stride = 1;
};

/// The "end" event of a run that `status` ended, with its totals and what ended
/// it.
MetricsLine endLine(const TrainResult &result, const Status &status,
                    int exitCode, Digits digits);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RUNSTATISTICS_H
