// A function on a GPU: its steps, and the graph they become.
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

/// A step with the name that errors call it by.
struct NamedStep {
  std::string name;
  std::unique_ptr<PreparedStep> step;
  /// The step of the function that it is of: one of a loop for each iteration.
  size_t owner = 0;
};

/// The first run enqueues the steps one by one, so that the libraries load
/// their kernels; the second records the same into a graph; from then on a run
/// is one launch of that graph. MPC_CUDA_GRAPH=0 keeps to the first way.
class CUDAExecutable : public Executable {
public:
  CUDAExecutable(const Driver &driver, Context context, Stream stream,
                 const Function &function, std::vector<NamedStep> steps);
  ~CUDAExecutable() override;

  Status run() override;
  /// By events between the steps, in a graph of its own.
  Status runTimed(std::vector<double> &seconds) override;

private:
  Status launch(GraphExec &graph, StepEvents *events);
  Status enqueueAll(StepEvents *events, bool intoGraph);
  Status findOutcome();
  Status capture(GraphExec &graph, StepEvents *events);

  const Driver &driver;
  Context context;
  Stream stream;
  const Function &function;
  std::vector<NamedStep> steps;
  bool useGraph, hasOutcome;
  bool warm = false;
  GraphExec graph = nullptr, timedGraph = nullptr;
  std::unique_ptr<StepEvents> stepEvents; ///< of `timedGraph`
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_CUDAEXECUTABLE_H
