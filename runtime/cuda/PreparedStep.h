// A step of the plan, prepared for a GPU: kernels, addresses and the libraries'
// choices are resolved.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_PREPAREDSTEP_H
#define MPC_RUNTIME_CUDA_PREPAREDSTEP_H

#include "runtime/Plan.h"
#include "runtime/Status.h"
#include "runtime/cuda/DriverABI.h"

namespace mpc::runtime::cuda {

class CUDAStep {
public:
  virtual ~CUDAStep() = default;

  /// Enqueues the step's work on the stream, or captures it into a graph. Never
  /// waits for the GPU.
  virtual Status enqueue(Stream stream) = 0;

  /// Makes the stream wait for work that `enqueue` has begun on other streams.
  virtual Status join(Stream stream) { return Status(); }

  /// Returns the bytes that a run of the step sends to other ranks.
  virtual size_t bytesSent() const { return 0; }

  /// True if the step copies data, such as indices, to the host, where the data
  /// must be checked.
  virtual bool hasOutcome() const { return false; }
  /// Checks the copied data. Call after the GPU has finished the step.
  virtual Status getOutcome() { return Status(); }
};

/// A buffer with its address on the GPU.
struct DeviceOperand {
  DType type = DType::F32;
  void *data = nullptr;

  /// Returns the largest power of two, up to `limit`, that divides the address.
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
