// Opens the device that was asked for, or says why not.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Device.h"
#include "runtime/cpu/CPUDevice.h"
#include "runtime/cuda/CUDADevice.h"

namespace mpc::runtime {

StatusOr<std::unique_ptr<Device>> Device::create(const DeviceOptions &options,
                                                 const Artifact &artifact) {
  bool gpu = artifact.plan().target.isGPU();
  if (options.device == "cuda" || (options.device == "auto" && gpu))
    return CUDADevice::create(artifact);
  if (options.device == "cpu" || options.device == "auto")
    return CPUDevice::create(options, artifact);
  return Status(StatusCode::Usage, "unknown device '" + options.device +
                                       "'; expected cpu, cuda or auto");
}

} // namespace mpc::runtime
