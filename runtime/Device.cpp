// Opens the device that the caller names, or reports why the device is missing.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Device.h"
#include "runtime/cuda/CUDADevice.h"
#ifdef MPC_HAS_CPU_DEVICE
#include "runtime/cpu/CPUDevice.h"
#include "runtime/cpu/Cores.h"
#endif

#include <algorithm>
#include <charconv>
#include <sched.h>
#include <unistd.h>

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

StatusOr<DeviceId> DeviceId::parse(std::string_view text) {
  if (text == "auto")
    return DeviceId{Kind::Auto, 0};
  if (text == "cpu")
    return DeviceId{Kind::CPU, 0};
  if (text == "cuda")
    return DeviceId{Kind::CUDA, 0};
  constexpr std::string_view prefix = "cuda:";
  if (text.substr(0, prefix.size()) == prefix) {
    const std::string_view digits = text.substr(prefix.size());
    int index = 0;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), index);
    if (error == std::errc() && end == digits.data() + digits.size() &&
        index >= 0)
      return DeviceId{Kind::CUDA, index};
  }
  return Status(StatusCode::Usage, "unknown device '" + std::string(text) +
                                       "'; expected cpu, cuda, cuda:N (a GPU "
                                       "by its number) or auto");
}

StatusOr<std::string> findArchitecture(const DeviceId &device) {
  return CUDADevice::architecture(device.index);
}

Status checkGPU(const DeviceId &device, const Target &target) {
  return CUDADevice::checkTarget(device.index, target);
}

Status checkAttention(const DeviceId &device) {
  return CUDADevice::checkAttention(device.index);
}

bool hasGPUDriver() { return CUDADevice::hasDriver(); }

#ifdef MPC_HAS_CPU_DEVICE
/// True if the launcher has bound this process to some of the processors.
static bool isBound() {
  cpu_set_t mine;
  CPU_ZERO(&mine);
  return sched_getaffinity(0, sizeof(mine), &mine) == 0 &&
         CPU_COUNT(&mine) < sysconf(_SC_NPROCESSORS_ONLN);
}
#endif

void divideMachine(int rank, int count, DeviceOptions &options) {
  if (count == 1)
    return;
  if (options.device == "cuda" || (options.device == "auto" && hasGPUDriver()))
    options.device = "cuda:" + std::to_string(rank);
#ifdef MPC_HAS_CPU_DEVICE
  if (options.threads == 0 && !isBound())
    options.threads = std::max(1, countUsableCores() / std::max(1, count));
#endif
}

StatusOr<std::unique_ptr<Device>> Device::create(const DeviceOptions &options,
                                                 const Artifact &artifact) {
  StatusOr<DeviceId> id = DeviceId::parse(options.device);
  if (!id.ok())
    return id.status();
  const bool isForGPU = artifact.plan().target.isGPU();
  if (id->kind == DeviceId::Kind::CUDA ||
      (id->kind == DeviceId::Kind::Auto && isForGPU))
    return CUDADevice::create(options, artifact, id->index);
  return createCPU(options, artifact);
}

} // namespace mpc::runtime
