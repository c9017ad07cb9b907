// SPDX-License-Identifier: Apache-2.0
#include "test/passes/Codegen/EmulatedGPU.h"

#include "runtime/cuda/DriverABI.h"

#include <algorithm>
#include <dlfcn.h>
#include <map>
#include <utility>

namespace mpc::test {
namespace {

namespace cuda = runtime::cuda;

/// The emulated driver with a context. Calls record the first failure.
class Driver {
public:
  Driver() {
    library = dlopen(MPC_TEST_EMULATOR_FOLDER "/libcuda.so.1", RTLD_NOW);
    if (!library) {
      failure = dlerror();
      return;
    }
    call("cuInit", 0u);
    cuda::Context context = nullptr;
    call("cuDevicePrimaryCtxRetain", &context, 0);
    call("cuCtxSetCurrent", context);
  }

  template <typename... Args>
  void call(const char *symbol, Args... args) {
    if (!failure.empty())
      return;
    auto function = reinterpret_cast<int (*)(Args...)>(dlsym(library, symbol));
    int result = function ? function(args...) : -1;
    if (result != 0)
      failure = std::string(symbol) + " returns " + std::to_string(result);
  }

  /// Returns the first failure since the last call of this function.
  std::string takeFailure() { return std::exchange(failure, ""); }

private:
  void *library = nullptr;
  std::string failure;
};

} // namespace

std::string runOnEmulatedGPU(const std::string &ptx, const Launch &launch,
                             const std::vector<HostBuffer> &args) {
  static Driver driver;
  cuda::Module module = nullptr;
  cuda::Kernel kernel = nullptr;
  driver.call("cuModuleLoadData", &module,
              static_cast<const void *>(ptx.c_str()));
  driver.call("cuModuleGetFunction", &kernel, module, launch.kernel.c_str());

  driver.call("cuFuncSetAttribute", kernel,
              cuda::FunctionAttribute::MaxDynamicSharedSizeBytes,
              static_cast<int>(launch.sharedBytes));

  std::map<void *, cuda::DevicePointer> copies;
  std::vector<void *> params;
  for (const HostBuffer &arg : args) {
    auto [copy, isNew] = copies.try_emplace(arg.address, 0);
    if (isNew) {
      // A driver refuses allocations of zero bytes.
      driver.call("cuMemAlloc_v2", &copy->second,
                  std::max<size_t>(arg.bytes, 1));
      driver.call("cuMemcpyHtoD_v2", copy->second,
                  static_cast<const void *>(arg.address), arg.bytes);
    }
    params.push_back(&copy->second);
  }
  driver.call("cuLaunchKernel", kernel, launch.blocks, 1u, 1u, launch.threads,
              1u, 1u, launch.sharedBytes, cuda::Stream(), params.data(),
              static_cast<void **>(nullptr));
  driver.call("cuCtxSynchronize");
  for (const HostBuffer &arg : args)
    driver.call("cuMemcpyDtoH_v2", arg.address, copies[arg.address], arg.bytes);
  for (auto [address, copy] : copies)
    driver.call("cuMemFree_v2", copy);
  driver.call("cuModuleUnload", module);
  return driver.takeFailure();
}

} // namespace mpc::test
