// The host as a device: steps run one after the other, each shared among the
// workers by slices.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CPUDEVICE_H
#define MPC_RUNTIME_CPU_CPUDEVICE_H

#include "runtime/Device.h"
#include "runtime/cpu/Contraction.h"
#include "runtime/cpu/WorkerPool.h"

namespace mpc::runtime {

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
  const void *hostView(const void *device) const override { return device; }
  StatusOr<std::unique_ptr<Executable>>
  prepare(const Artifact &artifact, const Function &function,
          std::vector<void *> buffers) override;
  Status synchronize() override;
  size_t scratchBytes() const override;

  WorkerPool &workers() { return pool; }
  ContractionProvider &contractions() { return *provider; }

  /// Scratch memory that all steps share, one at a time: makes it large enough
  /// for one that needs this much for all workers and for each. Addresses hold
  /// until the next call.
  Status reserveScratch(size_t forAll, size_t forEach);
  SliceContext scratchOf(int worker) const;

private:
  explicit CPUDevice(int threads) : pool(threads) {}

  WorkerPool pool;
  std::unique_ptr<ContractionProvider> provider;
  size_t sharedSize = 0, perWorkerSize = 0;
  std::byte *shared = nullptr;
  std::byte *perWorker = nullptr;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CPUDEVICE_H
