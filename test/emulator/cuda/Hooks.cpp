// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Hooks.h"

#include "test/emulator/cuda/Driver.h"

using namespace mpc::emulator;

std::optional<int> mpc::emulator::libraryFault(const char *function) {
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  return driver.environment.fault(function);
}

void mpc::emulator::libraryLog(const std::string &line) {
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  driver.environment.log(line);
}

bool mpc::emulator::hasContext() {
  return Driver::get().isInitialized && currentContext();
}

int mpc::emulator::currentDevice() { return currentContext()->device; }

bool mpc::emulator::isCapturing() {
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  for (const auto &[handle, stream] : driver.streams)
    if (stream->capture &&
        stream->capture->thread == std::this_thread::get_id())
      return true;
  return false;
}

int mpc::emulator::computeCapability() {
  const DeviceProperties &device = Driver::get().environment.device;
  return device.major * 10 + device.minor;
}

CUresult mpc::emulator::enqueueWork(CUstream stream, std::string name,
                                    std::vector<Access> accesses,
                                    std::function<CUresult()> work) {
  Driver &driver = Driver::get();
  std::lock_guard<std::recursive_mutex> lock(driver.mutex);
  if (driver.lost)
    return driver.lost;
  auto run = [&driver, name, accesses, work] {
    for (const Access &access : accesses) {
      auto address = reinterpret_cast<uint64_t>(access.address);
      if (driver.memory.contains(address, access.bytes))
        continue;
      std::string message = name + ": " + std::to_string(access.bytes) +
                            " bytes at " + std::to_string(address) +
                            " are not device memory";
      driver.environment.log("  fault: " + message);
      std::fprintf(stderr, "mpc emulator: %s\n", message.c_str());
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    return work();
  };
  return driver.enqueue(stream, {name, run});
}
