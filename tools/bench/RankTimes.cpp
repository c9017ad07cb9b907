// mpc-rank-times: measures the all-reduce of several ranks beside that of their
// MPI library, for tools/bench/ranks.
//
//   mpirun -n N mpc-rank-times SECONDS BYTES...
//
// Reduces each number of bytes as f32, bf16 and f16 in turn with MPI's
// MPI_Allreduce of floats, for SECONDS. Prints a JSON line for each size and
// type: {"ranks", "bytes", "type", "ms", "gb_s", "cpu_ms"}. The type "mpi" is
// MPI's sum. Milliseconds are those of a call on rank 0: the median, and the
// median processor time. "gb_s" are the 10^9 bytes a second that each rank
// would send by the shortest algorithm, as nccl-tests counts them.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Tensor.h"
#include "runtime/distributed/Connect.h"
#include "runtime/distributed/MPIABI.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace mpc::runtime;

namespace {

/// Sums `count` floats at `data` over all ranks.
using Sum = std::function<Status(void *data, size_t count)>;

struct Contender {
  std::string name;
  Sum reduce;
  size_t width; ///< of an element
  std::vector<double> ms = {}, cpuMs = {};
};

} // namespace

static int fail(const Status &status) {
  std::fprintf(stderr, "mpc-rank-times: %s\n", status.message().c_str());
  return static_cast<int>(status.getCode());
}

static double secondsOf(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

static double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// Finds MPI_Allreduce in the library that the communicator has loaded.
template <typename Handle>
static Sum findMPI(Handle type, Handle sum, Handle world, intptr_t inPlace) {
  using AllReduce = int (*)(const void *, void *, int, Handle, Handle, Handle);
  const auto call =
      reinterpret_cast<AllReduce>(dlsym(RTLD_DEFAULT, "MPI_Allreduce"));
  return [=](void *data, size_t count) {
    const int code = call ? call(reinterpret_cast<void *>(inPlace), data,
                                 static_cast<int>(count), type, sum, world)
                          : -1;
    return code == kMPISuccess
               ? Status()
               : Status(StatusCode::Rank, "MPI_Allreduce failed with code " +
                                              std::to_string(code));
  };
}

static Sum findMPI() {
  if (void *world = dlsym(RTLD_DEFAULT, kOpenMPIWorld))
    return findMPI<OpenMPIHandle>(dlsym(RTLD_DEFAULT, "ompi_mpi_float"),
                                  dlsym(RTLD_DEFAULT, "ompi_mpi_op_sum"), world,
                                  kOpenMPIInPlace);
  constexpr int kFloat = 0x4c00040a, kSum = 0x58000003;
  return findMPI<MPICHHandle>(kFloat, kSum, kMPICHWorld, kMPICHInPlace);
}

/// Runs the contenders in turn, the same number of times on all ranks.
static Status measure(Communicator &ranks, std::vector<Contender> &contenders,
                      size_t bytes, double seconds) {
  std::vector<float> data(bytes / sizeof(float));
  const double end = secondsOf(CLOCK_MONOTONIC) + seconds;
  constexpr int kFewest = 3;
  for (int64_t round = 0, goesOn = 1; goesOn; ++round) {
    for (Contender &contender : contenders) {
      std::fill(data.begin(), data.end(), 0.0f);
      if (Status status = ranks.barrier(); !status.ok())
        return status;
      const double start = secondsOf(CLOCK_MONOTONIC);
      const double cpuStart = secondsOf(CLOCK_THREAD_CPUTIME_ID);
      if (Status status =
              contender.reduce(data.data(), bytes / contender.width);
          !status.ok())
        return status;
      contender.ms.push_back((secondsOf(CLOCK_MONOTONIC) - start) * 1e3);
      contender.cpuMs.push_back(
          (secondsOf(CLOCK_THREAD_CPUTIME_ID) - cpuStart) * 1e3);
    }
    goesOn = round < kFewest || secondsOf(CLOCK_MONOTONIC) < end;
    if (Status status = ranks.broadcast(&goesOn, sizeof(goesOn), 0);
        !status.ok())
      return status;
  }
  return Status();
}

static void print(const Communicator &ranks, size_t bytes,
                  const Contender &contender) {
  const double count = ranks.size(), ms = median(contender.ms);
  std::printf("{\"ranks\": %d, \"bytes\": %zu, \"type\": \"%s\", \"ms\": %.4f, "
              "\"gb_s\": %.3f, \"cpu_ms\": %.4f}\n",
              ranks.size(), bytes, contender.name.c_str(), ms,
              double(bytes) * 2 * (count - 1) / count / ms * 1e-6,
              median(contender.cpuMs));
  std::fflush(stdout);
}

static Status measureAll(Communicator &ranks, double seconds,
                         const std::vector<size_t> &sizes) {
  for (size_t bytes : sizes) {
    std::vector<Contender> contenders;
    for (DType type : {DType::F32, DType::BF16, DType::F16})
      contenders.push_back({std::string(stringify(type)),
                            [&ranks, type](void *data, size_t count) {
                              return ranks.allReduce(data, count, type,
                                                     Reduce::Mean);
                            },
                            static_cast<size_t>(sizeOf(type))});
    contenders.push_back({"mpi", findMPI(), sizeof(float)});
    if (Status status = measure(ranks, contenders, bytes, seconds);
        !status.ok())
      return status;
    if (ranks.isFirst())
      for (const Contender &contender : contenders)
        print(ranks, bytes, contender);
  }
  return Status();
}

int main(int argc, char **argv) {
  if (argc < 3) {
    std::fprintf(stderr, "mpc-rank-times: expected SECONDS BYTES...\n");
    return static_cast<int>(StatusCode::Usage);
  }
  std::vector<size_t> sizes;
  for (int i = 2; i < argc; ++i)
    sizes.push_back(std::strtoull(argv[i], nullptr, 10) / 4 * 4);
  StatusOr<Launch> launch = Launch::find();
  if (!launch.ok())
    return fail(launch.status());
  auto connected = connect(*launch);
  if (!connected.ok())
    return fail(connected.status());
  if (!*connected)
    return fail(Status(StatusCode::Usage,
                       "there is one rank; start several by mpirun -n 2"));
  if (Status status = measureAll(**connected, std::atof(argv[1]), sizes);
      !status.ok()) {
    (*connected)->abort(status);
    return fail(status);
  }
  return 0;
}
