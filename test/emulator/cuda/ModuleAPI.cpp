// Entry points: modules, kernels, launches.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Driver.h"
#include "test/emulator/ptx/Executor.h"

#include <cstring>

using namespace mpc::emulator;

static constexpr unsigned kSharedByDefault = 48 << 10;

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

/// Writes `text` into the log buffer of an option, and its length into the
/// buffer's size option.
static void writeLog(unsigned count, const CUjit_option *options, void **values,
                     CUjit_option buffer, CUjit_option size,
                     const std::string &text) {
  char *to = nullptr;
  size_t room = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == buffer)
      to = static_cast<char *>(values[i]);
    if (options[i] == size)
      room = reinterpret_cast<uintptr_t>(values[i]) & 0xffffffff;
  }
  size_t used = to && room ? std::min(room - 1, text.size()) : 0;
  if (to && room) {
    std::memcpy(to, text.data(), used);
    to[used] = '\0';
  }
  for (unsigned i = 0; i < count; ++i)
    if (options[i] == size)
      values[i] = reinterpret_cast<void *>(used ? used + 1 : 0);
}

/// True if the device runs PTX for `target`: sm_80 runs on sm_90, but sm_90a on
/// nothing else.
static bool runsOn(const DeviceProperties &device, const std::string &target) {
  int number = 0;
  char suffix = 0;
  if (std::sscanf(target.c_str(), "sm_%d%c", &number, &suffix) < 1)
    return false;
  int own = device.major * 10 + device.minor;
  if (suffix == 'a')
    return number == own;
  return number <= own;
}

static CUresult load(Driver &driver, CUmodule *result, const char *image,
                     std::string &log) {
  if (!std::memcmp(image,
                   "\x7f"
                   "ELF",
                   4)) {
    // Machine code of a real device. The program has PTX as well.
    log = "no kernel image for this device";
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  const DeviceProperties &device = driver.environment.device;
  auto loaded = std::make_shared<LoadedModule>();
  try {
    loaded->module = ptx::loadModule(image);
  } catch (const ptx::ModuleError &error) {
    log = std::string("ptxas application ptx input, ") + error.what();
    return CUDA_ERROR_INVALID_PTX;
  }
  if (loaded->module.version > device.ptxVersion()) {
    log = "ptxas fatal: unsupported .version";
    return CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
  }
  if (!runsOn(device, loaded->module.target)) {
    log = "ptxas fatal: the .target '" + loaded->module.target +
          "' does not run on this device";
    return CUDA_ERROR_INVALID_PTX;
  }
  for (const ptx::Kernel &kernel : loaded->module.kernels)
    if (kernel.sharedBytes > kSharedByDefault) {
      log = "ptxas error: entry function '" + kernel.name +
            "' uses too much shared data (" +
            std::to_string(kernel.sharedBytes) + " bytes, " +
            std::to_string(kSharedByDefault) + " max)";
      return CUDA_ERROR_INVALID_PTX;
    }
  for (const ptx::GlobalMemory &global : loaded->module.globals) {
    auto begin = reinterpret_cast<uint64_t>(global.address);
    driver.memory.add({begin, begin + global.bytes, global.isConstant});
  }
  for (const ptx::Kernel &kernel : loaded->module.kernels) {
    Function &function = loaded->functions[kernel.name];
    function.kernel = &kernel;
    function.dynamicShared = kSharedByDefault - kernel.sharedBytes;
  }
  *result = loaded.get();
  driver.modules[*result] = std::move(loaded);
  return CUDA_SUCCESS;
}

//===----------------------------------------------------------------------===//
// Launching
//===----------------------------------------------------------------------===//

static CUresult errorOf(const ptx::KernelFault &fault) {
  switch (fault.kind) {
  case ptx::KernelFault::IllegalAddress:
    return CUDA_ERROR_ILLEGAL_ADDRESS;
  case ptx::KernelFault::MisalignedAddress:
    return CUDA_ERROR_MISALIGNED_ADDRESS;
  case ptx::KernelFault::Timeout:
    return CUDA_ERROR_LAUNCH_TIMEOUT;
  case ptx::KernelFault::LaunchFailed:
    break;
  }
  return CUDA_ERROR_LAUNCH_FAILED;
}

static CUresult runKernel(Driver &driver, ptx::Launch launch,
                          const std::vector<uint8_t> &params) {
  auto ranges = driver.memory.ranges();
  launch.params = params.data();
  launch.memory = ranges.get();
  uint64_t before = ptx::executedInstructions();
  std::optional<ptx::KernelFault> fault = ptx::execute(launch);
  if (driver.environment.logs())
    driver.environment.log(
        "    instructions=" +
        std::to_string(ptx::executedInstructions() - before));
  if (!fault)
    return CUDA_SUCCESS;
  driver.environment.log("  fault: " + fault->message);
  std::fprintf(stderr, "mpc emulator: %s\n", fault->message.c_str());
  return errorOf(*fault);
}

static bool isValid(const Function &function, ptx::Dim grid, ptx::Dim block,
                    unsigned shared) {
  if (!grid.count() || !block.count() || grid.x > 0x7fffffff ||
      grid.y > 65535 || grid.z > 65535)
    return false;
  return block.x <= 1024 && block.y <= 1024 && block.z <= 64 &&
         block.count() <= function.kernel->maxThreads &&
         shared <= function.dynamicShared;
}

static std::string describe(const char *what, ptx::Dim dim) {
  return std::string(" ") + what + "=" + std::to_string(dim.x) + "x" +
         std::to_string(dim.y) + "x" + std::to_string(dim.z);
}

static Function *findFunction(Driver &driver, CUfunction handle) {
  for (auto &[key, module] : driver.modules)
    for (auto &[name, function] : module->functions)
      if (&function == handle)
        return &function;
  return nullptr;
}

static CUresult launch(Driver &driver, CUfunction handle, ptx::Dim grid,
                       ptx::Dim block, unsigned shared, CUstream stream,
                       void **params, void **extra) {
  Function *function = findFunction(driver, handle);
  if (!function)
    return CUDA_ERROR_INVALID_HANDLE;
  const ptx::Kernel &kernel = *function->kernel;
  if (extra || (!params && !kernel.params.empty()) ||
      !isValid(*function, grid, block, shared))
    return CUDA_ERROR_INVALID_VALUE;
  std::vector<uint8_t> values(kernel.paramBytes);
  for (size_t i = 0; i < kernel.params.size(); ++i)
    std::memcpy(values.data() + kernel.params[i].offset, params[i],
                kernel.params[i].bytes);
  // The module lives as long as the work.
  std::shared_ptr<LoadedModule> module;
  for (auto &[key, loaded] : driver.modules)
    if (loaded->functions.count(kernel.name) &&
        &loaded->functions.at(kernel.name) == function)
      module = loaded;
  ptx::Launch launch;
  launch.module = &module->module;
  launch.kernel = &kernel;
  launch.grid = grid;
  launch.block = block;
  launch.dynamicShared = shared;
  Work work;
  work.name = "kernel " + kernel.name + describe("grid", grid) +
              describe("block", block) + " shared=" + std::to_string(shared);
  work.run = [&driver, launch, module, values] {
    return runKernel(driver, launch, values);
  };
  return driver.enqueue(stream, std::move(work));
}

extern "C" {

MPC_EXPORT CUresult cuModuleLoadDataEx(CUmodule *module, const void *image,
                                       unsigned count, CUjit_option *options,
                                       void **values) {
  return call("cuModuleLoadDataEx", {{"options", count}}, Needs::Context,
              [&](Driver &d) {
                *module = nullptr;
                if (CUresult result = d.checkUnsafe())
                  return result;
                std::string log;
                CUresult result =
                    load(d, module, static_cast<const char *>(image), log);
                if (!log.empty())
                  d.environment.log("  " + log);
                writeLog(count, options, values, CU_JIT_ERROR_LOG_BUFFER,
                         CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, log);
                writeLog(count, options, values, CU_JIT_INFO_LOG_BUFFER,
                         CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, "");
                return result;
              });
}

MPC_EXPORT CUresult cuModuleLoadData(CUmodule *module, const void *image) {
  return cuModuleLoadDataEx(module, image, 0, nullptr, nullptr);
}

MPC_EXPORT CUresult cuModuleUnload(CUmodule module) {
  return call("cuModuleUnload", {{"module", module}}, Needs::Context,
              [&](Driver &d) {
                if (CUresult result = d.finish())
                  return result;
                auto found = d.modules.find(module);
                if (found == d.modules.end())
                  return CUDA_ERROR_INVALID_HANDLE;
                for (const ptx::GlobalMemory &global : module->module.globals)
                  d.memory.remove(reinterpret_cast<uint64_t>(global.address));
                d.modules.erase(found);
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuModuleGetFunction(CUfunction *function, CUmodule module,
                                        const char *name) {
  return call("cuModuleGetFunction", {{"name", std::string(name)}},
              Needs::Context, [&](Driver &d) {
                *function = nullptr;
                if (!d.modules.count(module))
                  return CUDA_ERROR_INVALID_HANDLE;
                auto found = module->functions.find(name);
                if (found == module->functions.end())
                  return CUDA_ERROR_NOT_FOUND;
                *function = &found->second;
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuModuleGetGlobal_v2(CUdeviceptr *address, size_t *bytes,
                                         CUmodule module, const char *name) {
  return call("cuModuleGetGlobal_v2", {{"name", std::string(name)}},
              Needs::Context, [&](Driver &d) {
                if (!d.modules.count(module))
                  return CUDA_ERROR_INVALID_HANDLE;
                for (const ptx::GlobalMemory &global : module->module.globals) {
                  if (global.name != name)
                    continue;
                  if (address)
                    *address = reinterpret_cast<uint64_t>(global.address);
                  if (bytes)
                    *bytes = global.bytes;
                  return CUDA_SUCCESS;
                }
                return CUDA_ERROR_NOT_FOUND;
              });
}

MPC_EXPORT CUresult cuFuncGetAttribute(int *value, CUfunction_attribute which,
                                       CUfunction handle) {
  return call("cuFuncGetAttribute", {{"attribute", which}}, Needs::Context,
              [&](Driver &d) {
                Function *function = findFunction(d, handle);
                if (!function)
                  return CUDA_ERROR_INVALID_HANDLE;
                const ptx::Kernel &kernel = *function->kernel;
                switch (which) {
                case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
                  *value = static_cast<int>(kernel.maxThreads);
                  return CUDA_SUCCESS;
                case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
                  *value = static_cast<int>(kernel.sharedBytes);
                  return CUDA_SUCCESS;
                case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
                  *value = static_cast<int>(kernel.localBytes);
                  return CUDA_SUCCESS;
                case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
                  *value = static_cast<int>(function->dynamicShared);
                  return CUDA_SUCCESS;
                default: // registers and the like: the kernel is not assembled
                  return CUDA_ERROR_INVALID_VALUE;
                }
              });
}

MPC_EXPORT CUresult cuFuncSetAttribute(CUfunction handle,
                                       CUfunction_attribute which, int value) {
  return call("cuFuncSetAttribute", {{"attribute", which}, {"value", value}},
              Needs::Context, [&](Driver &d) {
                Function *function = findFunction(d, handle);
                if (!function)
                  return CUDA_ERROR_INVALID_HANDLE;
                unsigned most = d.environment.device.sharedOptin();
                unsigned own = function->kernel->sharedBytes;
                if (which != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
                    value < 0 || static_cast<unsigned>(value) + own > most)
                  return CUDA_ERROR_INVALID_VALUE;
                function->dynamicShared = static_cast<unsigned>(value);
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned gridX,
                                   unsigned gridY, unsigned gridZ,
                                   unsigned blockX, unsigned blockY,
                                   unsigned blockZ, unsigned shared,
                                   CUstream stream, void **params,
                                   void **extra) {
  std::string name = "?";
  {
    Driver &driver = Driver::get();
    std::lock_guard<std::recursive_mutex> lock(driver.mutex);
    if (Function *known = findFunction(driver, function))
      name = known->kernel->name;
  }
  return call("cuLaunchKernel",
              {{"kernel", name},
               {"grid", gridX},
               {"block", blockX},
               {"shared", shared},
               {"stream", stream}},
              Needs::Context, [&](Driver &d) {
                return launch(d, function, {gridX, gridY, gridZ},
                              {blockX, blockY, blockZ}, shared, stream, params,
                              extra);
              });
}

} // extern "C"
