// Enqueues a function's steps, then captures and replays a graph.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/CUDAExecutable.h"

#include "runtime/cuda/NCCL.h"

#include <algorithm>
#include <cassert>

namespace mpc::runtime::cuda {

CUDAExecutable::CUDAExecutable(const CUDADriver &driver, Context context,
                               Stream stream, const Function &function,
                               std::vector<NamedStep> steps, NCCL *nccl)
    : driver(driver), context(context), stream(stream), function(function),
      steps(std::move(steps)),
      useGraph(!driver.stepwise() && !environmentHas("MPC_CUDA_GRAPH", "0")),
      hasOutcome(std::any_of(
          this->steps.begin(), this->steps.end(),
          [](const NamedStep &step) { return step.step->hasOutcome(); })),
      nccl(nccl) {
  for (const NamedStep &step : this->steps)
    bytesSent += step.step->bytesSent();
  assert(std::all_of(this->steps.begin(), this->steps.end(),
                     [&](const NamedStep &step) {
                       return step.step &&
                              step.owner < this->function.steps.size();
                     }) &&
         "every prepared step belongs to a step of the function");
}

CUDAExecutable::~CUDAExecutable() {
  ContextScope scope(driver, context);
  for (GraphExec made : {graph, timedGraph})
    if (made)
      (void)driver.call.graphExecDestroy(made);
  stepEvents.reset();
  steps.clear();
}

Status CUDAExecutable::run() {
  ContextScope scope(driver, context);
  if (!scope.status().ok())
    return scope.status();
  Status status = launch(graph, nullptr);
  return status.ok() && hasOutcome ? findOutcome() : status;
}

Status CUDAExecutable::runTimed(std::vector<double> &seconds) {
  ContextScope scope(driver, context);
  if (!scope.status().ok())
    return scope.status();
  if (!stepEvents) {
    StatusOr<std::unique_ptr<StepEvents>> made =
        StepEvents::create(driver, steps.size());
    if (!made.ok())
      return made.status();
    stepEvents = std::move(*made);
  }
  if (Status status = launch(timedGraph, stepEvents.get()); !status.ok())
    return status;
  if (Status status = findOutcome(); !status.ok())
    return status;
  seconds.assign(function.steps.size(), 0);
  for (size_t i = 0; i < steps.size(); ++i) {
    StatusOr<double> taken = stepEvents->secondsOf(i);
    if (!taken.ok())
      return taken.status();
    seconds[steps[i].owner] += *taken;
  }
  return Status();
}

/// Launches `graph`, and captures it first if it is null. The very first run of
/// the function has no graph and only enqueues the steps.
Status CUDAExecutable::launch(GraphExec &graph, StepEvents *events) {
  assert((&graph == &timedGraph) == (events != nullptr) &&
         "only the timed graph records events");
  if (nccl)
    if (Status status = nccl->beginRun(bytesSent); !status.ok())
      return status;
  if (!useGraph || !warm) {
    Status status = enqueueAll(events, /*intoGraph=*/false);
    warm = status.ok();
    return status;
  }
  if (!graph)
    if (Status status = capture(graph, events); !status.ok())
      return status;
  return driver.check(driver.call.graphLaunch(graph, stream),
                      "launch the graph of '" + function.name + "'");
}

Status CUDAExecutable::enqueueAll(StepEvents *events, bool intoGraph) {
  if (events)
    if (Status status = events->record(0, stream, intoGraph); !status.ok())
      return status;
  for (size_t i = 0; i < steps.size(); ++i) {
    Status status = steps[i].step->enqueue(stream);
    // A time, or an error, belongs to its step.
    if (status.ok() && (events || driver.stepwise()))
      status = steps[i].step->join(stream);
    if (status.ok() && events)
      status = events->record(i + 1, stream, intoGraph);
    if (status.ok() && driver.stepwise())
      status = driver.wait(stream, "run it");
    if (!status.ok())
      return Status(status.getCode(), "'" + steps[i].name + "' in function '" +
                                          function.name +
                                          "': " + status.message());
  }
  return Status();
}

/// Waits for the run, and returns the failure of the first step that failed.
Status CUDAExecutable::findOutcome() {
  Status status = driver.wait(stream, "finish a run");
  for (size_t i = 0; i < steps.size() && status.ok(); ++i) {
    status = steps[i].step->getOutcome();
    if (!status.ok())
      return Status(status.getCode(),
                    "'" + steps[i].name + "': " + status.message());
  }
  return status;
}

Status CUDAExecutable::capture(GraphExec &graph, StepEvents *events) {
  assert(!graph && warm && "a graph is captured once, after a first run");
  Status status = driver.check(
      driver.call.streamBeginCapture(stream, CaptureMode::ThreadLocal),
      "record a graph");
  if (!status.ok())
    return status;
  Graph recorded = nullptr;
  status = enqueueAll(events, /*intoGraph=*/true);
  // End the capture even after a failure: a capturing stream accepts no other
  // work.
  Status ended = driver.check(driver.call.streamEndCapture(stream, &recorded),
                              "record the graph of '" + function.name + "'");
  if (status.ok())
    status = ended;
  if (status.ok())
    status = driver.check(
        driver.call.graphInstantiate(&graph, recorded, /*flags=*/0),
        "make the graph of '" + function.name + "' ready");
  if (recorded)
    (void)driver.call.graphDestroy(recorded);
  if (status.ok())
    return status;
  graph = nullptr;
  return Status(status.getCode(),
                status.message() + "; MPC_CUDA_GRAPH=0 runs without graphs");
}

} // namespace mpc::runtime::cuda
