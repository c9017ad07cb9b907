// Opens the device that was asked for, or says why not.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Device.h"
#include "runtime/cuda/CUDADevice.h"
#ifdef MPC_HAS_CPU_DEVICE
#include "runtime/cpu/CPUDevice.h"
#endif

namespace mpc::runtime {

static StatusOr<std::unique_ptr<Device>> createCPU(const DeviceOptions &options,
                                                   const Artifact &artifact) {
#ifdef MPC_HAS_CPU_DEVICE
  return CPUDevice::create(options, artifact);
#else
  return Status(StatusCode::Device,
                "this build of the runtime has no CPU device; build it with "
                "-DMPC_ENABLE_CPU=ON");
#endif
}

StatusOr<std::unique_ptr<Device>> Device::create(const DeviceOptions &options,
                                                 const Artifact &artifact) {
  bool gpu = artifact.plan().target.isGPU();
  if (options.device == "cuda" || (options.device == "auto" && gpu))
    return CUDADevice::create(artifact);
  if (options.device == "cpu" || options.device == "auto")
    return createCPU(options, artifact);
  return Status(StatusCode::Usage, "unknown device '" + options.device +
                                       "'; expected cpu, cuda or auto");
}

} // namespace mpc::runtime
