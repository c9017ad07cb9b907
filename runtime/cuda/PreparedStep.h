// A step of the plan made ready to run on a GPU: kernel, addresses and the
// library's choices resolved.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_PREPAREDSTEP_H
#define MPC_RUNTIME_CUDA_PREPAREDSTEP_H

#include "runtime/Plan.h"
#include "runtime/Status.h"
#include "runtime/cuda/DriverABI.h"

namespace mpc::runtime::cuda {

class PreparedStep {
public:
  virtual ~PreparedStep() = default;

  /// Puts the step's work on the stream, or into the graph that is being
  /// captured from it. Never waits for the GPU.
  virtual Status enqueue(Stream stream) = 0;

  /// Whether the host has to look at what the step left there.
  virtual bool hasOutcome() const { return false; }
  /// What it finds, once the GPU has done the step.
  virtual Status getOutcome() { return Status(); }
};

/// A buffer with its address on the GPU.
struct DeviceOperand {
  DType type = DType::F32;
  void *data = nullptr;

  /// The largest power of two, up to `limit`, that divides the address.
  uint32_t alignment(uint32_t limit) const {
    auto address = reinterpret_cast<uintptr_t>(data);
    uint32_t alignment = limit;
    while (address % alignment != 0)
      alignment /= 2;
    return alignment;
  }
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_PREPAREDSTEP_H
