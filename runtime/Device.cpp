// Opens the device that was asked for, or says why not.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Device.h"
#include "runtime/cpu/CPUDevice.h"

namespace mpc::runtime {

StatusOr<std::unique_ptr<Device>> Device::create(const DeviceOptions &options,
                                                 const Artifact &artifact) {
  // Every artifact of this version is for a CPU, so "auto" leaves no choice.
  if (options.device == "cpu" || options.device == "auto")
    return CPUDevice::create(options, artifact);
  if (options.device == "cuda")
    return Status(StatusCode::Device,
                  "device 'cuda' needs a build with the CUDA backend, an "
                  "NVIDIA driver and an artifact compiled for a GPU; this "
                  "build has none, use --device cpu");
  return Status(StatusCode::Usage, "unknown device '" + options.device +
                                       "'; expected cpu, cuda or auto");
}

} // namespace mpc::runtime
