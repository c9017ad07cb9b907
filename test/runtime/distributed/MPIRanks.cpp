// One rank of the tests of MPI and Gloo, started by mpirun or by the variables
// of torchrun: MODE [TIMEOUT_MS].
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/Connect.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

using namespace mpc::runtime;

static int fail(const Status &status) {
  std::fprintf(stderr, "failed: %s\n", status.message().c_str());
  return static_cast<int>(status.getCode());
}

/// Returns a hash of the bits.
static unsigned long long hash(const std::vector<float> &values) {
  unsigned long long result = 1469598103934665603u;
  for (float value : values) {
    uint32_t bits;
    std::memcpy(&bits, &value, sizeof(bits));
    result = (result ^ bits) * 1099511628211u;
  }
  return result;
}

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "sum";
  ConnectOptions options;
  if (argc > 2)
    options.rankTimeout = std::chrono::milliseconds(std::atoi(argv[2]));
  StatusOr<Launch> launch = Launch::find();
  if (!launch.ok())
    return fail(launch.status());
  if (mode == "absent" && launch->rank == 1) {
    std::this_thread::sleep_for(std::chrono::seconds(30));
    return 0;
  }
  auto connected = connect(*launch, options);
  if (!connected.ok())
    return fail(connected.status());
  if (!*connected) {
    std::printf("one rank\n");
    return 0;
  }
  Communicator &ranks = **connected;
  if (mode == "late" && ranks.rank() == 1)
    std::this_thread::sleep_for(std::chrono::seconds(30));
  if (mode == "abort" && ranks.rank() == 1)
    ranks.abort(Status(StatusCode::Numeric, "the loss is not finite"));
  if (mode == "quit" && ranks.rank() == 1)
    return 3;
  // Thirds are rounded, so another order of the sum gives other bits.
  std::vector<float> values(300001);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i + 1) /
                (3.0f + static_cast<float>(7 * ranks.rank()));
  // Long messages, so that a signal meets one in flight.
  Status status;
  if (mode == "endless") {
    values.resize(8 << 20);
    while (status.ok())
      status = ranks.allReduce(values.data(), values.size(), DType::F32,
                               Reduce::Mean);
  }
  // Short data, and long data that the ranks cannot divide.
  if (mode == "broadcast")
    for (size_t count : {1, 1000, 300001}) {
      std::vector<float> copy = values;
      const int root = ranks.size() - 1;
      status = ranks.broadcast(copy.data(), count * sizeof(float), root);
      for (size_t i = 0; i < count && status.ok(); ++i)
        if (copy[i] !=
            static_cast<float>(i + 1) / (3.0f + static_cast<float>(7 * root)))
          status = Status(StatusCode::Internal, "wrong broadcast");
      if (!status.ok())
        return fail(status);
    }
  // The runtime calls from a thread of its own.
  std::thread([&] {
    if (status.ok())
      status = ranks.allReduce(values.data(), values.size(), DType::F32,
                               Reduce::Mean);
  }).join();
  if (status.ok())
    status = ranks.barrier();
  if (!status.ok()) {
    int code = fail(status);
    if (status.getCode() == StatusCode::Rank)
      code = static_cast<int>(ranks.failureCode());
    connected->reset();
    return code;
  }
  std::printf("hash %llx by %s\n", hash(values),
              std::string(ranks.backend()).c_str());
  return 0;
}
