// Connects every rank with rank 0 by a socket, beside the library that moves
// the data. Ranks find each other through this channel, and learn which rank
// has failed, and why.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_RANKCHANNEL_H
#define MPC_RUNTIME_DISTRIBUTED_RANKCHANNEL_H

#include "runtime/distributed/Launch.h"
#include "runtime/distributed/Socket.h"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

namespace mpc::runtime {

/// Input from the network is untrusted: a message has a fixed limit of size, a
/// stranger has 5 s to introduce itself, and at most 64 strangers wait.
///
/// Rank 0 listens at the first free port of kPorts ports, from kFirstPort above
/// the launcher's port on: the launcher itself may listen at its port. Other
/// ranks try these ports until a server answers that knows the run.
///
/// `abort` may be called by any thread, all other functions by one.
class RankChannel {
public:
  static constexpr int kFirstPort = 100, kPorts = 8;
  /// Returns port `index` of kPorts. Beyond 65535, goes on at 1024.
  static int portOf(const Launch &launch, int index);

  /// Connects the ranks of `launch`, which has a master address and port. `run`
  /// is a text that only ranks of the same run share, perhaps empty. A Rank
  /// error, with the missing ranks if this is rank 0, if a rank does not come
  /// within `timeout`.
  static StatusOr<std::unique_ptr<RankChannel>>
  open(const Launch &launch, const std::string &run,
       std::chrono::milliseconds timeout);

  /// Tells the other ranks that this rank ends well, unless a rank has failed.
  ~RankChannel();
  RankChannel(const RankChannel &) = delete;
  RankChannel &operator=(const RankChannel &) = delete;

  /// Sends block r of `blocks` to rank r, and returns the blocks from all
  /// ranks. All blocks of all ranks have `blocks.size() / size()` bytes. All
  /// ranks must make the same calls, before `watch`.
  StatusOr<std::string> exchange(const std::string &blocks,
                                 std::chrono::milliseconds timeout);

  /// Returns the address of this machine that reaches the other ranks, in
  /// digits. On rank 0, the address at which most of the world sees this
  /// machine: a loopback address only if all ranks are here.
  std::string localAddress() const;

  /// From now on, learns of failures at once. Calls `onFailure` once if another
  /// rank fails, on a thread of the channel.
  void watch(std::function<void()> onFailure);

  /// Tells all ranks that the run has failed because of `why`. Does nothing
  /// after a failure.
  void abort(const Status &why);

  /// Returns the failure that has ended the run; waits for one up to `wait`.
  /// The code is that of the rank that failed; Rank if a rank was lost.
  std::optional<Status>
  findFailure(std::chrono::milliseconds wait = std::chrono::milliseconds(0));

  /// Returns why a call with other ranks may have failed: the failure of the
  /// run, or a rank that has ended well too early. Waits up to `wait`.
  std::optional<Status> findCause(std::chrono::milliseconds wait);
  /// True if `rank` has ended well. Rank 0 learns of all ranks, another rank of
  /// rank 0 only.
  bool hasLeft(int rank);

private:
  struct Guest;
  struct Header;

  RankChannel(int rank, int size, uint64_t run)
      : own(rank), ranks(size), run(run), peers(static_cast<size_t>(size)) {}

  Status meetAsServer(const Launch &launch, std::chrono::milliseconds timeout);
  Status meetAsClient(const Launch &launch, std::chrono::milliseconds timeout);
  Status acceptRanks(const Socket &listener, std::chrono::milliseconds timeout);
  bool greet(Guest &guest);
  std::string findMissing() const;
  bool joinServer(const Launch &launch, Deadline deadline, std::string &why);

  bool sendMessage(int rank, uint32_t kind, const std::string &text,
                   Deadline deadline, StatusCode code = StatusCode::Done);
  Status receiveBlocks(int rank, size_t bytes, Deadline deadline,
                       std::string &blocks);
  Status fail(const Status &why);
  bool record(const Status &why, int origin);
  void watchPeers();
  void readNews(int rank);

  const int own, ranks;
  const uint64_t run; ///< a hash of the text, the port and the size
  /// Rank 0 has a socket for each other rank, which has one for rank 0 only.
  std::vector<Socket> peers;

  std::mutex sending; ///< one thread at a time sends messages
  std::mutex mutex;   ///< of the failure and the ends of ranks
  std::condition_variable changed;
  std::optional<Status> failure;
  std::optional<Status> departure; ///< a rank that has ended well
  std::set<int> departed;          ///< the ranks that have ended well
  std::function<void()> onFailure;
  Socket wakeSender, wakeReceiver; ///< closing the sender ends the thread
  std::thread watcher;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_RANKCHANNEL_H
