// Runs a function on a GPU: step by step at first, then as a graph.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_CUDAEXECUTABLE_H
#define MPC_RUNTIME_CUDA_CUDAEXECUTABLE_H

#include "runtime/Device.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/PreparedStep.h"
#include "runtime/cuda/StepEvents.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::runtime::cuda {

/// A step, and the name that errors show.
struct NamedStep {
  std::string name;
  std::unique_ptr<CUDAStep> step;
  /// Index in the function of the step that `step` belongs to. A loop has a
  /// NamedStep for each inner step of each iteration.
  size_t owner = 0;
};

/// The first run enqueues the steps one by one, so that the libraries load
/// their kernels. The second run captures the steps in a graph. From then on, a
/// run launches the graph. MPC_CUDA_GRAPH=0 always enqueues the steps.
class CUDAExecutable : public Executable {
public:
  CUDAExecutable(const CUDADriver &driver, Context context, Stream stream,
                 const Function &function, std::vector<NamedStep> steps);
  ~CUDAExecutable() override;

  Status run() override;
  /// Measures with events between the steps, in a separate graph.
  Status runTimed(std::vector<double> &seconds) override;

private:
  Status launch(GraphExec &graph, StepEvents *events);
  Status enqueueAll(StepEvents *events, bool intoGraph);
  Status findOutcome();
  Status capture(GraphExec &graph, StepEvents *events);

  const CUDADriver &driver;
  Context context;
  Stream stream;
  const Function &function;
  std::vector<NamedStep> steps;
  bool useGraph, hasOutcome;
  bool warm = false;
  GraphExec graph = nullptr, timedGraph = nullptr;
  std::unique_ptr<StepEvents> stepEvents; ///< used by `timedGraph`
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_CUDAEXECUTABLE_H
