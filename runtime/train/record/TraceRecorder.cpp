// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/record/TraceRecorder.h"

#include "runtime/BoundedJSON.h"

#include <algorithm>
#include <cassert>
#include <cstdio>
#include <unistd.h>

namespace mpc::runtime::train {

std::string_view wordOf(const Step &step) {
  return stringify(static_cast<StepKind>(step.op.index()));
}

std::string_view kernelOf(const Step &step) {
  if (const auto *launch = std::get_if<LaunchStep>(&step.op))
    return launch->kernel;
  const std::optional<Epilogue> *epilogue = nullptr;
  if (const auto *product = std::get_if<MatMulStep>(&step.op))
    epilogue = &product->epilogue;
  if (const auto *conv = std::get_if<ConvStep>(&step.op))
    epilogue = &conv->epilogue;
  return epilogue && *epilogue ? std::string_view((*epilogue)->kernel)
                               : std::string_view();
}

static std::string_view wordOf(RunPart part) {
  switch (part) {
  case RunPart::Step:
    return "step";
  case RunPart::Data:
    return "data";
  case RunPart::Ahead:
    return "next batch";
  case RunPart::Evaluation:
    return "evaluation";
  case RunPart::Checkpoint:
    return "checkpoint";
  }
  return "";
}

TraceRecorder::TraceRecorder(const Plan &plan, int64_t tracedSteps)
    : plan(plan), tracedSteps(tracedSteps) {}

int64_t TraceRecorder::sinceOrigin(TimeSpan::Clock::time_point time) const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(time - origin)
      .count();
}

void TraceRecorder::add(RunPart part, const TimeSpan &span) {
  std::lock_guard<std::mutex> lock(mutex);
  const bool isRare =
      part == RunPart::Evaluation || part == RunPart::Checkpoint;
  if (isTracing() || isRare)
    events.push_back(
        {std::string(wordOf(part)), "run",
         part == RunPart::Ahead ? Loader : Loop, sinceOrigin(span.begin),
         sinceOrigin(span.end),
         part == RunPart::Step
             ? "{\"step\":" +
                   std::to_string(totals[size_t(RunPart::Step)].count + 1) + "}"
             : ""});
  PartTotal &total = totals[size_t(part)];
  ++total.count;
  total.seconds += span.seconds();
}

void TraceRecorder::add(const FunctionCall &call) {
  std::lock_guard<std::mutex> lock(mutex);
  if (!isTracing())
    return;
  events.push_back({std::string(call.function), "function", Loop,
                    sinceOrigin(call.span.begin), sinceOrigin(call.span.end),
                    ""});
  const Function *function = plan.findFunction(call.function);
  if (function && call.steps.size() == function->steps.size())
    addPlanSteps(*function, call);
}

/// Adds an event for each plan step. The steps of a function follow each other
/// without gaps, so their durations are enough.
void TraceRecorder::addPlanSteps(const Function &function,
                                 const FunctionCall &call) {
  const int64_t end = sinceOrigin(call.span.end);
  const int64_t first = sinceOrigin(call.span.begin);
  double seconds = 0;
  int64_t begin = first;
  for (size_t i = 0; i < call.steps.size(); ++i) {
    const Step &step = function.steps[i];
    seconds += call.steps[i];
    const int64_t next =
        std::min(end, first + static_cast<int64_t>(seconds * 1e9));
    nlohmann::json args{{"op", wordOf(step)}};
    if (const std::string_view kernel = kernelOf(step); !kernel.empty())
      args["kernel"] = kernel;
    if (!step.others.empty())
      args["others"] = step.others;
    events.push_back({step.name, "kernel", plan.target.isGPU() ? Device : Loop,
                      begin, next, textOf(args)});
    begin = next;
  }
}

PartTotal TraceRecorder::total(RunPart part) const {
  std::lock_guard<std::mutex> lock(mutex);
  return totals[size_t(part)];
}

/// Appends nanoseconds as microseconds with three digits: 1500 as "1.500".
static void appendMicroseconds(std::string &text, int64_t nanoseconds) {
  assert(nanoseconds >= 0 && "a time after the origin");
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%lld.%03d",
                static_cast<long long>(nanoseconds / 1000),
                static_cast<int>(nanoseconds % 1000));
  text += digits;
}

/// Returns a metadata event, which names the process or a thread.
static std::string nameEvent(const char *kind, int lane,
                             std::string_view name) {
  return "{\"name\":\"" + std::string(kind) +
         "\",\"ph\":\"M\",\"pid\":" + std::to_string(getpid()) +
         ",\"tid\":" + std::to_string(lane) +
         ",\"args\":{\"name\":" + textOf(nlohmann::json(std::string(name))) +
         "}}";
}

std::string TraceRecorder::text(std::string_view process) const {
  std::lock_guard<std::mutex> lock(mutex);
  std::string text = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  text += nameEvent("process_name", Loop, process) + ",\n";
  text += nameEvent("thread_name", Loop, "training loop") + ",\n";
  text += nameEvent("thread_name", Loader, "next batch");
  if (plan.target.isGPU())
    text += ",\n" + nameEvent("thread_name", Device, "GPU");
  const std::string pid = std::to_string(getpid());
  for (const Event &event : events) {
    text += ",\n{\"name\":" + textOf(nlohmann::json(event.name)) +
            ",\"cat\":\"" + event.category + "\",\"ph\":\"X\",\"ts\":";
    appendMicroseconds(text, event.begin);
    text += ",\"dur\":";
    appendMicroseconds(text, event.end - event.begin);
    text += ",\"pid\":" + pid + ",\"tid\":" + std::to_string(event.lane);
    if (!event.args.empty())
      text += ",\"args\":" + event.args;
    text += "}";
  }
  return text + "\n]}\n";
}

} // namespace mpc::runtime::train
