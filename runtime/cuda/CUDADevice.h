// An NVIDIA GPU as a device: one stream, on which uploads, functions and
// downloads run in the order they were asked for, and a second one that brings
// the inputs' next values meanwhile.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_CUDADEVICE_H
#define MPC_RUNTIME_CUDA_CUDADEVICE_H

#include "runtime/Device.h"

namespace mpc::runtime {

class CUDADevice : public Device {
public:
  /// The GPU that the driver shows as number `index`; `artifact` outlives the
  /// device.
  static StatusOr<std::unique_ptr<Device>> create(const Artifact &artifact,
                                                  int index);

  /// The architecture of that GPU, as `--target` calls it: "sm_90".
  static StatusOr<std::string> architecture(int index);

  /// Success if GPU `index` can run code for `target` and the driver can
  /// compile PTX of the version in it; else Device with the reason.
  static Status checkTarget(int index, const Target &target);
  static bool hasDriver();

  ~CUDADevice() override;

  StatusOr<void *> allocate(size_t bytes) override;
  void release(void *memory) override;
  StatusOr<const void *> mapConstants(const void *host, size_t bytes) override;
  Status upload(void *device, const void *host, size_t bytes) override;
  Status download(void *host, const void *device, size_t bytes) override;
  Status download(const std::vector<Download> &pieces) override;
  StatusOr<std::unique_ptr<InputStage>> openStage(void *input,
                                                  size_t bytes) override;
  StatusOr<std::unique_ptr<Executable>>
  prepare(const Artifact &artifact, const Function &function,
          std::vector<void *> buffers) override;
  size_t scratchBytes() const override;
  Status synchronize() override;

private:
  struct Impl;
  explicit CUDADevice(std::unique_ptr<Impl> impl);
  Status load(const Artifact &artifact);
  std::unique_ptr<Impl> impl;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CUDA_CUDADEVICE_H
