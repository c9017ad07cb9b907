// Loads an artifact's cubin or PTX.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cuda/KernelModule.h"
#include "runtime/cuda/SharedLibrary.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <vector>

namespace mpc::runtime::cuda {
namespace {

/// Room for the driver's error log about rejected PTX.
constexpr size_t kLogBytes = 16 << 10;

/// A GPU architecture: sm_90 is version 9.0. `specific` is true for sm_90a,
/// whose code runs on 9.0 only.
struct Architecture {
  int major = 0, minor = 0;
  bool specific = false;
};

/// A version of PTX, as 10 * major + minor, and the first CUDA that supports
/// it, as 1000 * major + 10 * minor. From NVIDIA's release notes for PTX.
struct PTXRelease {
  int ptx, cuda;
};
constexpr PTXRelease kPTXReleases[] = {
    {70, 11000}, {71, 11010}, {72, 11020}, {73, 11030}, {74, 11040},
    {75, 11050}, {76, 11060}, {77, 11070}, {78, 11080}, {80, 12000},
    {81, 12010}, {82, 12020}, {83, 12030}, {84, 12040}, {85, 12050},
    {86, 12070}, {87, 12080}, {88, 12090}, {90, 13000}};

} // namespace

/// Returns the decimal number that follows `prefix` at the start of `text`;
/// nullopt if there is none. `rest` receives the text after the digits.
static std::optional<int> numberAfter(const std::string &text,
                                      const char *prefix, std::string &rest) {
  std::string start = prefix;
  if (text.rfind(start, 0) != 0)
    return std::nullopt;
  size_t end = start.size();
  int number = 0;
  for (; end < text.size() &&
         std::isdigit(static_cast<unsigned char>(text[end])) && number < 10000;
       ++end)
    number = number * 10 + (text[end] - '0');
  if (end == start.size())
    return std::nullopt;
  rest = text.substr(end);
  return number;
}

static std::optional<Architecture> parseArchitecture(const std::string &cpu) {
  std::string rest;
  std::optional<int> number = numberAfter(cpu, "sm_", rest);
  if (!number || *number < 10 || (!rest.empty() && rest != "a"))
    return std::nullopt;
  return Architecture{*number / 10, *number % 10, rest == "a"};
}

/// Returns the oldest driver, as a CUDA version, that supports the artifact's
/// PTX. 0 if the artifact names no version of PTX, INT32_MAX if the version is
/// newer than kPTXReleases.
static int neededDriver(const Target &target) {
  for (const std::string &feature : target.features) {
    std::string rest;
    std::optional<int> ptx = numberAfter(feature, "ptx", rest);
    if (!ptx || !rest.empty())
      continue;
    for (const PTXRelease &release : kPTXReleases)
      if (release.ptx >= *ptx)
        return release.cuda;
    return INT32_MAX;
  }
  return 0;
}

static Status checkGPU(const Target &target, const Architecture &wanted,
                       const GPU &gpu) {
  auto version = [](int major, int minor) { return major * 100 + minor; };
  int needed = version(wanted.major, wanted.minor);
  int found = version(gpu.major, gpu.minor);
  if (wanted.specific ? found == needed : found >= needed)
    return Status();
  return Status(StatusCode::Device,
                "the artifact was compiled for " + target.cpu +
                    (wanted.specific ? " and no other GPU" : " or newer") +
                    ", the GPU found is " + gpu.describe() +
                    "; compile the model for it (--target sm_" +
                    std::to_string(gpu.major) + std::to_string(gpu.minor) +
                    ")" + kCPUAlternative);
}

KernelModule::~KernelModule() {
  if (module)
    (void)driver.call.moduleUnload(module);
}

static Status checkArchitecture(const Target &target, const GPU &gpu) {
  std::optional<Architecture> wanted = parseArchitecture(target.cpu);
  if (!wanted)
    return Status(StatusCode::Device, "the artifact is for '" + target.cpu +
                                          "', which is not a GPU this runtime "
                                          "knows (sm_80, sm_90, ...)" +
                                          kCPUAlternative);
  return checkGPU(target, *wanted, gpu);
}

/// Checks that the driver supports the artifact's version of PTX.
static Status checkDriver(const Target &target, const CUDADriver &driver) {
  const int needed = neededDriver(target);
  if (driver.version() >= needed)
    return Status();
  return Status(
      StatusCode::Device,
      "the artifact's PTX needs a driver for CUDA " +
          (needed == INT32_MAX ? "newer than this runtime knows"
                               : toCUDAVersion(needed) + " or newer") +
          ", the driver found is for CUDA " + toCUDAVersion(driver.version()) +
          "; update the NVIDIA driver" + kCPUAlternative);
}

Status KernelModule::check(const Target &target, const GPU &gpu) const {
  Status status = checkArchitecture(target, gpu);
  return status.ok() ? checkDriver(target, driver) : status;
}

Status KernelModule::load(const Artifact &artifact, const GPU &gpu) {
  const Target &target = artifact.plan().target;
  if (Status status = checkArchitecture(target, gpu); !status.ok())
    return status;
  const std::optional<Architecture> wanted = parseArchitecture(target.cpu);
  // Later minor versions run a cubin, as sm_89 runs sm_86's. A driver rejects a
  // cubin from a newer toolkit. In this case load the PTX, which is the same
  // program.
  if (!artifact.cubin().empty() && wanted->major == gpu.major &&
      driver.call.moduleLoadDataEx(&module, artifact.cubin().data(), 0, nullptr,
                                   nullptr) == DriverResult::Success)
    return Status();
  return loadPTX(artifact, gpu);
}

Status KernelModule::loadPTX(const Artifact &artifact, const GPU &gpu) {
  const Target &target = artifact.plan().target;
  if (artifact.ptx().empty())
    return Status(StatusCode::InvalidInput,
                  "'" + artifact.name() + "': an artifact for " + target.cpu +
                      " without PTX; compile the model again");
  if (Status status = checkDriver(target, driver); !status.ok())
    return status;

  // The driver writes the reason for a failure into this log.
  std::vector<char> log(kLogBytes, '\0');
  JITOption options[] = {JITOption::ErrorLogBuffer,
                         JITOption::ErrorLogBufferSizeBytes};
  void *values[] = {log.data(), reinterpret_cast<void *>(log.size() - 1)};
  DriverResult result = driver.call.moduleLoadDataEx(
      &module, artifact.ptx().data(), 2, options, values);
  if (result == DriverResult::Success)
    return Status();
  module = nullptr;
  std::string message(log.data());
  return Status(StatusCode::Device,
                "the CUDA driver cannot load the artifact's kernels (" +
                    target.cpu + ") on " + gpu.describe() + ": " +
                    driver.describe(result) +
                    (message.empty() ? "" : "; its compiler says: " + message));
}

StatusOr<Kernel> KernelModule::kernel(const std::string &name) const {
  Kernel kernel = nullptr;
  DriverResult result =
      driver.call.moduleGetFunction(&kernel, module, name.c_str());
  if (result == DriverResult::Success)
    return kernel;
  if (result == DriverResult::NotFound)
    return Status(StatusCode::InvalidInput,
                  "the artifact's code has no kernel '" + name + "'");
  return driver.check(result, "find kernel '" + name + "'");
}

} // namespace mpc::runtime::cuda
