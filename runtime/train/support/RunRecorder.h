// Receives the times of a run's parts: data, steps, evaluations, checkpoints,
// and the plan steps of each function. Without a recorder, a run reads no
// clocks for these times.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_RUNRECORDER_H
#define MPC_RUNTIME_TRAIN_SUPPORT_RUNRECORDER_H

#include <chrono>
#include <string_view>
#include <vector>

namespace mpc::runtime::train {

/// A part of a run. Data and functions lie within steps, and in evaluations.
enum class RunPart {
  Step,       ///< an update attempt, with its data
  Data,       ///< preparing the batch of a step, in the thread of the run
  Ahead,      ///< preparing the next batch, in another thread
  Evaluation, ///< an evaluation on the whole data set
  Checkpoint, ///< saving a checkpoint
};

/// The begin and the end of something, by the steady clock.
struct TimeSpan {
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin, end;

  double seconds() const {
    return std::chrono::duration<double>(end - begin).count();
  }
};

/// A call of a function of the artifact.
struct FunctionCall {
  std::string_view function;
  TimeSpan span;
  /// The seconds of each step in the function's plan; empty if not measured.
  std::vector<double> steps;
};

class RunRecorder {
public:
  virtual ~RunRecorder() = default;
  /// Adds a part when it has ended. `Ahead` comes from another thread than all
  /// other calls, and may come at the same time.
  virtual void add(RunPart part, const TimeSpan &span) = 0;
  virtual void add(const FunctionCall &call) = 0;
  /// True to measure each plan step of the next call of `function`.
  virtual bool measuresSteps(std::string_view function) = 0;
};

/// Adds the time of its own life to a recorder, which may be null.
class PartTimer {
public:
  PartTimer(RunRecorder *recorder, RunPart part)
      : recorder(recorder), part(part) {
    if (recorder)
      span.begin = TimeSpan::Clock::now();
  }
  ~PartTimer() {
    if (!recorder)
      return;
    span.end = TimeSpan::Clock::now();
    recorder->add(part, span);
  }
  PartTimer(const PartTimer &) = delete;
  PartTimer &operator=(const PartTimer &) = delete;

private:
  RunRecorder *recorder;
  const RunPart part;
  TimeSpan span;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_RUNRECORDER_H
