// Collects the times of a profiled run, and decides which steps to measure and
// when there are enough.
//
// The first steps only warm up. Then steps with and without a measurement of
// their plan steps take turns, so that the profile can tell what the
// measurement costs.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PROFILE_PROFILERECORDER_H
#define MPC_TOOLS_MPC_PROFILE_PROFILERECORDER_H

#include "runtime/train/record/TraceRecorder.h"

#include <atomic>
#include <map>
#include <string>
#include <vector>

namespace mpc::tools {

/// The measured calls of a function.
struct FunctionSamples {
  /// The seconds of each call, by plan step.
  std::vector<std::vector<double>> steps;
  int64_t calls = 0; ///< in all measured steps
};

class ProfileRecorder : public runtime::train::RunRecorder {
public:
  /// Measures `steps` steps, or with 0 as many as a few seconds allow.
  ProfileRecorder(const runtime::Plan &plan, int64_t steps);

  void add(runtime::train::RunPart part,
           const runtime::train::TimeSpan &span) override;
  void add(const runtime::train::FunctionCall &call) override;
  bool measuresSteps(std::string_view function) override {
    return isMeasured();
  }

  /// True if enough steps are measured.
  bool isDone() const;

  const runtime::train::TraceRecorder &getTrace() const { return trace; }
  const std::map<std::string, FunctionSamples, std::less<>> &
  getFunctions() const {
    return functions;
  }
  /// The seconds of steps, without their data: of steps whose plan steps were
  /// not measured, and of the others.
  const std::vector<double> &getPlainSteps() const { return plain; }
  const std::vector<double> &getMeasuredSteps() const { return measured; }
  /// The seconds for the data of each step after the warm-up.
  const std::vector<double> &getData() const { return data; }

private:
  bool isMeasured() const {
    return finished >= warmUp && (finished - warmUp) % 2 == 0;
  }
  /// True for the steps that count. The first measured step only warms up.
  bool counts() const { return finished > warmUp; }

  const int64_t wanted;
  runtime::train::TraceRecorder trace;
  const runtime::train::TimeSpan::Clock::time_point start =
      runtime::train::TimeSpan::Clock::now();
  int64_t warmUp = 3;   ///< steps before the first measured one
  int64_t finished = 0; ///< steps so far
  double dataSeconds = 0;
  std::vector<double> plain, measured, data;
  std::map<std::string, FunctionSamples, std::less<>> functions;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PROFILE_PROFILERECORDER_H
