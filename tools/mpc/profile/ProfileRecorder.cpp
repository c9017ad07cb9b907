// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/profile/ProfileRecorder.h"

#include <algorithm>

using namespace mpc;
using namespace mpc::tools;
using namespace mpc::runtime;
using namespace mpc::runtime::train;

ProfileRecorder::ProfileRecorder(const Plan &plan, int64_t steps)
    : wanted(steps), trace(plan, /*tracedSteps=*/INT64_MAX) {}

void ProfileRecorder::add(RunPart part, const TimeSpan &span) {
  trace.add(part, span);
  if (part == RunPart::Data)
    dataSeconds += span.seconds();
  if (part != RunPart::Step)
    return;
  // A slow model warms up in one step.
  constexpr double kSlowSeconds = 1;
  const double seconds = span.seconds() - dataSeconds;
  if (finished == 0 && seconds > kSlowSeconds)
    warmUp = 1;
  if (counts()) {
    (isMeasured() ? measured : plain).push_back(seconds);
    data.push_back(dataSeconds);
  }
  dataSeconds = 0;
  ++finished;
}

void ProfileRecorder::add(const FunctionCall &call) {
  trace.add(call);
  if (!counts() || !isMeasured() || call.steps.empty())
    return;
  auto found = functions.find(call.function);
  if (found == functions.end())
    found = functions.emplace(call.function, FunctionSamples()).first;
  FunctionSamples &samples = found->second;
  ++samples.calls;
  samples.steps.resize(call.steps.size());
  for (size_t i = 0; i < call.steps.size(); ++i)
    samples.steps[i].push_back(call.steps[i]);
}

bool ProfileRecorder::isDone() const {
  const auto pairs =
      static_cast<int64_t>(std::min(measured.size(), plain.size()));
  if (wanted > 0)
    return pairs >= wanted;
  TimeSpan span{start, TimeSpan::Clock::now()};
  return pairs >= 100 || (pairs >= 5 && span.seconds() > 3) ||
         (pairs >= 1 && span.seconds() > 20);
}
