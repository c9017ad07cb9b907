// Loads an artifact's kernels on a GPU.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_KERNELMODULE_H
#define MPC_RUNTIME_CUDA_KERNELMODULE_H

#include "runtime/Artifact.h"
#include "runtime/cuda/Driver.h"

#include <string>

namespace mpc::runtime::cuda {

class KernelModule {
public:
  explicit KernelModule(const CUDADriver &driver) : driver(driver) {}
  ~KernelModule();
  KernelModule(const KernelModule &) = delete;
  KernelModule &operator=(const KernelModule &) = delete;

  /// Loads the kernels. Uses the cubin if it was assembled for exactly this
  /// GPU, else the PTX, which the driver compiles. A Device error if the GPU or
  /// the driver is too old.
  Status load(const Artifact &artifact, const GPU &gpu);

  /// Checks that the GPU and the driver are new enough for PTX of `target`. A
  /// Device error if not.
  Status check(const Target &target, const GPU &gpu) const;

  StatusOr<Kernel> kernel(const std::string &name) const;

private:
  Status loadPTX(const Artifact &artifact, const GPU &gpu);

  const CUDADriver &driver;
  Module module = nullptr;
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_KERNELMODULE_H
