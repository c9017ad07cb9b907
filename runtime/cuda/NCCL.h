// Exchanges memory of several GPUs with NCCL.
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
#include <vector>

namespace mpc::runtime::cuda {

/// The GPUs of all ranks, connected. Create and destroy the object while the
/// context of the GPU is current. Destroy all graphs with exchanges first.
///
/// Exchanges run in order on a stream of their own, beside the steps of the
/// function. A lost rank can block this stream forever, so the host waits for
/// the GPU by `CUDADriver::wait`, which calls `poll` meanwhile.
class NCCL {
public:
  using Duration = std::chrono::steady_clock::duration;

  /// Loads the library. A Device error without the library. `communicator`
  /// connects the processes of the ranks and must outlive the object; null
  /// reduces over this GPU alone. No wait for other ranks exceeds `timeout`.
  static StatusOr<std::unique_ptr<NCCL>>
  open(const CUDADriver &driver, Communicator *communicator, Duration timeout);
  ~NCCL();
  NCCL(const NCCL &) = delete;
  NCCL &operator=(const NCCL &) = delete;

  /// Connects the GPUs of all ranks; the communicator hands round the library's
  /// identifier. All ranks must call `connect` at the same time. A Rank error
  /// if another rank does not come.
  Status connect();

  /// Prepares a reduction in place of `count` elements. Unsupported for a
  /// maximum of floats, since the library's maximum loses NaN.
  StatusOr<std::unique_ptr<CUDAStep>> prepare(const DeviceOperand &operand,
                                              size_t count, Reduce kind);

  /// Prepare Communicator::reduceToOwners and Communicator::gatherFromOwners of
  /// parts in GPU memory. An exchange is one group of calls, a call for each
  /// part. Parts of 0 bytes are left out. The same errors as of `prepare`.
  StatusOr<std::unique_ptr<CUDAStep>>
  prepareReduceToOwners(std::vector<RankPart> parts, DType type, Reduce kind);
  StatusOr<std::unique_ptr<CUDAStep>>
  prepareGatherFromOwners(std::vector<RankPart> parts);

  /// Call before each run of steps that send `bytes` to other ranks. A Rank
  /// error if a rank is lost.
  Status beginRun(size_t bytes);

  /// A Rank error if a rank is lost, or if the host has waited longer than the
  /// timeout. Exchanges in flight end then, with undefined results, and no
  /// other exchange can begin.
  Status poll(Duration waited);

private:
  class Exchange;
  class AllReduction;
  class OwnerReduction;
  class OwnerGather;
  /// A reduction in the library's words, and the bytes of an element.
  struct Arithmetic {
    size_t width;
    NCCLType type;
    NCCLOperation operation;
  };

  NCCL(const CUDADriver &driver, Communicator *communicator, Duration timeout);
  Status load();
  Status createStream();
  Status settle(NCCLResult result, const std::string &what, Duration limit);
  StatusOr<Arithmetic> arithmeticOf(DType type, Reduce kind);
  StatusOr<NCCLOperation> operationOf(DType type, Reduce kind);
  template <typename Call>
  Status runGroup(const std::vector<RankPart> &parts, const std::string &what,
                  Call &&begin);
  Status fail(const std::string &what, const std::string &why);
  std::string describe(NCCLResult result) const;
  std::string me() const;

  const CUDADriver &driver;
  Communicator *communicator;
  const Duration timeout;
  const int rank, ranks;
  NCCLFunctions call;
  NCCLUniqueId id = {}; ///< made by rank 0
  NCCLHandle handle = nullptr;
  Stream stream = nullptr;
  std::map<DType, NCCLOperation> means;
  Status lost; ///< why no exchange can begin any more
};

/// Returns the failure of the lowest rank with a failure, with the rank in the
/// message; success if no rank failed. All ranks must call the function at the
/// same time. Null is a single rank.
Status agreeOnStart(Communicator *communicator, const Status &status);

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_NCCL_H
