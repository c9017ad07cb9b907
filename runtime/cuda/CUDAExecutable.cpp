// Runs a function's steps, then records and replays them.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/CUDAExecutable.h"

#include <algorithm>

namespace mpc::runtime::cuda {

CUDAExecutable::CUDAExecutable(const Driver &driver, Context context,
                               Stream stream, std::string name,
                               std::vector<NamedStep> steps)
    : driver(driver), context(context), stream(stream), name(std::move(name)),
      steps(std::move(steps)),
      useGraph(!driver.stepwise() && !environmentHas("MPC_CUDA_GRAPH", "0")),
      hasOutcome(std::any_of(
          this->steps.begin(), this->steps.end(),
          [](const NamedStep &step) { return step.step->hasOutcome(); })) {}

CUDAExecutable::~CUDAExecutable() {
  ContextScope scope(driver, context);
  if (graph)
    (void)driver.call.graphExecDestroy(graph);
}

Status CUDAExecutable::run() {
  ContextScope scope(driver, context);
  if (!scope.status().ok())
    return scope.status();
  Status status = launch();
  return status.ok() && hasOutcome ? findOutcome() : status;
}

Status CUDAExecutable::launch() {
  if (!useGraph || !warm) {
    Status status = enqueueAll();
    warm = status.ok();
    return status;
  }
  if (!graph)
    if (Status status = capture(); !status.ok())
      return status;
  return driver.check(driver.call.graphLaunch(graph, stream),
                      "launch the graph of '" + name + "'");
}

Status CUDAExecutable::enqueueAll() {
  for (NamedStep &step : steps) {
    Status status = step.step->enqueue(stream);
    if (status.ok() && driver.stepwise())
      status = driver.check(driver.call.streamSynchronize(stream), "run it");
    if (!status.ok())
      return Status(status.getCode(), "'" + step.name + "' in function '" +
                                          name + "': " + status.message());
  }
  return Status();
}

/// Waits for the run, and says which of its steps failed first.
Status CUDAExecutable::findOutcome() {
  Status status =
      driver.check(driver.call.streamSynchronize(stream), "finish a run");
  for (size_t i = 0; i < steps.size() && status.ok(); ++i) {
    status = steps[i].step->getOutcome();
    if (!status.ok())
      return Status(status.getCode(),
                    "'" + steps[i].name + "': " + status.message());
  }
  return status;
}

Status CUDAExecutable::capture() {
  Status status = driver.check(
      driver.call.streamBeginCapture(stream, CaptureMode::ThreadLocal),
      "record a graph");
  if (!status.ok())
    return status;
  Graph recorded = nullptr;
  status = enqueueAll();
  // Ended in any case: a stream left in this state would take no more work.
  Status ended = driver.check(driver.call.streamEndCapture(stream, &recorded),
                              "record the graph of '" + name + "'");
  if (status.ok())
    status = ended;
  if (status.ok())
    status = driver.check(
        driver.call.graphInstantiate(&graph, recorded, /*flags=*/0),
        "make the graph of '" + name + "' ready");
  if (recorded)
    (void)driver.call.graphDestroy(recorded);
  if (status.ok())
    return status;
  graph = nullptr;
  return Status(status.getCode(),
                status.message() + "; MPC_CUDA_GRAPH=0 runs without graphs");
}

} // namespace mpc::runtime::cuda
