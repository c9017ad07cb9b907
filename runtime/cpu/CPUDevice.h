// The host as a device. Steps run one after the other; workers share the slices
// of each step.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CPUDEVICE_H
#define MPC_RUNTIME_CPU_CPUDEVICE_H

#include "runtime/Device.h"
#include "runtime/cpu/Contraction.h"
#include "runtime/cpu/WorkerPool.h"

namespace mpc::runtime {

class ReductionQueue;

class CPUDevice : public Device {
public:
  static StatusOr<std::unique_ptr<Device>> create(const DeviceOptions &options,
                                                  const Artifact &artifact);
  ~CPUDevice() override;

  StatusOr<void *> allocate(size_t bytes) override;
  void release(void *memory) override;
  StatusOr<const void *> mapConstants(const void *host, size_t bytes) override;
  Status upload(void *device, const void *host, size_t bytes) override;
  Status download(void *host, const void *device, size_t bytes) override;
  using Device::download;
  const void *hostView(const void *device) const override { return device; }
  StatusOr<std::unique_ptr<Executable>>
  prepare(const Artifact &artifact, const Function &function,
          std::vector<void *> buffers) override;
  Status synchronize() override;
  size_t scratchBytes() const override;

  WorkerPool &workers() { return pool; }
  ContractionProvider &contractions() { return *provider; }
  /// Connects the ranks; null for one rank.
  Communicator *communicator() const { return ranks; }
  /// Runs exchanges with other ranks beside other steps; null for one rank.
  ReductionQueue *reductions() const { return queue.get(); }
  /// The parameters that each rank updates.
  const StateShares &shares() const { return *division; }

  /// Grows the scratch memory, which all steps share, since only one step runs
  /// at a time. A step needs `forAll` bytes in common and `forEach` bytes per
  /// worker. A worker that runs a step alone needs `forEachAlone` bytes in
  /// place of the common memory. All addresses are valid until the next call.
  Status reserveScratch(size_t forAll, size_t forEach, size_t forEachAlone = 0);
  SliceContext scratchOf(int worker) const;
  /// Returns the scratch memory for a step that `worker` runs alone, in a loop
  /// with parallel iterations. The step was prepared for a single worker, so
  /// the returned context's worker is 0.
  SliceContext scratchAlone(int worker) const;
  /// Returns the memory that worker 1, 2, ... uses as a loop's private memory.
  std::byte *privateMemoryOf(int worker) const {
    return privateMemory + static_cast<size_t>(worker - 1) * privateSize;
  }

private:
  CPUDevice(int threads, Communicator *ranks);
  Status allocatePrivate(int64_t bytes);

  WorkerPool pool;
  std::unique_ptr<ContractionProvider> provider;
  Communicator *ranks = nullptr;
  std::unique_ptr<ReductionQueue> queue;
  std::optional<StateShares> division;
  size_t sharedSize = 0, perWorkerSize = 0, aloneSize = 0, privateSize = 0;
  std::byte *shared = nullptr;
  std::byte *perWorker = nullptr;
  std::byte *alone = nullptr;
  std::byte *privateMemory = nullptr;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CPUDEVICE_H
