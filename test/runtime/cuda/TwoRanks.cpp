// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/cuda/TwoRanks.h"

#include "test/runtime/cuda/Emulated.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace mpc::runtime::test {

struct ForkedCommunicator::Shared {
  std::atomic<uint64_t> arrived[2];
  std::byte data[2][4096];
};

Status ForkedCommunicator::barrier() {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point begin = Clock::now();
  shared->arrived[rank()] = ++meetings;
  while (shared->arrived[1 - rank()] < meetings) {
    if (Clock::now() - begin > std::chrono::minutes(1))
      return Status(StatusCode::Rank, "the other rank does not come");
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  return Status();
}

Status ForkedCommunicator::allGather(void *data, size_t bytes) {
  auto *parts = static_cast<std::byte *>(data);
  EXPECT_LE(bytes, sizeof(shared->data[0]));
  const auto own = static_cast<size_t>(rank());
  std::memcpy(shared->data[own], parts + own * bytes, bytes);
  Status status = barrier();
  if (!status.ok())
    return status;
  std::memcpy(parts + (1 - own) * bytes, shared->data[1 - own], bytes);
  return barrier();
}

Status ForkedCommunicator::broadcast(void *data, size_t bytes, int root) {
  std::vector<std::byte> all(2 * bytes);
  std::memcpy(all.data() + static_cast<size_t>(rank()) * bytes, data, bytes);
  Status status = allGather(all.data(), bytes);
  std::memcpy(data, all.data() + static_cast<size_t>(root) * bytes, bytes);
  return status;
}

Status ForkedCommunicator::allReduce(void *, size_t, DType, Reduce) {
  return Status(StatusCode::Internal, "a GPU's elements do not go to the host");
}

Status ForkedCommunicator::reduceScatter(void *, size_t, DType, Reduce) {
  return Status(StatusCode::Internal, "a GPU's elements do not go to the host");
}

void onTwoRanks(const std::map<std::string, std::string> &environment,
                const std::function<void(ForkedCommunicator &)> &body) {
  std::map<std::string, std::string> variables = environment;
  variables["MPC_EMULATOR_DEVICE"] = "sm_80,count=2";
  emulated(variables, [&] {
    void *memory =
        mmap(nullptr, sizeof(ForkedCommunicator::Shared),
             PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    auto *shared = static_cast<ForkedCommunicator::Shared *>(memory);
    const pid_t other = fork();
    ASSERT_GE(other, 0);
    ForkedCommunicator communicator(shared, other == 0 ? 1 : 0);
    body(communicator);
    if (other == 0) {
      std::fflush(nullptr);
      _exit(testing::Test::HasFailure() ? 1 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(other, &status, 0), other);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << "rank 1 failed, see above; status " << status;
  });
}

} // namespace mpc::runtime::test
