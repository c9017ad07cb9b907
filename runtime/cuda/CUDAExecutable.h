// A function on a GPU: its steps, and the graph they become.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_CUDAEXECUTABLE_H
#define MPC_RUNTIME_CUDA_CUDAEXECUTABLE_H

#include "runtime/Device.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/PreparedStep.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::runtime::cuda {

/// A step with the name that errors call it by.
struct NamedStep {
  std::string name;
  std::unique_ptr<PreparedStep> step;
};

/// The first run enqueues the steps one by one, so that the libraries load
/// their kernels; the second records the same into a graph; from then on a run
/// is one launch of that graph. MPC_CUDA_GRAPH=0 keeps to the first way.
class CUDAExecutable : public Executable {
public:
  CUDAExecutable(const Driver &driver, Context context, Stream stream,
                 std::string name, std::vector<NamedStep> steps);
  ~CUDAExecutable() override;

  Status run() override;

private:
  Status launch();
  Status enqueueAll();
  Status findOutcome();
  Status capture();

  const Driver &driver;
  Context context;
  Stream stream;
  std::string name;
  std::vector<NamedStep> steps;
  bool useGraph, hasOutcome;
  bool warm = false;
  GraphExec graph = nullptr;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_CUDAEXECUTABLE_H
