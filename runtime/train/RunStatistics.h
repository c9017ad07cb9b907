// Measures time and memory of a whole run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RUNSTATISTICS_H
#define MPC_RUNTIME_TRAIN_RUNSTATISTICS_H

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

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RUNSTATISTICS_H
