// Opens the driver and reads the GPU's properties.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/SharedLibrary.h"

#include <cstdio>
#include <cstdlib>
#include <thread>

namespace mpc::runtime::cuda {

bool environmentHas(const char *variable, std::string_view value) {
  const char *found = std::getenv(variable);
  return found && value == found;
}

void logChoice(const std::string &line) {
  const char *path = std::getenv("MPC_CUDA_LOG");
  if (!path || !*path)
    return;
  if (std::string_view(path) == "stderr") {
    std::fprintf(stderr, "mpc cuda: %s\n", line.c_str());
    return;
  }
  // Failing to write the log is no reason to end a run.
  if (std::FILE *file = std::fopen(path, "a")) {
    std::fprintf(file, "%s\n", line.c_str());
    std::fclose(file);
  }
}

/// True if an error is a kernel fault: CUDA_ERROR_ILLEGAL_ADDRESS (700), or 710
/// to 719 (asserts, misaligned addresses, illegal instructions). Any kernel
/// launched before the failing call may be the cause, and the context is lost.
static bool isKernelFault(DriverResult result) {
  auto value = static_cast<int>(result);
  return value == 700 || (value >= 710 && value <= 719);
}

static Status resolve(const SharedLibrary &library, DriverFunctions &call) {
#define MPC_CUDA_FIND(member, symbol, ...)                                     \
  if (Status status = library.find(#symbol, call.member); !status.ok())        \
    return status;
  MPC_CUDA_DRIVER_FUNCTIONS(MPC_CUDA_FIND)
#undef MPC_CUDA_FIND
  return Status();
}

static StatusOr<SharedLibrary> openLibrary() {
  return SharedLibrary::open(kDriverNames, "an NVIDIA driver");
}

bool CUDADriver::isInstalled() { return openLibrary().ok(); }

StatusOr<std::shared_ptr<const CUDADriver>> CUDADriver::open() {
  StatusOr<SharedLibrary> library = openLibrary();
  if (!library.ok())
    return library.status();
  auto driver = std::make_shared<CUDADriver>();
  if (Status status = resolve(*library, driver->call); !status.ok())
    return status;
  DriverResult result = driver->call.init(0);
  if (result != DriverResult::Success)
    return Status(
        StatusCode::Device,
        "device 'cuda' needs a usable GPU; the driver '" + library->path() +
            "' cannot start: " + driver->describe(result) + kCPUAlternative);
  // For debugging: if mpc waits after each step, the failing step itself
  // reports the error, not a later one.
  driver->waitsForSteps = environmentHas("MPC_CUDA_SYNCHRONIZE", "1");
  Status status = driver->check(
      driver->call.driverGetVersion(&driver->cudaVersion), "ask its version");
  if (!status.ok())
    return status;
  return std::shared_ptr<const CUDADriver>(std::move(driver));
}

std::string CUDADriver::describe(DriverResult result) const {
  const char *name = nullptr, *text = nullptr;
  if (call.getErrorName(result, &name) != DriverResult::Success || !name)
    return "error " + std::to_string(static_cast<int>(result));
  if (call.getErrorString(result, &text) != DriverResult::Success || !text)
    return name;
  return std::string(name) + " (" + text + ")";
}

Status CUDADriver::check(DriverResult result, const std::string &what) const {
  if (result == DriverResult::Success)
    return Status();
  const char *hint =
      isKernelFault(result) && !stepwise()
          ? "; an earlier step failed, and this process cannot use the GPU "
            "any more; MPC_CUDA_SYNCHRONIZE=1 tells which step"
          : "";
  return Status(StatusCode::Device, "the CUDA driver cannot " + what + ": " +
                                        describe(result) + hint);
}

/// Polls `isReady`, since a blocking call could not end early. Sleeps only in
/// long waits: a sleep takes longer than the pause between two short steps.
template <typename Query>
Status CUDADriver::wait(Query isReady, const std::string &what) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kWatchPeriod(1), kSpinLimit(20);
  const Clock::time_point begin = Clock::now();
  Clock::time_point watched = begin;
  for (;;) {
    const DriverResult result = isReady();
    if (result != DriverResult::NotReady)
      return check(result, what);
    const Clock::time_point now = Clock::now();
    if (now - watched >= kWatchPeriod) {
      watched = now;
      if (Status status = watch(now - begin); !status.ok())
        return status;
    }
    if (now - begin < kSpinLimit)
      std::this_thread::yield();
    else
      std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Status CUDADriver::wait(Stream stream, const std::string &what) const {
  if (!watch)
    return check(call.streamSynchronize(stream), what);
  return wait([&] { return call.streamQuery(stream); }, what);
}

Status CUDADriver::wait(Event event, const std::string &what) const {
  if (!watch)
    return check(call.eventSynchronize(event), what);
  return wait([&] { return call.eventQuery(event); }, what);
}

StatusOr<GPU> GPU::find(const CUDADriver &driver, int index) {
  int count = 0;
  DriverResult result = driver.call.deviceGetCount(&count);
  // A driver without a GPU is not a driver error, so report it separately.
  if (result == DriverResult::NoDevice ||
      (result == DriverResult::Success && count == 0))
    return Status(StatusCode::Device,
                  std::string("device 'cuda' needs an NVIDIA GPU; the driver "
                              "shows none (is CUDA_VISIBLE_DEVICES set?)") +
                      kCPUAlternative);
  if (Status status = driver.check(result, "count GPUs"); !status.ok())
    return status;

  if (index >= count)
    return Status(StatusCode::Device,
                  "there is no GPU " + std::to_string(index) +
                      "; the driver shows " + std::to_string(count) +
                      ", numbered from 0 (CUDA_VISIBLE_DEVICES chooses them)");
  GPU gpu;
  Status status = driver.check(driver.call.deviceGet(&gpu.ordinal, index),
                               "open GPU " + std::to_string(index));
  if (!status.ok())
    return status;
  char name[256] = {};
  status = driver.check(
      driver.call.deviceGetName(name, sizeof(name) - 1, gpu.ordinal),
      "name the GPU");
  if (!status.ok())
    return status;
  gpu.name = name;
  // Kernels depend on the compute capability and on the shared memory per
  // block.
  struct {
    DeviceAttribute attribute;
    int &value;
  } wanted[] = {
      {DeviceAttribute::ComputeCapabilityMajor, gpu.major},
      {DeviceAttribute::ComputeCapabilityMinor, gpu.minor},
      {DeviceAttribute::MaxSharedMemoryPerBlockOptin, gpu.maxSharedBytes}};
  for (const auto &[attribute, value] : wanted) {
    status = driver.check(
        driver.call.deviceGetAttribute(&value, attribute, gpu.ordinal),
        "describe the GPU");
    if (!status.ok())
      return status;
  }
  return gpu;
}

std::string GPU::architecture() const {
  return "sm_" + std::to_string(major) + std::to_string(minor);
}

std::string GPU::describe() const { return name + " (" + architecture() + ")"; }

std::string toCUDAVersion(int version) {
  return std::to_string(version / 1000) + "." +
         std::to_string(version % 1000 / 10);
}

} // namespace mpc::runtime::cuda
