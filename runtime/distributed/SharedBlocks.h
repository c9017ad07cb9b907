// Memory that the ranks on one machine share, and the order in which they use
// it. A rank reads the elements of another rank in place, so the machine copies
// them once, not twice or three times as between processes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_SHAREDBLOCKS_H
#define MPC_RUNTIME_DISTRIBUTED_SHAREDBLOCKS_H

#include "runtime/Status.h"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace mpc::runtime {

/// Each rank has `kSlots` slots, which only it writes. The ranks work through
/// equal sequences of blocks: block b lies in slot b % kSlots of each rank. A
/// rank counts the blocks that it has written, reduced and finished. Another
/// rank may read
///
/// - the elements of block b once more than b blocks are Written;
/// - the reduced elements of block b once more than b blocks are Reduced.
///
/// A rank may overwrite the slot of block b for block b + kSlots once all ranks
/// have Finished more than b blocks. Counts wrap around.
class SharedBlocks {
public:
  static constexpr uint32_t kSlots = 4;
  /// Two slots fit into the second-level cache of most CPUs.
  static constexpr size_t kSlotBytes = 256 << 10;

  enum class Mark { Written, Reduced, Finished };

  /// Names the memory of a process for other processes of the same user.
  struct Name {
    int64_t process, descriptor;
    uint64_t token[2]; ///< random, so another memory is not taken for this one
  };

  /// Reserves memory for `size` ranks, as rank 0. An IO error if there is too
  /// little memory.
  static StatusOr<std::unique_ptr<SharedBlocks>> create(int size);
  /// Opens the memory that rank 0 has created with the same `size`. An IO error
  /// if rank 0 is on another machine or hides its memory, as in a container.
  static StatusOr<std::unique_ptr<SharedBlocks>> open(const Name &name,
                                                      int rank, int size);
  ~SharedBlocks();
  SharedBlocks(const SharedBlocks &) = delete;
  SharedBlocks &operator=(const SharedBlocks &) = delete;

  const Name &name() const { return ownName; }
  /// Ends the time in which other ranks can open the memory.
  void closeName();

  std::byte *slotOf(int rank, uint32_t block) const;

  /// Raises a count of this rank to `blocks`, and wakes ranks that sleep.
  void raise(Mark mark, uint32_t blocks);
  /// True if the count of `rank` has come to `blocks`.
  bool hasCome(int rank, Mark mark, uint32_t blocks) const;
  /// Sleeps until the count of `rank` changes; returns at once if it has come
  /// to `blocks`, and at the latest after `most`.
  void sleep(int rank, Mark mark, uint32_t blocks,
             std::chrono::milliseconds most);

private:
  /// A count and the number of threads that sleep until it changes, in a cache
  /// line of its own.
  struct alignas(64) Count {
    std::atomic<uint32_t> blocks, sleepers;
  };
  struct Header;

  SharedBlocks(int rank, int size) : own(rank), ranks(size) {}
  Status map(int descriptor);
  static size_t headerBytes(int size);
  static size_t totalBytes(int size);
  Count &countOf(int rank, Mark mark) const;

  const int own, ranks;
  Name ownName = {-1, -1, {0, 0}};
  int descriptor = -1; ///< of rank 0, until closeName
  std::byte *memory = nullptr;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_SHAREDBLOCKS_H
