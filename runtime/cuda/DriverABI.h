// The part of the CUDA driver's C ABI that the CUDA device uses.
//
// mpc has its own declarations, so builds with and without the CUDA toolkit
// give the same binary. The driver itself is found at run time.
// test/runtime/cuda/HeadersTest.cpp compares every value and signature with the
// toolkit's headers if they are installed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_DRIVERABI_H
#define MPC_RUNTIME_CUDA_DRIVERABI_H

#include <cstddef>
#include <cstdint>

namespace mpc::runtime::cuda {

/// CUresult. Only the values that mpc distinguishes have names.
enum class DriverResult : int {
  Success = 0,
  OutOfMemory = 2,
  NoDevice = 100,
  NoBinaryForGPU = 209,
  InvalidPTX = 218,
  UnsupportedPTXVersion = 222,
  NotFound = 500,
  NotReady = 600,
};

/// CUdevice_attribute.
enum class DeviceAttribute : int {
  MultiprocessorCount = 16,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedMemoryPerBlockOptin = 97,
};

/// CUjit_option.
enum class JITOption : int {
  ErrorLogBuffer = 5,
  ErrorLogBufferSizeBytes = 6,
};

/// CUfunction_attribute.
enum class FunctionAttribute : int { MaxDynamicSharedSizeBytes = 8 };

/// CUstreamCaptureMode.
enum class CaptureMode : int { ThreadLocal = 1 };

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDisableTiming = 2;
/// An event with this flag, captured in a graph, is recorded again by each
/// launch of the graph.
inline constexpr unsigned kEventRecordExternal = 1;

using DeviceOrdinal = int;               ///< CUdevice
using DevicePointer = uint64_t;          ///< CUdeviceptr
using Context = struct ContextTag *;     ///< CUcontext
using Stream = struct StreamTag *;       ///< CUstream and cudaStream_t
using Event = struct EventTag *;         ///< CUevent
using Module = struct ModuleTag *;       ///< CUmodule
using Kernel = struct KernelTag *;       ///< CUfunction
using Graph = struct GraphTag *;         ///< CUgraph
using GraphExec = struct GraphExecTag *; ///< CUgraphExec

// Lists the functions: X(member of DriverFunctions, symbol, parameters...). All
// return DriverResult.
#define MPC_CUDA_DRIVER_FUNCTIONS(X)                                           \
  X(init, cuInit, unsigned flags)                                              \
  X(driverGetVersion, cuDriverGetVersion, int *version)                        \
  X(getErrorName, cuGetErrorName, DriverResult error, const char **name)       \
  X(getErrorString, cuGetErrorString, DriverResult error, const char **text)   \
  X(deviceGetCount, cuDeviceGetCount, int *count)                              \
  X(deviceGet, cuDeviceGet, DeviceOrdinal *device, int ordinal)                \
  X(deviceGetName, cuDeviceGetName, char *name, int size,                      \
    DeviceOrdinal device)                                                      \
  X(deviceGetAttribute, cuDeviceGetAttribute, int *value,                      \
    DeviceAttribute attribute, DeviceOrdinal device)                           \
  X(primaryCtxRetain, cuDevicePrimaryCtxRetain, Context *context,              \
    DeviceOrdinal device)                                                      \
  X(ctxPushCurrent, cuCtxPushCurrent_v2, Context context)                      \
  X(ctxPopCurrent, cuCtxPopCurrent_v2, Context *context)                       \
  X(memAlloc, cuMemAlloc_v2, DevicePointer *memory, size_t bytes)              \
  X(memFree, cuMemFree_v2, DevicePointer memory)                               \
  X(memGetInfo, cuMemGetInfo_v2, size_t *free, size_t *total)                  \
  X(memHostAlloc, cuMemHostAlloc, void **memory, size_t bytes, unsigned flags) \
  X(memFreeHost, cuMemFreeHost, void *memory)                                  \
  X(memsetD8Async, cuMemsetD8Async, DevicePointer memory, unsigned char value, \
    size_t bytes, Stream stream)                                               \
  X(memcpyHtoDAsync, cuMemcpyHtoDAsync_v2, DevicePointer to, const void *from, \
    size_t bytes, Stream stream)                                               \
  X(memcpyDtoHAsync, cuMemcpyDtoHAsync_v2, void *to, DevicePointer from,       \
    size_t bytes, Stream stream)                                               \
  X(memcpyDtoDAsync, cuMemcpyDtoDAsync_v2, DevicePointer to,                   \
    DevicePointer from, size_t bytes, Stream stream)                           \
  X(streamCreate, cuStreamCreate, Stream *stream, unsigned flags)              \
  X(streamDestroy, cuStreamDestroy_v2, Stream stream)                          \
  X(streamSynchronize, cuStreamSynchronize, Stream stream)                     \
  X(streamQuery, cuStreamQuery, Stream stream)                                 \
  X(streamWaitEvent, cuStreamWaitEvent, Stream stream, Event event,            \
    unsigned flags)                                                            \
  X(streamBeginCapture, cuStreamBeginCapture_v2, Stream stream,                \
    CaptureMode mode)                                                          \
  X(streamEndCapture, cuStreamEndCapture, Stream stream, Graph *graph)         \
  X(eventCreate, cuEventCreate, Event *event, unsigned flags)                  \
  X(eventDestroy, cuEventDestroy_v2, Event event)                              \
  X(eventRecord, cuEventRecord, Event event, Stream stream)                    \
  X(eventRecordWithFlags, cuEventRecordWithFlags, Event event, Stream stream,  \
    unsigned flags)                                                            \
  X(eventElapsedTime, cuEventElapsedTime, float *milliseconds, Event begin,    \
    Event end)                                                                 \
  X(eventSynchronize, cuEventSynchronize, Event event)                         \
  X(eventQuery, cuEventQuery, Event event)                                     \
  X(moduleLoadDataEx, cuModuleLoadDataEx, Module *module, const void *image,   \
    unsigned count, JITOption *options, void **values)                         \
  X(moduleUnload, cuModuleUnload, Module module)                               \
  X(moduleGetFunction, cuModuleGetFunction, Kernel *kernel, Module module,     \
    const char *name)                                                          \
  X(funcSetAttribute, cuFuncSetAttribute, Kernel kernel,                       \
    FunctionAttribute attribute, int value)                                    \
  X(launchKernel, cuLaunchKernel, Kernel kernel, unsigned gridX,               \
    unsigned gridY, unsigned gridZ, unsigned blockX, unsigned blockY,          \
    unsigned blockZ, unsigned sharedBytes, Stream stream, void **parameters,   \
    void **extra)                                                              \
  X(graphInstantiate, cuGraphInstantiateWithFlags, GraphExec *executable,      \
    Graph graph, unsigned long long flags)                                     \
  X(graphLaunch, cuGraphLaunch, GraphExec executable, Stream stream)           \
  X(graphExecDestroy, cuGraphExecDestroy, GraphExec executable)                \
  X(graphDestroy, cuGraphDestroy, Graph graph)

/// The functions of the loaded driver. All are set once the driver is open.
struct DriverFunctions {
#define MPC_CUDA_DECLARE(member, symbol, ...)                                  \
  DriverResult (*member)(__VA_ARGS__) = nullptr;
  MPC_CUDA_DRIVER_FUNCTIONS(MPC_CUDA_DECLARE)
#undef MPC_CUDA_DECLARE
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_DRIVERABI_H
