// Records a run as a trace in Chrome's format, which Perfetto opens, and adds
// up the time of each part of the run.
//
// The format is "Trace Event Format": an object with "traceEvents", a list of
// complete events (ph "X"). Times are microseconds since the recorder was made.
// Events of one thread nest and never overlap otherwise.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RECORD_TRACERECORDER_H
#define MPC_RUNTIME_TRAIN_RECORD_TRACERECORDER_H

#include "runtime/Plan.h"
#include "runtime/train/support/RunRecorder.h"

#include <array>
#include <cstdint>
#include <mutex>
#include <string>

namespace mpc::runtime::train {

/// The number and the seconds of all spans of a part.
struct PartTotal {
  int64_t count = 0;
  double seconds = 0;
};

class TraceRecorder : public RunRecorder {
public:
  /// `plan` must outlive the recorder. The trace shows the first `tracedSteps`
  /// steps with their plan steps, and all evaluations and checkpoints. Later
  /// steps count only in the totals, so the trace of a long run stays small.
  TraceRecorder(const Plan &plan, int64_t tracedSteps);

  void add(RunPart part, const TimeSpan &span) override;
  void add(const FunctionCall &call) override;
  bool measuresSteps(std::string_view function) override { return isTracing(); }

  PartTotal total(RunPart part) const;
  /// Returns the trace as JSON. `process` is the name of the process in it.
  std::string text(std::string_view process) const;

private:
  /// The rows of the trace's display.
  enum Lane { Loop = 1, Loader, Device };
  struct Event {
    std::string name;
    const char *category;
    Lane lane;
    int64_t begin, end; ///< nanoseconds since `origin`
    std::string args;   ///< a JSON object; empty for none
  };

  bool isTracing() const {
    return totals[size_t(RunPart::Step)].count < tracedSteps;
  }
  int64_t sinceOrigin(TimeSpan::Clock::time_point time) const;
  void addPlanSteps(const Function &function, const FunctionCall &call);

  const Plan &plan;
  const int64_t tracedSteps;
  const TimeSpan::Clock::time_point origin = TimeSpan::Clock::now();
  std::array<PartTotal, 5> totals{};
  std::vector<Event> events;
  mutable std::mutex mutex; ///< protects `totals` and `events`
};

/// Returns the kind of a step, as in the plan's JSON: "launch", "matmul".
std::string_view wordOf(const Step &step);

/// Returns the kernel that a step calls: of a contraction, its epilogue. Empty
/// if the step calls no generated code, or several kernels.
std::string_view kernelOf(const Step &step);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RECORD_TRACERECORDER_H
