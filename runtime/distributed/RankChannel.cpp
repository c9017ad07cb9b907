// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/RankChannel.h"

#include "runtime/distributed/RankErrors.h"

#include <algorithm>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <list>
#include <poll.h>
#include <unistd.h>

namespace mpc::runtime {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

/// They change with each change of the messages.
static constexpr uint64_t kHello = 0x4d50432068656c32;
static constexpr uint64_t kAnswer = 0x4d504320616e7332;
/// The time of a stranger to introduce itself, and of any short message.
static constexpr seconds kShortWait(5);
/// Clients allow rank 0 the time to name the rank that did not come.
static constexpr seconds kGrace(5);
static constexpr size_t kMostGuests = 64;
static constexpr size_t kLongestText = 4096;

namespace {

/// The first message of a rank to rank 0.
struct Hello {
  uint64_t magic, run;
  uint32_t rank, size;
};

enum class Verdict : uint32_t { Welcome, OtherRun, RankTaken };

/// The answer of rank 0.
struct Answer {
  uint64_t magic;
  Verdict verdict;
  uint32_t unused;
};

enum Kind : uint32_t {
  Start = 1,  ///< all ranks have come
  Blocks = 2, ///< of `exchange`
  Abort = 3,  ///< with a reason
  Goodbye = 4 ///< the rank ends well
};

} // namespace

/// Precedes each later message.
struct RankChannel::Header {
  uint32_t kind, bytes;
  uint32_t code; ///< the StatusCode of a failure; 0 with other messages

  bool isFailure() const {
    return kind == Abort && bytes <= kLongestText && code > 0 &&
           code <= static_cast<uint32_t>(StatusCode::Internal);
  }
};

/// A connection that has not introduced itself.
struct RankChannel::Guest {
  Socket socket;
  Deadline deadline;
  Hello hello = {};
  size_t received = 0;
};

static std::string nameRank(int rank) { return "rank " + std::to_string(rank); }

static std::string nameLoss(int rank) {
  return rank == 0 ? kFirstRankIsLost
                   : nameRank(rank) + " has ended or is unreachable";
}

static uint64_t hashRun(const Launch &launch, const std::string &run) {
  uint64_t hash = 14695981039346656037u;
  for (char c : std::to_string(launch.masterPort) + "/" +
                    std::to_string(launch.size) + "/" + run)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

int RankChannel::portOf(const Launch &launch, int index) {
  const int port = launch.masterPort + kFirstPort + index;
  return port > 65535 ? port - 65536 + 1024 : port;
}

//===----------------------------------------------------------------------===//
// Rank 0 waits for all others
//===----------------------------------------------------------------------===//

std::string RankChannel::findMissing() const {
  constexpr int kMost = 8;
  std::string text;
  int count = 0;
  for (int rank = 1; rank < ranks; ++rank)
    if (!peers[static_cast<size_t>(rank)].isOpen() && ++count <= kMost)
      text += (count > 1 ? ", " : "") + std::to_string(rank);
  if (count > kMost)
    text += " and " + std::to_string(count - kMost) + " more";
  return (count == 1 ? "rank " : "ranks ") + text;
}

/// Reads the introduction of a guest. False if the connection ends, because it
/// has become that of a rank or is of no use.
bool RankChannel::greet(Guest &guest) {
  char *hello = reinterpret_cast<char *>(&guest.hello);
  const long count = guest.socket.receiveArrived(
      hello + guest.received, sizeof(Hello) - guest.received);
  if (count < 0)
    return false;
  guest.received += static_cast<size_t>(count);
  if (guest.received < sizeof(Hello))
    return Clock::now() < guest.deadline;
  if (guest.hello.magic != kHello)
    return false;
  const uint32_t rank = guest.hello.rank;
  Answer answer = {kAnswer, Verdict::Welcome, 0};
  if (guest.hello.run != run || rank == 0 ||
      rank >= static_cast<uint32_t>(ranks))
    answer.verdict = Verdict::OtherRun;
  else if (peers[rank].isOpen())
    answer.verdict = Verdict::RankTaken;
  if (!guest.socket.send(&answer, sizeof(answer), Clock::now() + kShortWait) ||
      answer.verdict != Verdict::Welcome)
    return false;
  guest.socket.watchPeer();
  peers[rank] = std::move(guest.socket);
  return false;
}

Status RankChannel::acceptRanks(const Socket &listener, milliseconds timeout) {
  const Deadline deadline = Clock::now() + timeout;
  std::list<Guest> guests;
  const auto isMissing = [](const Socket &peer) { return !peer.isOpen(); };
  while (std::any_of(peers.begin() + 1, peers.end(), isMissing)) {
    if (Clock::now() >= deadline)
      return fail(rankError(findMissing() + " of " + std::to_string(ranks) +
                            " did not come within " + inSeconds(timeout) +
                            "; --rank-timeout sets the time"));
    std::vector<pollfd> entries = {{listener.get(), POLLIN, 0}};
    for (const Guest &guest : guests)
      entries.push_back({guest.socket.get(), POLLIN, 0});
    for (const Socket &peer : peers)
      entries.push_back({peer.get(), POLLIN, 0}); // poll ignores -1
    // A guest may also run out of time.
    poll(entries.data(), entries.size(),
         std::min(1000, millisecondsUntil(deadline)));
    // A rank says nothing before the start, so it has ended.
    for (size_t rank = 1; rank < peers.size(); ++rank)
      if (entries[1 + guests.size() + rank].revents)
        return fail(rankError(nameRank(static_cast<int>(rank)) +
                              " has ended before all ranks had come"));
    for (auto guest = guests.begin(); guest != guests.end();)
      guest = greet(*guest) ? std::next(guest) : guests.erase(guest);
    if (entries[0].revents) {
      if (guests.size() == kMostGuests)
        guests.pop_front();
      if (Socket socket = listener.accept(); socket.isOpen())
        guests.push_back(
            Guest{std::move(socket), Clock::now() + kShortWait, {}, 0});
    }
  }
  return Status();
}

Status RankChannel::meetAsServer(const Launch &launch, milliseconds timeout) {
  Socket listener;
  for (int index = 0; index < kPorts && !listener.isOpen(); ++index)
    listener = Socket::listenAt(launch.masterAddress, portOf(launch, index));
  if (!listener.isOpen())
    return rankError("rank 0 cannot listen at '" + launch.masterAddress +
                     "': the ports " + std::to_string(portOf(launch, 0)) +
                     " to " + std::to_string(portOf(launch, kPorts - 1)) +
                     " are in use; choose another MASTER_PORT");
  if (Status status = acceptRanks(listener, timeout); !status.ok())
    return status;
  for (int rank = 1; rank < ranks; ++rank)
    if (!sendMessage(rank, Start, "", Clock::now() + kShortWait))
      return fail(rankError(nameRank(rank) + " has ended before the start"));
  return Status();
}

//===----------------------------------------------------------------------===//
// Another rank looks for rank 0
//===----------------------------------------------------------------------===//

/// Tries each port once. True if rank 0 has answered; sets `why` otherwise.
bool RankChannel::joinServer(const Launch &launch, Deadline deadline,
                             std::string &why) {
  const Hello hello = {kHello, run, static_cast<uint32_t>(own),
                       static_cast<uint32_t>(ranks)};
  for (int index = 0; index < kPorts; ++index) {
    const Deadline limit =
        std::min<Deadline>(deadline, Clock::now() + seconds(2));
    Socket socket = Socket::connectTo(launch.masterAddress,
                                      portOf(launch, index), limit, why);
    Answer answer = {};
    if (!socket.isOpen())
      continue;
    if (!socket.send(&hello, sizeof(hello), limit) ||
        !socket.receive(&answer, sizeof(answer), limit) ||
        answer.magic != kAnswer) {
      why = "another program listens at port " +
            std::to_string(portOf(launch, index));
      continue;
    }
    if (answer.verdict == Verdict::Welcome) {
      socket.watchPeer();
      peers[0] = std::move(socket);
      return true;
    }
    why = answer.verdict == Verdict::RankTaken
              ? "another process is " + nameRank(own) + " already"
              : "another run listens at port " +
                    std::to_string(portOf(launch, index));
  }
  return false;
}

Status RankChannel::meetAsClient(const Launch &launch, milliseconds timeout) {
  const Deadline deadline = Clock::now() + timeout;
  std::string why;
  while (!joinServer(launch, deadline, why)) {
    if (Clock::now() >= deadline)
      return rankError(
          nameRank(own) + " of " + std::to_string(ranks) +
          " cannot reach rank 0 at MASTER_ADDR='" + launch.masterAddress +
          "', ports " + std::to_string(portOf(launch, 0)) + " to " +
          std::to_string(portOf(launch, kPorts - 1)) + ", within " +
          inSeconds(timeout) + ": " + why + "; --rank-timeout sets the time");
    std::this_thread::sleep_for(milliseconds(50));
  }
  std::string none;
  Status status = receiveBlocks(0, 0, Clock::now() + timeout + kGrace, none);
  return status.ok() ? status : fail(status);
}

StatusOr<std::unique_ptr<RankChannel>> RankChannel::open(const Launch &launch,
                                                         const std::string &run,
                                                         milliseconds timeout) {
  std::unique_ptr<RankChannel> channel(
      new RankChannel(launch.rank, launch.size, hashRun(launch, run)));
  int wake[2];
  if (pipe2(wake, O_CLOEXEC) != 0)
    return rankError("rank " + std::to_string(launch.rank) +
                     " cannot create a pipe: " + std::strerror(errno));
  channel->wakeReceiver = Socket(wake[0]);
  channel->wakeSender = Socket(wake[1]);
  Status status = launch.rank == 0 ? channel->meetAsServer(launch, timeout)
                                   : channel->meetAsClient(launch, timeout);
  if (!status.ok())
    return status;
  return StatusOr<std::unique_ptr<RankChannel>>(std::move(channel));
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

bool RankChannel::sendMessage(int rank, uint32_t kind, const std::string &text,
                              Deadline deadline, StatusCode code) {
  const Header header = {kind, static_cast<uint32_t>(text.size()),
                         static_cast<uint32_t>(code)};
  std::string message(sizeof(header), '\0');
  std::memcpy(message.data(), &header, sizeof(header));
  message += text;
  std::lock_guard<std::mutex> lock(sending);
  const Socket &peer = peers[static_cast<size_t>(rank)];
  return peer.isOpen() && peer.send(message.data(), message.size(), deadline);
}

/// Receives `bytes` of blocks from `rank`; for none, the start.
Status RankChannel::receiveBlocks(int rank, size_t bytes, Deadline deadline,
                                  std::string &blocks) {
  const Socket &peer = peers[static_cast<size_t>(rank)];
  Header header = {};
  if (!peer.receive(&header, sizeof(header), deadline))
    return rankError(Clock::now() < deadline
                         ? nameLoss(rank)
                         : nameRank(rank) + " does not answer");
  if (header.isFailure()) {
    std::string why(header.bytes, '\0');
    if (!peer.receive(why.data(), why.size(), Clock::now() + kShortWait))
      return rankError(nameLoss(rank));
    return Status(static_cast<StatusCode>(header.code), why);
  }
  if (header.kind != (bytes ? Blocks : Start) || header.bytes != bytes)
    return rankError(nameRank(rank) +
                     " sent an unexpected message; all ranks need the same "
                     "version of mpc");
  blocks.resize(bytes);
  if (!peer.receive(blocks.data(), bytes, deadline))
    return rankError(nameLoss(rank));
  return Status();
}

StatusOr<std::string> RankChannel::exchange(const std::string &blocks,
                                            milliseconds timeout) {
  const Deadline deadline = Clock::now() + timeout;
  const size_t count = static_cast<size_t>(ranks);
  const size_t bytes = blocks.size() / count;
  std::string result;
  if (own != 0) {
    if (!sendMessage(0, Blocks, blocks, deadline))
      return fail(rankError(nameLoss(0)));
    Status status = receiveBlocks(0, blocks.size(), deadline, result);
    return status.ok() ? StatusOr<std::string>(std::move(result))
                       : fail(status);
  }
  std::vector<std::string> parts(count);
  parts[0] = blocks;
  for (int rank = 1; rank < ranks; ++rank)
    if (Status status = receiveBlocks(rank, blocks.size(), deadline,
                                      parts[static_cast<size_t>(rank)]);
        !status.ok())
      return fail(status);
  for (size_t rank = 0; rank < count; ++rank) {
    std::string column;
    for (const std::string &part : parts)
      column.append(part, rank * bytes, bytes);
    if (rank == 0)
      result = std::move(column);
    else if (!sendMessage(static_cast<int>(rank), Blocks, column, deadline))
      return fail(rankError(nameLoss(static_cast<int>(rank))));
  }
  return result;
}

std::string RankChannel::localAddress() const {
  std::string address;
  for (const Socket &peer : peers)
    if (peer.isOpen() && (address.empty() || isLoopback(address)))
      address = peer.localAddress();
  return address;
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

/// Notes the first failure, and tells the others, but for the rank `origin`,
/// which knows. False if the run has failed before.
bool RankChannel::record(const Status &why, int origin) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (failure)
      return false;
    failure = Status(why.getCode(), why.message().substr(0, kLongestText));
  }
  for (int rank = 0; rank < ranks; ++rank)
    if (rank != origin)
      sendMessage(rank, Abort, failure->message(), Clock::now() + kShortWait,
                  failure->getCode());
  changed.notify_all();
  return true;
}

Status RankChannel::fail(const Status &why) {
  record(why, own);
  return rankError(findFailure()->message());
}

void RankChannel::abort(const Status &why) { record(why, own); }

std::optional<Status> RankChannel::findFailure(milliseconds wait) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait_for(lock, wait, [&] { return failure.has_value(); });
  return failure;
}

std::optional<Status> RankChannel::findCause(milliseconds wait) {
  std::unique_lock<std::mutex> lock(mutex);
  changed.wait_for(lock, wait, [&] { return failure || departure; });
  return failure ? failure : departure;
}

bool RankChannel::hasLeft(int rank) {
  std::lock_guard<std::mutex> lock(mutex);
  return departed.count(rank) > 0;
}

void RankChannel::watch(std::function<void()> call) {
  onFailure = std::move(call);
  // The program's handlers of signals run on the program's threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  watcher = std::thread([this] { watchPeers(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

/// Reads a message of a peer. Closes the socket after the last message.
void RankChannel::readNews(int rank) {
  const Socket &peer = peers[static_cast<size_t>(rank)];
  const Deadline deadline = Clock::now() + kShortWait;
  Header header = {};
  Status why = rankError(nameLoss(rank));
  bool endsWell = false;
  if (peer.receive(&header, sizeof(header), deadline)) {
    if (header.isFailure()) {
      std::string text(header.bytes, '\0');
      if (peer.receive(text.data(), text.size(), deadline))
        why = Status(static_cast<StatusCode>(header.code), text);
    } else if (header.kind == Goodbye && header.bytes == 0) {
      endsWell = true;
    } else {
      why = rankError(nameRank(rank) + " sent an unexpected message");
    }
  }
  if (endsWell) {
    std::lock_guard<std::mutex> lock(mutex);
    departure = rankError(nameRank(rank) + " has ended");
    departed.insert(rank);
    changed.notify_all();
  }
  const bool isNew = !endsWell && record(why, rank);
  {
    std::lock_guard<std::mutex> lock(sending);
    peers[static_cast<size_t>(rank)] = Socket();
  }
  if (isNew)
    onFailure();
}

void RankChannel::watchPeers() {
  for (;;) {
    std::vector<pollfd> entries = {{wakeReceiver.get(), POLLIN, 0}};
    for (const Socket &peer : peers)
      entries.push_back({peer.get(), POLLIN, 0}); // poll ignores -1
    if (poll(entries.data(), entries.size(), -1) < 0)
      continue;
    if (entries[0].revents)
      return;
    for (int rank = 0; rank < ranks; ++rank)
      if (entries[1 + static_cast<size_t>(rank)].revents)
        readNews(rank);
  }
}

RankChannel::~RankChannel() {
  if (watcher.joinable()) {
    wakeSender = Socket();
    watcher.join();
  }
  if (failure)
    return;
  for (int rank = 0; rank < ranks; ++rank)
    sendMessage(rank, Goodbye, "", Clock::now() + kShortWait);
}

} // namespace mpc::runtime
