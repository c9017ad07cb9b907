// Reduces memory of several GPUs with NCCL.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_NCCL_H
#define MPC_RUNTIME_CUDA_NCCL_H

#include "runtime/Communicator.h"
#include "runtime/cuda/Driver.h"
#include "runtime/cuda/NCCLABI.h"
#include "runtime/cuda/PreparedStep.h"

#include <chrono>
#include <map>
#include <memory>

namespace mpc::runtime::cuda {

/// The GPUs of all ranks, connected. Create and destroy the object while the
/// context of the GPU is current. Destroy all graphs with reductions first.
///
/// Reductions run in order on a stream of their own, beside the steps of the
/// function. A lost rank can block this stream forever, so the host waits for
/// the GPU by `CUDADriver::wait`, which calls `poll` meanwhile.
class NCCL {
public:
  /// Loads the library and connects the GPUs of all ranks of `communicator`,
  /// which hands round the library's identifier. All ranks must call `connect`
  /// at the same time. A Device error without the library, a Rank error if
  /// another rank does not come. Null connects this GPU to itself alone.
  static StatusOr<std::unique_ptr<NCCL>> connect(const CUDADriver &driver,
                                                 Communicator *communicator);
  ~NCCL();
  NCCL(const NCCL &) = delete;
  NCCL &operator=(const NCCL &) = delete;

  /// Prepares a reduction in place of `count` elements.
  StatusOr<std::unique_ptr<CUDAStep>> prepare(const DeviceOperand &operand,
                                              size_t count, Reduce kind);

  /// Makes the stream wait for the last reduction that was enqueued before.
  std::unique_ptr<CUDAStep> prepareWait();

  /// A Rank error if a rank is lost, or if the host has waited longer than
  /// MPC_RANK_TIMEOUT seconds (600 by default). Reductions in flight end then,
  /// with undefined results, and no other reduction can begin.
  Status poll(std::chrono::steady_clock::duration waited);

private:
  class Reduction;
  class Wait;

  explicit NCCL(const CUDADriver &driver) : driver(driver) {}
  Status load();
  Status connect(Communicator *communicator);
  Status createStream();
  Status settle(NCCLResult result, const std::string &what,
                std::chrono::steady_clock::duration limit);
  StatusOr<NCCLOperation> operationOf(DType type, Reduce kind);
  Status fail(const std::string &what, const std::string &why);
  std::string describe(NCCLResult result) const;
  std::string me() const;

  const CUDADriver &driver;
  NCCLFunctions call;
  NCCLHandle handle = nullptr;
  int rank = 0, ranks = 1;
  Stream stream = nullptr;
  Event ready = nullptr; ///< the reduced buffer is complete
  Event done = nullptr;  ///< the last reduction has ended
  std::map<DType, NCCLOperation> means;
  std::chrono::steady_clock::duration limit;
  Status lost; ///< why no reduction can begin any more
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_NCCL_H
