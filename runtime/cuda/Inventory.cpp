// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/Inventory.h"

#include "runtime/cuda/BLASLtABI.h"
#include "runtime/cuda/NCCLABI.h"
#include "runtime/cuda/SharedLibrary.h"
#include "runtime/cuda/dnn/DNNABI.h"

#include <optional>

namespace mpc::runtime::cuda {

static InstalledLibrary
find(const char *name, LibraryNames files,
     std::optional<size_t> (*versionOf)(const SharedLibrary &)) {
  InstalledLibrary found;
  found.name = name;
  StatusOr<SharedLibrary> library = SharedLibrary::look(files);
  if (!library.ok()) {
    found.fault = library.status().message();
    return found;
  }
  found.path = library->path();
  if (const std::optional<size_t> version = versionOf(*library))
    found.version = toLibraryVersion(*version);
  return found;
}

/// Asks a library whose function `symbol` returns the version.
static std::optional<size_t> ask(const SharedLibrary &library,
                                 const char *symbol) {
  size_t (*call)() = nullptr;
  if (!library.find(symbol, call).ok())
    return std::nullopt;
  return call();
}

static std::optional<size_t> askNCCL(const SharedLibrary &library) {
  decltype(NCCLFunctions::getVersion) call = nullptr;
  int version = 0;
  if (!library.find("ncclGetVersion", call).ok() ||
      call(&version) != NCCLResult::Success || version < 0)
    return std::nullopt;
  return size_t(version);
}

static std::optional<size_t> askNVRTC(const SharedLibrary &library) {
  int (*call)(int *major, int *minor) = nullptr;
  int major = 0, minor = 0;
  if (!library.find("nvrtcVersion", call).ok() || call(&major, &minor) != 0 ||
      major < 0 || minor < 0)
    return std::nullopt;
  return size_t(major) * 10000 + size_t(minor) * 100;
}

/// Adds the driver and its GPUs.
static void addGPUs(Inventory &inventory) {
  InstalledLibrary &found = inventory.driver;
  found = find("driver", kDriverNames,
               [](const SharedLibrary &) -> std::optional<size_t> {
                 return std::nullopt;
               });
  if (!found.fault.empty())
    return;
  StatusOr<std::shared_ptr<const CUDADriver>> driver = CUDADriver::open();
  if (!driver.ok()) {
    found.fault = driver.status().message();
    return;
  }
  found.version = toCUDAVersion((*driver)->version());
  int count = 0;
  if ((*driver)->call.deviceGetCount(&count) != DriverResult::Success)
    count = 0;
  for (int index = 0; index < count; ++index)
    if (StatusOr<GPU> gpu = GPU::find(**driver, index); gpu.ok())
      inventory.gpus.push_back(*gpu);
    else
      found.fault = gpu.status().message();
}

Inventory takeInventory() {
  Inventory inventory;
  addGPUs(inventory);
  inventory.libraries = {find("cuBLASLt", kBLASLtNames,
                              [](const SharedLibrary &library) {
                                return ask(library, "cublasLtGetVersion");
                              }),
                         find("cuDNN", kDNNNames,
                              [](const SharedLibrary &library) {
                                return ask(library, "cudnnGetVersion");
                              }),
                         find("NVRTC", kNVRTCNames, askNVRTC),
                         find("NCCL", kNCCLNames, askNCCL)};
  return inventory;
}

} // namespace mpc::runtime::cuda
