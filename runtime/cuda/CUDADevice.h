// An NVIDIA GPU as a device. Uploads, functions and downloads run in order on
// one stream. Meanwhile, a second stream copies the inputs' next values, and a
// third one runs the reductions over the ranks of a distributed run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_CUDADEVICE_H
#define MPC_RUNTIME_CUDA_CUDADEVICE_H

#include "runtime/Device.h"

namespace mpc::runtime {

class CUDADevice : public Device {
public:
  /// Opens the GPU with the driver's number `index`, and, if functions exchange
  /// data with the ranks of `options`, connects the GPUs of all ranks. A
  /// failure before the connection has the same message on all ranks.
  /// `artifact` must outlive the device.
  static StatusOr<std::unique_ptr<Device>>
  create(const DeviceOptions &options, const Artifact &artifact, int index);

  /// Returns the GPU's architecture, as `--target` names it: "sm_90".
  static StatusOr<std::string> architecture(int index);

  /// Checks that GPU `index` can run code for `target`, and that the driver can
  /// compile the target's version of PTX. A Device error with the reason if
  /// not.
  static Status checkTarget(int index, const Target &target);
  static Status checkAttention(int index);
  static bool hasDriver();

  ~CUDADevice() override;

  StatusOr<void *> allocate(size_t bytes) override;
  void release(void *memory) override;
  StatusOr<const void *> mapConstants(const void *host, size_t bytes) override;
  Status upload(void *device, const void *host, size_t bytes) override;
  Status download(void *host, const void *device, size_t bytes) override;
  Status download(const std::vector<Download> &blocks) override;
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
  static StatusOr<std::unique_ptr<CUDADevice>>
  open(const Artifact &artifact, int index, const Communicator *communicator);
  Status load(const Artifact &artifact);
  Status openNCCL(Communicator *communicator,
                  std::chrono::milliseconds timeout);
  Status connectNCCL();
  std::unique_ptr<Impl> impl;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CUDA_CUDADEVICE_H
