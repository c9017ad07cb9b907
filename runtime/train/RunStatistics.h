// Measures time and memory of a whole run, and writes the event of its end.
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

/// Returns the peak memory of the process in bytes, since the last
/// `resetPeakMemory` if the system supports resetting.
size_t peakMemory();

/// Restarts the measurement of `peakMemory`: a compiler in the same process may
/// have needed more memory than the run.
void resetPeakMemory();

/// The times of a run's steps in bounded memory: all steps, or in long runs
/// every second, fourth, ... step.
class StepTimes {
public:
  void add(double milliseconds);
  /// The median in milliseconds; 0 without steps.
  double median() const;

private:
  static constexpr size_t kMost = size_t(1) << 14;
  std::vector<double> kept;
  int64_t count = 0, stride = 1;
};

/// Returns the "end" event of a run that ended with `status`: totals of the
/// run, and the reason for its end.
MetricsLine endLine(const TrainResult &result, const Status &status,
                    int exitCode, Digits digits);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RUNSTATISTICS_H
