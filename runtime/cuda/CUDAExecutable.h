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

class NCCL;

/// A prepared step, and the name of the step for error messages.
struct NamedStep {
  std::string name;
  std::unique_ptr<CUDAStep> step;
  /// The index, in the function, of the step that `step` was prepared from. All
  /// steps of an unrolled loop have the index of the loop.
  size_t owner = 0;
};

/// Runs a function. The first run enqueues the steps one by one, so that the
/// libraries load their kernels. The second run captures the steps in a graph.
/// From then on, a run launches the graph. MPC_CUDA_GRAPH=0 always enqueues the
/// steps.
///
/// A reduction over ranks runs on the stream of `nccl`, beside the steps that
/// follow, also within the graph.
class CUDAExecutable : public Executable {
public:
  CUDAExecutable(const CUDADriver &driver, Context context, Stream stream,
                 const Function &function, std::vector<NamedStep> steps,
                 NCCL *nccl);
  ~CUDAExecutable() override;

  Status run() override;
  /// Like `run`, and measures the seconds of each step with events between the
  /// steps. Uses a graph of its own, which contains the events. Each step waits
  /// for the reduction before it.
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
  std::unique_ptr<StepEvents> stepEvents; ///< recorded by `timedGraph`
  NCCL *nccl;           ///< null unless the GPUs of several ranks are connected
  size_t bytesSent = 0; ///< by a run
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_CUDAEXECUTABLE_H
