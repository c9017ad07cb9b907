// Checks that indices, such as the ids for an embedding, are in range. The GPU
// copies the indices to the host, which checks them after the run.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_INDEXCHECK_H
#define MPC_RUNTIME_CUDA_INDEXCHECK_H

#include "runtime/cuda/Driver.h"
#include "runtime/cuda/PreparedStep.h"

namespace mpc::runtime::cuda {

class IndexCheck : public CUDAStep {
public:
  /// `from` is the address of the indices on the GPU. `step` and `buffer`
  /// belong to the plan, which must outlive the object.
  static StatusOr<std::unique_ptr<CUDAStep>>
  create(const CUDADriver &driver, const CheckIndicesStep &step,
         const Buffer &buffer, const void *from);
  ~IndexCheck() override;

  Status enqueue(Stream stream) override;
  bool hasOutcome() const override { return true; }
  Status getOutcome() override;

private:
  IndexCheck(const CUDADriver &driver, const CheckIndicesStep &step,
             const Buffer &buffer, const void *from)
      : driver(driver), step(step), buffer(buffer), from(from) {}

  const CUDADriver &driver;
  const CheckIndicesStep &step;
  const Buffer &buffer;
  const void *from;
  void *copy = nullptr; ///< pinned host memory, which a graph may write
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_INDEXCHECK_H
