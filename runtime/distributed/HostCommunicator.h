// Builds the collectives of a Communicator from a library's calls to move
// bytes.
//
// A library orders sums by the size of the data, and MPI has no 16-bit floats.
// So mpc adds the elements. For an all-reduce, each rank gets its share of the
// elements from all ranks, adds the parts in the order of the ranks, and sends
// the sums to all ranks. The wire carries as many bytes as with a ring, in the
// width of the elements.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_HOSTCOMMUNICATOR_H
#define MPC_RUNTIME_DISTRIBUTED_HOSTCOMMUNICATOR_H

#include "runtime/Communicator.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace mpc::runtime {

class SharedCollectives;

class HostCommunicator : public Communicator {
public:
  ~HostCommunicator() override;
  Status allReduce(void *data, size_t count, DType type, Reduce kind) final;
  Status allReduceRows(void *data, size_t rows, size_t rowElements, DType type,
                       Reduce kind) final;
  Status reduceScatter(void *data, size_t count, DType type, Reduce kind) final;
  Status allGather(void *data, size_t bytes) final;
  Status reduceToOwners(const std::vector<RankPart> &parts, DType type,
                        Reduce kind) final;
  Status gatherFromOwners(const std::vector<RankPart> &parts) final;
  Status broadcast(void *data, size_t bytes, int root) final;
  Status barrier() final;
  size_t bytesSent() const final;

protected:
  HostCommunicator(int rank, int size);

  /// From now on, moves data through memory that all ranks share, if all ranks
  /// can open it: they run on one machine, in one name space of processes. All
  /// ranks must make the call. A library that calls this has `checkWait`.
  Status shareMemory();
  /// True if the data go through memory that all ranks share.
  bool sharesMemory() const { return shared != nullptr; }
  /// Called before a collective, with -1, and every few milliseconds while the
  /// rank waits in shared memory for the rank `awaited` since `start`. Returns
  /// an error after a failure of any rank, or if the wait takes too long.
  virtual Status checkWait(std::chrono::steady_clock::time_point start,
                           int awaited);

  // The calls of the library. All ranks make the same calls with the same
  // sizes. No size exceeds 1 GiB.

  /// Sends block r of `from` to rank r, and receives block r of `to` from rank
  /// r. Each block has `bytes`.
  virtual Status exchangeBlocks(const std::byte *from, std::byte *to,
                                size_t bytes) = 0;
  /// Gives every rank the blocks of all ranks. The own block is in place.
  virtual Status gatherBlocks(std::byte *data, size_t bytes) = 0;
  /// Gives every rank the block of the rank `root`.
  virtual Status broadcastBlock(std::byte *data, size_t bytes, int root) = 0;
  /// Sends sizes[r] bytes to each rank r, and receives sizes[rank()] bytes from
  /// each rank. The blocks in `from` and in `to` lie side by side, in the order
  /// of the ranks. Unless overridden, sends blocks of the largest size.
  virtual Status exchangeUneven(const std::byte *from, std::byte *to,
                                const std::vector<size_t> &sizes);
  /// Gives every rank the blocks of all ranks, sizes[r] bytes of rank r, side
  /// by side. The own block is in place. Unless overridden, sends blocks of the
  /// largest size.
  virtual Status gatherUneven(std::byte *data,
                              const std::vector<size_t> &sizes);
  /// Counts bytes that an override of the last two functions sends.
  void countSent(size_t bytes) { sent += bytes; }
  /// Returns once all ranks have called.
  virtual Status waitForAll() = 0;

  /// Names the running collective, for messages: "all_reduce of 4096
  /// bytes".
  std::string describeCall() const;

private:
  Status exchange(const std::byte *from, std::byte *to, size_t bytes);
  Status gather(std::byte *data, size_t bytes);
  Status broadcastAll(std::byte *data, size_t bytes, int root);
  Status reduceInPlace(std::byte *data, size_t count, DType type, Reduce kind);
  Status reduceGathered(std::byte *data, size_t count, DType type, Reduce kind);
  Status reducePadded(std::byte *data, size_t count, DType type, Reduce kind);
  size_t elementsPerBlock(DType type) const;

  const char *callName = "";
  size_t callBytes = 0;
  size_t sent = 0; ///< through the library
  std::unique_ptr<SharedCollectives> shared;
  std::vector<std::byte> received, packed, padded; ///< scratch memory
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_HOSTCOMMUNICATOR_H
