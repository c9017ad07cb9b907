// Collectives of the ranks on one machine, through memory that they share.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_SHAREDCOLLECTIVES_H
#define MPC_RUNTIME_DISTRIBUTED_SHAREDCOLLECTIVES_H

#include "runtime/distributed/SharedBlocks.h"

#include <functional>

namespace mpc::runtime {

/// The functions do what the functions of Communicator with these names do, and
/// have the same parameters. All ranks make equal calls, in equal order. After
/// an error, no function may be called.
class SharedCollectives {
public:
  using Time = std::chrono::steady_clock::time_point;
  /// Called before a collective with kNoRank, and every few milliseconds while
  /// the rank waits for the rank `awaited` since `start`. An error ends the
  /// collective.
  using WaitCheck = std::function<Status(Time start, int awaited)>;
  static constexpr int kNoRank = -1;

  SharedCollectives(std::unique_ptr<SharedBlocks> blocks, int rank, int size,
                    WaitCheck check);

  Status allReduce(std::byte *data, size_t count, DType type, Reduce kind);
  Status reduceScatter(std::byte *data, size_t count, DType type, Reduce kind);
  Status allGather(std::byte *data, size_t bytes);
  Status broadcast(std::byte *data, size_t bytes, int root);
  Status barrier();

  /// The bytes that other ranks have read from this rank.
  size_t bytesSent() const { return sent; }

private:
  template <typename Write, typename Take>
  Status runBlocks(size_t count, Write write, Take take);
  template <typename Write, typename Reduce, typename Take>
  Status runBlocks(size_t count, Write write, Reduce reduce, Take take);
  Status waitForAll(SharedBlocks::Mark mark, uint32_t count);
  Status reduceSmall(std::byte *data, size_t count, DType type, Reduce kind);

  std::byte *slotOf(size_t rank, size_t block) const {
    return blocks->slotOf(static_cast<int>(rank),
                          first + static_cast<uint32_t>(block));
  }
  template <typename Visit>
  void forOthers(Visit visit) const {
    for (size_t rank = 0; rank < ranks; ++rank)
      if (rank != own)
        visit(rank);
  }

  const std::unique_ptr<SharedBlocks> blocks;
  const size_t own, ranks;
  const WaitCheck check;
  uint32_t first = 0; ///< the number of blocks in earlier calls
  size_t sent = 0;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_SHAREDCOLLECTIVES_H
