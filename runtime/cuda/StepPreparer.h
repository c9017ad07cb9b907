// Prepares a function's steps for a GPU: looks up kernels, resolves addresses,
// and passes contractions to the libraries.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_STEPPREPARER_H
#define MPC_RUNTIME_CUDA_STEPPREPARER_H

#include "runtime/cuda/BLASLt.h"
#include "runtime/cuda/CUDAExecutable.h"
#include "runtime/cuda/KernelModule.h"
#include "runtime/cuda/NCCL.h"
#include "runtime/cuda/dnn/DNN.h"

#include <vector>

namespace mpc::runtime::cuda {

/// Resources for preparing steps. The first step that needs a library opens it,
/// so an artifact without convolutions runs without cuDNN.
struct StepResources {
  const CUDADriver &driver;
  const GPU &gpu;
  const KernelModule &kernels;
  Stream stream;
  Workspace &workspace;
  std::unique_ptr<BLASLt> &blas;
  std::unique_ptr<DNN> &dnn;
  const StateShares &shares; ///< steps of other owners are left out
  NCCL *nccl; ///< null for a single rank, which has nothing to exchange
};

/// Prepares the steps of `function`. `buffers[i]` is the address of the
/// function's i-th buffer. Errors name the step.
///
/// Exchanges with other ranks run beside later steps. A step that uses the
/// memory of an exchange waits for it, and the end of the function waits for
/// all.
StatusOr<std::vector<NamedStep>>
prepareSteps(StepResources resources, const Function &function,
             const std::vector<void *> &buffers);

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_STEPPREPARER_H
