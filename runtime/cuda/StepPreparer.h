// Makes a function's steps ready for a GPU: kernels looked up, addresses
// resolved, contractions given to the libraries.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_STEPPREPARER_H
#define MPC_RUNTIME_CUDA_STEPPREPARER_H

#include "runtime/cuda/BLASLt.h"
#include "runtime/cuda/CUDAExecutable.h"
#include "runtime/cuda/DNN.h"
#include "runtime/cuda/KernelModule.h"

#include <vector>

namespace mpc::runtime::cuda {

/// What steps are made of. The libraries are opened by the first step that
/// needs them: an artifact without convolutions runs without cuDNN.
struct StepResources {
  const Driver &driver;
  const GPU &gpu;
  const KernelModule &kernels;
  Stream stream;
  Workspace &workspace;
  std::unique_ptr<BLASLt> &blas;
  std::unique_ptr<DNN> &dnn;
};

/// The steps of `function`; `buffers[i]` is the address of its i-th buffer.
/// Errors name the step.
StatusOr<std::vector<NamedStep>>
prepareSteps(StepResources resources, const Function &function,
             const std::vector<void *> &buffers);

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_STEPPREPARER_H
