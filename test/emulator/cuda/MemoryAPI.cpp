// Entry points: memory, copies.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/cuda/Driver.h"

#include <cstring>

using namespace mpc::emulator;

static void *pointer(uint64_t address) {
  return reinterpret_cast<void *>(address);
}

static uint64_t addressOf(const void *memory) {
  return reinterpret_cast<uint64_t>(memory);
}

/// Enqueues work that writes `to` and reads `from` (0: no device memory).
/// Either may be freed before it runs.
static CUresult enqueueAccess(Driver &driver, CUstream stream, const char *name,
                              uint64_t to, uint64_t from, size_t bytes,
                              std::function<void()> access) {
  Work work;
  work.name = std::string(name) + " bytes=" + std::to_string(bytes);
  work.run = [=, &driver] {
    if ((to && !driver.memory.contains(to, bytes)) ||
        (from && !driver.memory.contains(from, bytes)))
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    access();
    return CUDA_SUCCESS;
  };
  if (to)
    work.touched.push_back({to, to + bytes, /*isWritten=*/true});
  if (from)
    work.touched.push_back({from, from + bytes, /*isWritten=*/false});
  return driver.enqueue(stream, std::move(work));
}

/// A synchronous copy through the legacy stream, followed by a wait.
static CUresult copyNow(Driver &driver, uint64_t to, uint64_t from, void *host,
                        const void *hostFrom, size_t bytes) {
  if (CUresult result = driver.checkUnsafe())
    return result;
  if (CUresult result = driver.finish())
    return result;
  if ((to && !driver.memory.contains(to, bytes)) ||
      (from && !driver.memory.contains(from, bytes)))
    return CUDA_ERROR_INVALID_VALUE;
  std::memmove(to ? pointer(to) : host, from ? pointer(from) : hostFrom, bytes);
  return CUDA_SUCCESS;
}

extern "C" {

MPC_EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  return call("cuMemGetInfo_v2", {}, Needs::Context, [&](Driver &d) {
    *total = d.environment.device.memory;
    *free = *total - d.memory.used();
    return CUDA_SUCCESS;
  });
}

MPC_EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
  return call(
      "cuMemAlloc_v2", {{"bytes", bytes}}, Needs::Context, [&](Driver &d) {
        if (!bytes)
          return CUDA_ERROR_INVALID_VALUE;
        if (CUresult result = d.checkUnsafe())
          return result;
        *address = d.memory.allocate(bytes, d.environment.device.memory);
        return *address ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
      });
}

MPC_EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  return call(
      "cuMemFree_v2", {{"address", address}}, Needs::Context, [&](Driver &d) {
        if (!address)
          return CUDA_SUCCESS;
        if (CUresult result = d.checkUnsafe())
          return result;
        if (CUresult result = d.finish()) // freeing waits
          return result;
        return d.memory.free(address) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
      });
}

MPC_EXPORT CUresult cuMemHostAlloc(void **memory, size_t bytes,
                                   unsigned flags) {
  return call("cuMemHostAlloc", {{"bytes", bytes}, {"flags", flags}},
              Needs::Context, [&](Driver &d) {
                if (!bytes || flags > 7)
                  return CUDA_ERROR_INVALID_VALUE;
                if (CUresult result = d.checkUnsafe())
                  return result;
                constexpr size_t kAlignment = 4096;
                std::unique_ptr<uint8_t[]> storage(
                    new (std::nothrow) uint8_t[bytes + kAlignment]);
                if (!storage)
                  return CUDA_ERROR_OUT_OF_MEMORY;
                uint64_t begin = addressOf(storage.get());
                begin = (begin + kAlignment - 1) & ~(kAlignment - 1);
                *memory = pointer(begin);
                d.hostMemory[*memory] = std::move(storage);
                d.memory.add({begin, begin + bytes});
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuMemAllocHost_v2(void **memory, size_t bytes) {
  return cuMemHostAlloc(memory, bytes, 0);
}

MPC_EXPORT CUresult cuMemFreeHost(void *memory) {
  return call("cuMemFreeHost", {{"memory", memory}}, Needs::Context,
              [&](Driver &d) {
                if (CUresult result = d.checkUnsafe())
                  return result;
                if (CUresult result = d.finish())
                  return result;
                if (!d.hostMemory.erase(memory))
                  return CUDA_ERROR_INVALID_VALUE;
                d.memory.remove(addressOf(memory));
                return CUDA_SUCCESS;
              });
}

MPC_EXPORT CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from,
                                         size_t bytes, CUstream stream) {
  return call(
      "cuMemcpyHtoDAsync_v2", {{"bytes", bytes}, {"stream", stream}},
      Needs::Context, [&](Driver &d) {
        if (!d.memory.contains(to, bytes))
          return CUDA_ERROR_INVALID_VALUE;
        // Pinned memory, and all memory in a graph, is read when the copy runs.
        // Other memory is staged now.
        Stream *target = d.find(stream);
        bool isPinned = d.memory.contains(addressOf(from), bytes);
        bool isCaptured = target && target->capture;
        if (isPinned || isCaptured)
          return enqueueAccess(d, stream, "cuMemcpyHtoDAsync_v2", to,
                               isPinned ? addressOf(from) : 0, bytes,
                               [=] { std::memcpy(pointer(to), from, bytes); });
        const uint8_t *first = static_cast<const uint8_t *>(from);
        auto staged =
            std::make_shared<std::vector<uint8_t>>(first, first + bytes);
        return enqueueAccess(
            d, stream, "cuMemcpyHtoDAsync_v2", to, 0, bytes,
            [=] { std::memcpy(pointer(to), staged->data(), bytes); });
      });
}

MPC_EXPORT CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from,
                                         size_t bytes, CUstream stream) {
  return call("cuMemcpyDtoHAsync_v2", {{"bytes", bytes}, {"stream", stream}},
              Needs::Context, [&](Driver &d) {
                if (!d.memory.contains(from, bytes))
                  return CUDA_ERROR_INVALID_VALUE;
                Stream *target = d.find(stream);
                bool isPinned = d.memory.contains(addressOf(to), bytes);
                CUresult result = enqueueAccess(
                    d, stream, "cuMemcpyDtoHAsync_v2",
                    isPinned ? addressOf(to) : 0, from, bytes,
                    [=] { std::memcpy(to, pointer(from), bytes); });
                // A copy into pageable memory returns when it is done.
                if (result || isPinned || target->capture)
                  return result;
                return d.finish(d.queueOf(*target));
              });
}

MPC_EXPORT CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from,
                                         size_t bytes, CUstream stream) {
  return call("cuMemcpyDtoDAsync_v2", {{"bytes", bytes}, {"stream", stream}},
              Needs::Context, [&](Driver &d) {
                if (!d.memory.contains(to, bytes) ||
                    !d.memory.contains(from, bytes))
                  return CUDA_ERROR_INVALID_VALUE;
                return enqueueAccess(
                    d, stream, "cuMemcpyDtoDAsync_v2", to, from, bytes,
                    [=] { std::memmove(pointer(to), pointer(from), bytes); });
              });
}

MPC_EXPORT CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from,
                                    size_t bytes) {
  return call(
      "cuMemcpyHtoD_v2", {{"bytes", bytes}}, Needs::Context,
      [&](Driver &d) { return copyNow(d, to, 0, nullptr, from, bytes); });
}

MPC_EXPORT CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t bytes) {
  return call(
      "cuMemcpyDtoH_v2", {{"bytes", bytes}}, Needs::Context,
      [&](Driver &d) { return copyNow(d, 0, from, to, nullptr, bytes); });
}

MPC_EXPORT CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from,
                                    size_t bytes) {
  return call(
      "cuMemcpyDtoD_v2", {{"bytes", bytes}}, Needs::Context,
      [&](Driver &d) { return copyNow(d, to, from, nullptr, nullptr, bytes); });
}

MPC_EXPORT CUresult cuMemsetD8Async(CUdeviceptr to, unsigned char value,
                                    size_t bytes, CUstream stream) {
  return call("cuMemsetD8Async",
              {{"value", value}, {"bytes", bytes}, {"stream", stream}},
              Needs::Context, [&](Driver &d) {
                if (!d.memory.contains(to, bytes))
                  return CUDA_ERROR_INVALID_VALUE;
                return enqueueAccess(
                    d, stream, "cuMemsetD8Async", to, 0, bytes,
                    [=] { std::memset(pointer(to), value, bytes); });
              });
}

MPC_EXPORT CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value,
                                     size_t count, CUstream stream) {
  return call("cuMemsetD32Async",
              {{"value", value}, {"count", count}, {"stream", stream}},
              Needs::Context, [&](Driver &d) {
                if (to % 4 || !d.memory.contains(to, count * 4))
                  return CUDA_ERROR_INVALID_VALUE;
                return enqueueAccess(
                    d, stream, "cuMemsetD32Async", to, 0, count * 4, [=] {
                      std::fill_n(static_cast<uint32_t *>(pointer(to)), count,
                                  value);
                    });
              });
}

} // extern "C"
