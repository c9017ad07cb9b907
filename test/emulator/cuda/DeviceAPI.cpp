// Entry points: initialisation, devices, contexts, errors.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Driver.h"

#include <cstring>

using namespace mpc::emulator;

static const std::map<int, std::pair<const char *, const char *>> kErrors = {
    {0, {"CUDA_SUCCESS", "no error"}},
    {1, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
    {2, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
    {3, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
    {100, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
    {101, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
    {200, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
    {201, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
    {209,
     {"CUDA_ERROR_NO_BINARY_FOR_GPU",
      "no kernel image is available for execution on the device"}},
    {218, {"CUDA_ERROR_INVALID_PTX", "a PTX JIT compilation failed"}},
    {222,
     {"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
      "the provided PTX was compiled with an unsupported toolchain."}},
    {400, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
    {500, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
    {600, {"CUDA_ERROR_NOT_READY", "device not ready"}},
    {700,
     {"CUDA_ERROR_ILLEGAL_ADDRESS",
      "an illegal memory access was encountered"}},
    {701,
     {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES",
      "too many resources requested for launch"}},
    {702,
     {"CUDA_ERROR_LAUNCH_TIMEOUT", "the launch timed out and was terminated"}},
    {716, {"CUDA_ERROR_MISALIGNED_ADDRESS", "misaligned address"}},
    {719, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
    {800, {"CUDA_ERROR_NOT_PERMITTED", "operation not permitted"}},
    {801, {"CUDA_ERROR_NOT_SUPPORTED", "operation not supported"}},
    {900,
     {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED",
      "operation not permitted when stream is capturing"}},
    {901,
     {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
      "operation failed due to a previous error during capture"}},
    {903,
     {"CUDA_ERROR_STREAM_CAPTURE_UNMATCHED",
      "capture was not initiated in this stream"}},
    {904,
     {"CUDA_ERROR_STREAM_CAPTURE_UNJOINED",
      "the capture was not rejoined to its original stream"}},
    {905,
     {"CUDA_ERROR_STREAM_CAPTURE_ISOLATION",
      "dependency created on uncaptured work in another stream"}},
    {906,
     {"CUDA_ERROR_STREAM_CAPTURE_IMPLICIT",
      "operation would make the legacy stream depend on a capturing blocking "
      "stream"}},
    {907,
     {"CUDA_ERROR_CAPTURED_EVENT",
      "operation not permitted on an event last recorded in a capturing "
      "stream"}},
    {908,
     {"CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD",
      "attempt to terminate a thread-local capture sequence from another "
      "thread"}},
    {999, {"CUDA_ERROR_UNKNOWN", "unknown error"}},
};

/// The value of an attribute on which a program may base a decision.
static std::optional<int> attribute(const DeviceProperties &device, int which) {
  switch (which) {
  case 1: // threads of a block, and along x and y
  case 2:
  case 3:
    return 1024;
  case 4:
    return 64;
  case 5: // blocks along x, y and z
    return 2147483647;
  case 6:
  case 7:
    return 65535;
  case 8: // shared memory of a block
    return 48 << 10;
  case 9: // constant memory
    return 64 << 10;
  case 10: // warp size
    return 32;
  case 12: // registers of a block
  case 82: // registers of a multiprocessor
    return 65536;
  case 13: // clock, kHz
    return 1410000;
  case 14: // texture alignment
    return 512;
  case 16:
    return device.multiprocessors;
  case 36: // memory clock, kHz
    return 1215000;
  case 37: // bits of the memory's bus
    return 5120;
  case 38: // second-level cache
    return 40 << 20;
  case 39: // threads of a multiprocessor
    return 2048;
  case 40: // copy engines
    return 3;
  case 75:
    return device.major;
  case 76:
    return device.minor;
  case 81: // shared memory of a multiprocessor
    return static_cast<int>(device.sharedOptin() + 1024);
  case 97: // opt-in shared memory of a block
    return static_cast<int>(device.sharedOptin());
  case 106: // blocks of a multiprocessor
    return 32;
  case 111: // reserved shared memory of a block
    return 1024;
  case 19: // mapped host memory, concurrent kernels, unified addressing,
  case 31: // preemption, cooperative launches, memory pools
  case 41:
  case 90:
  case 95:
  case 115:
    return 1;
  case 17: // run time limit, integrated, compute mode, ECC, and so on
  case 18:
  case 20:
  case 32:
  case 33:
  case 34:
  case 35:
  case 50:
  case 83:
  case 88:
  case 89:
    return 0;
  default:
    return std::nullopt;
  }
}

static CUresult checkDevice(CUdevice device) {
  const int count = Driver::get().environment.device.count;
  return device >= 0 && device < count ? CUDA_SUCCESS
                                       : CUDA_ERROR_INVALID_DEVICE;
}

/// True if a thread may work in the context.
static bool isAlive(Driver &driver, CUcontext context) {
  for (const Context &known : driver.contexts)
    if (&known == context)
      return known.users > 0;
  return false;
}

extern "C" {

MPC_EXPORT CUresult cuGetErrorName(CUresult error, const char **name) {
  auto found = kErrors.find(error);
  *name = found == kErrors.end() ? nullptr : found->second.first;
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

MPC_EXPORT CUresult cuGetErrorString(CUresult error, const char **text) {
  auto found = kErrors.find(error);
  *text = found == kErrors.end() ? nullptr : found->second.second;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

MPC_EXPORT CUresult cuInit(unsigned flags) {
  return call("cuInit", {{"flags", flags}}, Needs::Nothing, [&](Driver &d) {
    if (flags)
      return CUDA_ERROR_INVALID_VALUE;
    if (!d.environment.device.exists)
      return CUDA_ERROR_NO_DEVICE;
    d.isInitialized = true;
    d.contexts.resize(static_cast<size_t>(d.environment.device.count));
    for (size_t i = 0; i < d.contexts.size(); ++i)
      d.contexts[i].device = static_cast<CUdevice>(i);
    return CUDA_SUCCESS;
  });
}

MPC_EXPORT CUresult cuDriverGetVersion(int *version) {
  return call("cuDriverGetVersion", {}, Needs::Nothing, [&](Driver &d) {
    *version = d.environment.device.driverVersion;
    return CUDA_SUCCESS;
  });
}

MPC_EXPORT CUresult cuDeviceGetCount(int *count) {
  return call("cuDeviceGetCount", {}, Needs::Init, [&](Driver &d) {
    *count = d.environment.device.count;
    return CUDA_SUCCESS;
  });
}

MPC_EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  return call("cuDeviceGet", {{"ordinal", ordinal}}, Needs::Init,
              [&](Driver &) {
                *device = ordinal;
                return checkDevice(ordinal);
              });
}

MPC_EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice device) {
  return call("cuDeviceGetName", {}, Needs::Init, [&](Driver &d) {
    const DeviceProperties &properties = d.environment.device;
    std::snprintf(name, static_cast<size_t>(size), "Emulated GPU (sm_%d%d)",
                  properties.major, properties.minor);
    return checkDevice(device);
  });
}

MPC_EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  return call("cuDeviceGetUuid_v2", {}, Needs::Init, [&](Driver &) {
    std::memset(uuid->bytes, 0x6d, sizeof(uuid->bytes));
    return checkDevice(device);
  });
}

MPC_EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
  return call("cuDeviceTotalMem_v2", {}, Needs::Init, [&](Driver &d) {
    *bytes = d.environment.device.memory;
    return checkDevice(device);
  });
}

MPC_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute which,
                                         CUdevice device) {
  return call("cuDeviceGetAttribute", {{"attribute", which}}, Needs::Init,
              [&](Driver &d) {
                if (CUresult result = checkDevice(device))
                  return result;
                std::optional<int> known =
                    attribute(d.environment.device, which);
                if (!known)
                  return CUDA_ERROR_INVALID_VALUE;
                *value = *known;
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context,
                                             CUdevice device) {
  return call("cuDevicePrimaryCtxRetain", {{"device", device}}, Needs::Init,
              [&](Driver &d) {
                if (CUresult result = checkDevice(device))
                  return result;
                Context &primary = d.contexts[static_cast<size_t>(device)];
                ++primary.users;
                *context = &primary;
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return call("cuDevicePrimaryCtxRelease_v2", {{"device", device}}, Needs::Init,
              [&](Driver &d) {
                if (CUresult result = checkDevice(device))
                  return result;
                Context &primary = d.contexts[static_cast<size_t>(device)];
                if (!primary.users)
                  return CUDA_ERROR_INVALID_CONTEXT;
                // A new context works again.
                if (--primary.users == 0) {
                  d.finish();
                  d.lost = CUDA_SUCCESS;
                }
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuCtxSetCurrent(CUcontext context) {
  return call("cuCtxSetCurrent", {{"context", context}}, Needs::Init,
              [&](Driver &d) {
                if (context && !isAlive(d, context))
                  return CUDA_ERROR_INVALID_CONTEXT;
                std::vector<Context *> &stack = contextStack();
                if (!stack.empty())
                  stack.pop_back();
                if (context)
                  stack.push_back(context);
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuCtxPushCurrent_v2(CUcontext context) {
  return call("cuCtxPushCurrent_v2", {{"context", context}}, Needs::Init,
              [&](Driver &d) {
                if (!isAlive(d, context))
                  return CUDA_ERROR_INVALID_CONTEXT;
                contextStack().push_back(context);
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  return call("cuCtxPopCurrent_v2", {}, Needs::Init, [&](Driver &) {
    std::vector<Context *> &stack = contextStack();
    if (stack.empty())
      return CUDA_ERROR_INVALID_CONTEXT;
    *context = stack.back();
    stack.pop_back();
    return CUDA_SUCCESS;
  });
}

MPC_EXPORT CUresult cuCtxGetCurrent(CUcontext *context) {
  return call("cuCtxGetCurrent", {}, Needs::Init, [&](Driver &) {
    *context = currentContext();
    return CUDA_SUCCESS;
  });
}

MPC_EXPORT CUresult cuCtxGetDevice(CUdevice *device) {
  return call("cuCtxGetDevice", {}, Needs::Context, [&](Driver &) {
    *device = currentContext()->device;
    return CUDA_SUCCESS;
  });
}

MPC_EXPORT CUresult cuCtxSynchronize() {
  return call("cuCtxSynchronize", {}, Needs::Context, [&](Driver &d) {
    for (auto &[handle, stream] : d.streams)
      if (CUresult result = d.checkWait(*stream))
        return result;
    return d.finish();
  });
}

} // extern "C"
