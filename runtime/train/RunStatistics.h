// Measures time and memory of a whole run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RUNSTATISTICS_H
#define MPC_RUNTIME_TRAIN_RUNSTATISTICS_H

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace mpc::runtime::train {

/// The peak memory of the process, since the last `resetPeakMemory` if the
/// system supports resetting. Leaves out pages of files, such as mapped data:
/// the system takes these back when memory runs short.
class PeakMemory {
public:
  /// Looks at the memory in use now, at most every 50 ms. The system records
  /// the peak of all pages only, so call this often.
  void sample();
  /// Returns the peak in bytes.
  size_t bytes();

private:
  void look();

  std::chrono::steady_clock::time_point next;
  size_t own = 0, files = 0; ///< largest sizes seen, without and of files
};

/// Restarts the measurement of PeakMemory: a compiler in the same process may
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
