// Tests the meeting of ranks, with strangers at the door.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/RankChannel.h"

#include "test/runtime/distributed/FreePort.h"

#include <atomic>
#include <future>
#include <gtest/gtest.h>

using namespace mpc::runtime;
using std::chrono::milliseconds;
using std::chrono::seconds;
using Clock = std::chrono::steady_clock;

namespace {

using Opened = StatusOr<std::unique_ptr<RankChannel>>;

Launch makeLaunch(int rank, int size, int port) {
  Launch launch;
  launch.launcher = Launcher::TorchRun;
  launch.rank = rank;
  launch.size = size;
  launch.masterAddress = "localhost";
  launch.masterPort = port;
  return launch;
}

std::future<Opened> openLater(int rank, int size, int port,
                              milliseconds timeout = seconds(20),
                              const std::string &run = "") {
  return std::async(std::launch::async, [=] {
    return RankChannel::open(makeLaunch(rank, size, port), run, timeout);
  });
}

/// Connects as a stranger.
Socket callServer(int port, int index = 0) {
  std::string why;
  const Deadline deadline = Clock::now() + seconds(10);
  for (;;) {
    Socket socket = Socket::connectTo(
        "localhost", RankChannel::portOf(makeLaunch(0, 2, port), index),
        deadline, why);
    if (socket.isOpen() || Clock::now() > deadline)
      return socket;
    std::this_thread::sleep_for(milliseconds(10));
  }
}

/// Returns what a rank 1 of two says first at `port`.
std::string recordHello(int port) {
  const Socket server = Socket::listenAt(
      "localhost", RankChannel::portOf(makeLaunch(0, 2, port), 0));
  auto client = openLater(1, 2, port, milliseconds(500));
  Socket call;
  for (int i = 0; i < 1000 && !call.isOpen(); ++i) {
    std::this_thread::sleep_for(milliseconds(10));
    call = server.accept();
  }
  std::string hello(24, '\0');
  EXPECT_TRUE(
      call.receive(hello.data(), hello.size(), Clock::now() + seconds(10)));
  EXPECT_FALSE(client.get().ok());
  return hello;
}

/// Joins the run of the rank 0 at `port` as a hostile rank 1.
Socket joinAs(const std::string &hello, int port) {
  Socket rank = callServer(port);
  const Deadline deadline = Clock::now() + seconds(10);
  std::string answerAndStart(24, '\0');
  EXPECT_TRUE(rank.send(hello.data(), hello.size(), deadline));
  EXPECT_TRUE(
      rank.receive(answerAndStart.data(), answerAndStart.size(), deadline));
  return rank;
}

bool contains(const Status &status, const std::string &text) {
  return status.message().find(text) != std::string::npos;
}

} // namespace

TEST(RankChannel, exchangesBlocks) {
  const int port = findFreeMasterPort();
  std::vector<std::future<Opened>> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(openLater(rank, 3, port));
  std::vector<std::unique_ptr<RankChannel>> channels;
  for (auto &rank : ranks) {
    Opened opened = rank.get();
    ASSERT_TRUE(opened.ok()) << opened.status().message();
    channels.push_back(std::move(*opened));
    EXPECT_EQ(channels.back()->localAddress(), "127.0.0.1");
  }
  const std::vector<std::string> sent = {"aAbBcC", "dDeEfF", "gGhHiI"};
  std::vector<std::future<StatusOr<std::string>>> results;
  for (size_t rank = 0; rank < 3; ++rank)
    results.push_back(std::async(std::launch::async, [&, rank] {
      return channels[rank]->exchange(sent[rank], seconds(20));
    }));
  EXPECT_EQ(*results[0].get(), "aAdDgG");
  EXPECT_EQ(*results[1].get(), "bBeEhH");
  EXPECT_EQ(*results[2].get(), "cCfFiI");
}

TEST(RankChannel, blocksOfOtherSizesAreAnError) {
  const int port = findFreeMasterPort();
  auto other = openLater(1, 2, port);
  Opened first = openLater(0, 2, port).get();
  Opened second = other.get();
  ASSERT_TRUE(first.ok() && second.ok());
  auto result = std::async(std::launch::async, [&] {
    return (*second)->exchange("1234", seconds(20));
  });
  const StatusOr<std::string> own = (*first)->exchange("12345678", seconds(20));
  ASSERT_FALSE(own.ok());
  EXPECT_TRUE(contains(own.status(), "rank 1 sent an unexpected message"));
  const StatusOr<std::string> told = result.get();
  ASSERT_FALSE(told.ok());
  EXPECT_EQ(told.status().message(), own.status().message());
}

TEST(RankChannel, strangersDoNotDisturb) {
  const int port = findFreeMasterPort();
  auto first = openLater(0, 2, port);
  // Silent strangers, more than the server keeps.
  std::vector<Socket> strangers;
  for (int i = 0; i < 80; ++i)
    strangers.push_back(callServer(port));
  // A stranger with another protocol, and one that breaks off.
  Socket web = callServer(port);
  ASSERT_TRUE(web.isOpen());
  const std::string text(100000, 'G');
  web.send(text.data(), text.size(), Clock::now() + seconds(1));
  strangers.push_back(callServer(port));
  strangers.back().send("MPC", 3, Clock::now() + seconds(1));
  strangers.back() = Socket();
  Opened second = openLater(1, 2, port).get();
  ASSERT_TRUE(second.ok()) << second.status().message();
  Opened opened = first.get();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
}

TEST(RankChannel, anotherProgramAtThePortIsPassedOver) {
  const int port = findFreeMasterPort();
  const Socket occupied = Socket::listenAt(
      "localhost", RankChannel::portOf(makeLaunch(0, 2, port), 0));
  ASSERT_TRUE(occupied.isOpen());
  auto second = openLater(1, 2, port);
  Opened first = openLater(0, 2, port).get();
  ASSERT_TRUE(first.ok()) << first.status().message();
  Opened opened = second.get();
  ASSERT_TRUE(opened.ok()) << opened.status().message();
}

TEST(RankChannel, anotherRunAtThePortIsPassedOver) {
  const int port = findFreeMasterPort();
  auto stranger = openLater(0, 2, port, seconds(20), "another run");
  ASSERT_TRUE(callServer(port).isOpen());
  auto second = openLater(1, 2, port, seconds(20), "this run");
  Opened first = openLater(0, 2, port, seconds(20), "this run").get();
  ASSERT_TRUE(first.ok()) << first.status().message();
  ASSERT_TRUE(second.get().ok());
  ASSERT_TRUE(openLater(1, 2, port, seconds(20), "another run").get().ok());
  ASSERT_TRUE(stranger.get().ok());
}

TEST(RankChannel, aSecondProcessWithTheSameRankIsAnError) {
  const int port = findFreeMasterPort();
  auto first = openLater(0, 3, port);
  // The loser tries as long as it may.
  auto second = openLater(1, 3, port, seconds(8));
  auto third = openLater(1, 3, port, seconds(2));
  std::this_thread::sleep_for(seconds(3));
  auto last = openLater(2, 3, port);
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(last.get().ok());
  // The two compete.
  const Opened one = second.get(), other = third.get();
  EXPECT_NE(one.ok(), other.ok());
  const Opened &loser = one.ok() ? other : one;
  EXPECT_TRUE(contains(loser.status(), "another process is rank 1 already") ||
              contains(loser.status(), "cannot reach rank 0"))
      << loser.status().message();
}

TEST(RankChannel, allRanksLearnWhichRankIsMissing) {
  const int port = findFreeMasterPort();
  auto third = openLater(2, 4, port, milliseconds(600));
  const Opened first = openLater(0, 4, port, milliseconds(600)).get();
  const Opened told = third.get();
  ASSERT_FALSE(first.ok() || told.ok());
  const std::string text = "ranks 1, 3 of 4 did not come within 0.6 s";
  EXPECT_TRUE(contains(first.status(), text)) << first.status().message();
  EXPECT_TRUE(contains(told.status(), text)) << told.status().message();
}

TEST(RankChannel, allRanksLearnOfAFailureOnce) {
  const int port = findFreeMasterPort();
  std::vector<std::future<Opened>> ranks;
  for (int rank = 0; rank < 3; ++rank)
    ranks.push_back(openLater(rank, 3, port));
  std::vector<std::unique_ptr<RankChannel>> channels;
  std::atomic<int> calls[3] = {};
  for (size_t rank = 0; rank < 3; ++rank) {
    Opened opened = ranks[rank].get();
    ASSERT_TRUE(opened.ok());
    channels.push_back(std::move(*opened));
    channels.back()->watch([&calls, rank] { ++calls[rank]; });
  }
  channels[1]->abort(Status(StatusCode::IO, "the disk is full"));
  channels[1]->abort(Status(StatusCode::Numeric, "another failure"));
  for (auto &channel : channels) {
    const std::optional<Status> failure = channel->findFailure(seconds(20));
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->message(), "the disk is full");
    EXPECT_EQ(failure->getCode(), StatusCode::IO);
  }
  channels.clear();
  EXPECT_EQ(calls[0], 1);
  EXPECT_EQ(calls[1], 0);
  EXPECT_EQ(calls[2], 1);
}

TEST(RankChannel, aRankThatEndsWellIsNoFailure) {
  const int port = findFreeMasterPort();
  auto second = openLater(1, 2, port);
  Opened first = openLater(0, 2, port).get();
  Opened other = second.get();
  ASSERT_TRUE(first.ok() && other.ok());
  (*first)->watch([] {});
  (*other)->watch([] {});
  (*other).reset();
  EXPECT_FALSE((*first)->findFailure(milliseconds(300)));
}

TEST(RankChannel, messagesOfImpossibleSizesAreErrors) {
  const int port = findFreeMasterPort();
  const std::string hello = recordHello(port);
  // Blocks, an abort, a goodbye and an unknown kind, each of 4 GiB.
  for (uint32_t kind : {2, 3, 4, 99}) {
    const uint32_t header[] = {kind, 0xffffffff, 5};
    for (bool isWatching : {false, true}) {
      auto opening = openLater(0, 2, port);
      const Socket rank = joinAs(hello, port);
      Opened first = opening.get();
      ASSERT_TRUE(first.ok()) << first.status().message();
      if (isWatching)
        (*first)->watch([] {});
      rank.send(header, sizeof(header), Clock::now() + seconds(1));
      if (!isWatching) {
        EXPECT_FALSE((*first)->exchange("12345678", seconds(20)).ok());
      }
      EXPECT_NE((*first)
                    ->findFailure(seconds(20))
                    ->message()
                    .find("rank 1 sent an unexpected message"),
                std::string::npos);
    }
  }
}

TEST(RankChannel, failuresWithoutAKnownCodeAreErrors) {
  const int port = findFreeMasterPort();
  const std::string hello = recordHello(port);
  for (uint32_t code : {0u, 71u, 0xffffffffu}) {
    const uint32_t header[] = {3, 0, code};
    auto opening = openLater(0, 2, port);
    const Socket rank = joinAs(hello, port);
    Opened first = opening.get();
    ASSERT_TRUE(first.ok()) << first.status().message();
    (*first)->watch([] {});
    rank.send(header, sizeof(header), Clock::now() + seconds(1));
    const std::optional<Status> failure = (*first)->findFailure(seconds(20));
    ASSERT_TRUE(failure);
    EXPECT_EQ(failure->getCode(), StatusCode::Rank);
    EXPECT_EQ(failure->message(), "rank 1 sent an unexpected message");
  }
}

TEST(RankChannel, portsBeyondTheLastGoOnAt1024) {
  EXPECT_EQ(RankChannel::portOf(makeLaunch(0, 2, 29500), 1), 29601);
  EXPECT_EQ(RankChannel::portOf(makeLaunch(0, 2, 65434), 1), 65535);
  EXPECT_EQ(RankChannel::portOf(makeLaunch(0, 2, 65434), 2), 1024);
}
