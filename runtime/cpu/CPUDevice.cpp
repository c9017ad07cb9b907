// Implements the CPU device: the host's memory, and its workers.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUDevice.h"
#include "runtime/cpu/CPUExecutable.h"
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/Cores.h"
#include "runtime/cpu/ReductionQueue.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <cassert>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <system_error>

namespace mpc::runtime {

/// Rejects an artifact that needs instructions which this CPU lacks.
static Status checkTarget(const Target &target) {
  if (target.triple.rfind("x86_64", 0) != 0)
    return Status(StatusCode::Device, "the artifact is for '" + target.triple +
                                          "', this machine is x86_64; compile "
                                          "the model for this machine");
  std::vector<std::string> missing = missingFeatures(target.features);
  if (missing.empty())
    return Status();
  std::string list;
  for (const std::string &feature : missing)
    list += (list.empty() ? "" : ", ") + feature;
  return Status(StatusCode::Device,
                "the artifact was compiled for " + target.cpu +
                    " and needs CPU features this machine lacks: " + list +
                    "; compile the model here (--target native), or for a "
                    "lower target (--target x86-64-v3)");
}

StatusOr<std::unique_ptr<Device>>
CPUDevice::create(const DeviceOptions &options, const Artifact &artifact) {
  const Target &target = artifact.plan().target;
  if (Status status = checkThreads(options.threads); !status.ok())
    return status;
  if (Status status = checkTarget(target); !status.ok())
    return status;
  // Linux grants AMX tiles only to processes that ask.
  for (const std::string &feature : target.features)
    if (feature == "amx-tile")
      if (Status status = requestAMXPermission(); !status.ok())
        return status;

  std::unique_ptr<CPUDevice> device;
  // All functions share the threads and the library.
  try {
    device.reset(new CPUDevice(options.threads, options.communicator));
  } catch (const std::system_error &error) {
    return Status(StatusCode::IO, std::string("cannot start all threads: ") +
                                      error.what() +
                                      "; ask for fewer (--threads)");
  }
  if (const Communicator *ranks = options.communicator)
    device->division.emplace(artifact.plan(), ranks->rank(), ranks->size());
  else
    device->division.emplace(artifact.plan());
  StatusOr<std::unique_ptr<ContractionProvider>> provider =
      OneDNNProvider::create(target.features);
  if (!provider.ok())
    return provider.status();
  device->provider = std::move(*provider);
  if (Status status = device->allocatePrivate(
          findPrivateBytes(artifact.plan(), device->pool.size()));
      !status.ok())
    return status;
  return std::unique_ptr<Device>(std::move(device));
}

CPUDevice::CPUDevice(int threads, Communicator *ranks)
    : pool(threads), ranks(ranks) {
  if (ranks && ranks->size() > 1)
    queue = std::make_unique<ReductionQueue>(*ranks);
}

CPUDevice::~CPUDevice() {
  release(shared);
  release(perWorker);
  release(alone);
  release(privateMemory);
}

static Status outOfMemory(size_t bytes) {
  return Status(StatusCode::IO, "out of memory: cannot allocate " +
                                    std::to_string(bytes >> 20) +
                                    " MiB; use a smaller batch");
}

StatusOr<void *> CPUDevice::allocate(size_t bytes) {
  // Use large pages, as many as the memory fills entirely. A half-filled last
  // page, as for 9 MiB, would waste 1 MiB.
  constexpr size_t kLargePage = size_t(2) << 20;
  size_t alignment = bytes >= 2 * kLargePage ? kLargePage : 64;
  if (bytes > SIZE_MAX - alignment)
    return outOfMemory(bytes);
  // aligned_alloc requires a multiple of the alignment.
  size_t rounded =
      std::max(alignment, (bytes + alignment - 1) & ~(alignment - 1));
  void *memory = std::aligned_alloc(alignment, rounded);
  if (!memory)
    return outOfMemory(bytes);
  if (alignment == kLargePage)
    madvise(memory, bytes / kLargePage * kLargePage, MADV_HUGEPAGE);
  std::memset(memory, 0, bytes);
  return memory;
}

void CPUDevice::release(void *memory) { std::free(memory); }

StatusOr<const void *> CPUDevice::mapConstants(const void *host, size_t) {
  return host;
}

Status CPUDevice::upload(void *device, const void *host, size_t bytes) {
  if (bytes > 0)
    std::memcpy(device, host, bytes);
  return Status();
}

Status CPUDevice::download(void *host, const void *device, size_t bytes) {
  if (bytes > 0)
    std::memcpy(host, device, bytes);
  return Status();
}

Status CPUDevice::synchronize() { return Status(); }

size_t CPUDevice::scratchBytes() const {
  const auto workers = static_cast<size_t>(pool.size());
  return sharedSize + (perWorkerSize + aloneSize) * workers +
         privateSize * (workers - 1);
}

/// Allocates private memory for all workers but the first, which uses the
/// arena's. Workers get separate pages.
Status CPUDevice::allocatePrivate(int64_t bytes) {
  assert(!privateMemory && bytes >= 0 && "private memory is allocated once");
  const auto others = static_cast<size_t>(pool.size() - 1);
  if (bytes == 0 || others == 0)
    return Status();
  privateSize = (static_cast<size_t>(bytes) + 4095) & ~size_t(4095);
  StatusOr<void *> memory = allocate(privateSize * others);
  if (!memory.ok())
    return memory.status();
  privateMemory = static_cast<std::byte *>(*memory);
  return Status();
}

Status CPUDevice::reserveScratch(size_t forAll, size_t forEach,
                                 size_t forEachAlone) {
  auto grow = [&](std::byte *&memory, size_t &size, size_t needed,
                  size_t copies) {
    // The memory is as large as the largest request so far, in whole pages.
    if (needed <= size)
      return Status();
    needed = (needed + 4095) & ~size_t(4095);
    // Allocate before releasing, so that a failure leaves the device unchanged.
    StatusOr<void *> grown = allocate(needed * copies);
    if (!grown.ok())
      return grown.status();
    release(memory);
    memory = static_cast<std::byte *>(*grown);
    size = needed;
    return Status();
  };
  const auto workers = static_cast<size_t>(pool.size());
  if (Status status = grow(shared, sharedSize, forAll, 1); !status.ok())
    return status;
  // Each worker has memory of its own, so no worker waits for another.
  if (Status status = grow(perWorker, perWorkerSize, forEach, workers);
      !status.ok())
    return status;
  return grow(alone, aloneSize, forEachAlone, workers);
}

SliceContext CPUDevice::scratchOf(int worker) const {
  assert(worker >= 0 && worker < pool.size() && "a worker of the pool");
  return {worker, shared,
          perWorker + static_cast<size_t>(worker) * perWorkerSize};
}

SliceContext CPUDevice::scratchAlone(int worker) const {
  SliceContext context = scratchOf(worker);
  context.worker = 0;
  context.shared = alone + static_cast<size_t>(worker) * aloneSize;
  return context;
}

StatusOr<std::unique_ptr<Executable>>
CPUDevice::prepare(const Artifact &artifact, const Function &function,
                   std::vector<void *> buffers) {
  StatusOr<std::vector<PreparedStep>> steps =
      prepareSteps(*this, artifact, function, buffers);
  if (!steps.ok())
    return steps.status();
  return std::unique_ptr<Executable>(
      new CPUExecutable(*this, function, std::move(*steps)));
}

} // namespace mpc::runtime
