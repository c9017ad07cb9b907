// One rank of the tests of MPI, started by mpirun: MODE [TIMEOUT_MS].
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
  // Thirds are rounded, so another order of the sum gives other bits.
  std::vector<float> values(300001);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i + 1) /
                (3.0f + static_cast<float>(7 * ranks.rank()));
  // The runtime calls from a thread of its own.
  Status status;
  std::thread([&] {
    status =
        ranks.allReduce(values.data(), values.size(), DType::F32, Reduce::Mean);
  }).join();
  if (status.ok())
    status = ranks.barrier();
  if (!status.ok()) {
    const int code = fail(status);
    connected->reset();
    return code;
  }
  std::printf("hash %llx by %s\n", hash(values),
              std::string(ranks.backend()).c_str());
  return 0;
}
