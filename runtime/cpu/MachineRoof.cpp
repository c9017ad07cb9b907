// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/MachineRoof.h"

#include "runtime/cpu/Convert.h"
#include "runtime/cpu/WorkerPool.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <memory>
#include <unistd.h>

namespace mpc::runtime {
namespace {

using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

/// Sums the time that the threads of this process were ready to run and had no
/// core. Knows the threads that exist when it is made. Finds no time if the
/// system does not tell.
class CoreWait {
public:
  CoreWait();
  ~CoreWait();
  CoreWait(const CoreWait &) = delete;
  CoreWait &operator=(const CoreWait &) = delete;

  double seconds() const;

private:
  std::vector<int> files; ///< /proc/self/task/THREAD/schedstat, open
};

/// Measures with one pool of threads.
class RoofMeter {
public:
  RoofMeter(ContractionProvider &provider, int threads)
      : provider(provider), pool(threads) {}

  StatusOr<MachineRoof> measure();

private:
  template <typename Run>
  double findLeastSeconds(Run &&run);
  StatusOr<double> measureProducts(DType type);
  Status measureBandwidths(std::vector<Bandwidth> &found);

  ContractionProvider &provider;
  WorkerPool pool;
  CoreWait wait; ///< made after the threads of the pool
  bool isBusy = false;
};

} // namespace

/// The seconds for measuring a rate. The best run within this time counts.
static constexpr double kRoofSeconds = 0.06;
/// The seconds after which a rate counts as measured, even if other programs
/// had the cores in each run.
static constexpr double kMostRoofSeconds = 3 * kRoofSeconds;
/// The part of a run that each thread may wait for a core.
static constexpr double kFewWaits = 0.02;

//===----------------------------------------------------------------------===//
// Waiting for cores
//===----------------------------------------------------------------------===//

CoreWait::CoreWait() {
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc/self/task", error), end;
       !error && it != end; it.increment(error)) {
    const int file =
        open((it->path() / "schedstat").c_str(), O_RDONLY | O_CLOEXEC);
    if (file >= 0)
      files.push_back(file);
  }
}

CoreWait::~CoreWait() {
  for (const int file : files)
    close(file);
}

double CoreWait::seconds() const {
  double nanoseconds = 0;
  for (const int file : files) {
    // The nanoseconds on a core, the nanoseconds of waiting, and a count.
    char text[96];
    const ssize_t size = pread(file, text, sizeof(text) - 1, 0);
    if (size <= 0)
      continue;
    text[size] = '\0';
    char *rest = nullptr;
    std::strtoull(text, &rest, 10);
    nanoseconds += double(std::strtoull(rest, nullptr, 10));
  }
  return nanoseconds * 1e-9;
}

//===----------------------------------------------------------------------===//
// The fastest run
//===----------------------------------------------------------------------===//

static Memory allocateAligned(size_t bytes) {
  return {static_cast<std::byte *>(
              std::aligned_alloc(64, (bytes + 64) & ~size_t(63))),
          &std::free};
}

/// Returns the seconds of the fastest run in kRoofSeconds, but runs at least
/// three times: the first run also loads code and memory. Goes on, up to
/// kMostRoofSeconds, until no other program had the cores in a run.
template <typename Run>
double RoofMeter::findLeastSeconds(Run &&run) {
  using Clock = std::chrono::steady_clock;
  const auto since = [](Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  };
  const auto start = Clock::now();
  double least = 0;
  bool wasAlone = false;
  for (int runs = 0;
       runs < 3 || since(start) < (wasAlone ? kRoofSeconds : kMostRoofSeconds);
       ++runs) {
    const double waited = wait.seconds();
    const auto begin = Clock::now();
    run();
    const double seconds = since(begin);
    least = runs == 0 ? seconds : std::min(least, seconds);
    wasAlone |= runs > 0 &&
                wait.seconds() - waited <= kFewWaits * seconds * pool.size();
  }
  isBusy |= !wasAlone;
  return least;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

/// Returns a matrix of numbers between -1 and 1.
static Memory makeMatrix(DType type, int64_t elements) {
  Memory memory = allocateAligned(static_cast<size_t>(elements * sizeOf(type)));
  if (!memory)
    return memory;
  std::vector<float> row(1024);
  for (size_t i = 0; i < row.size(); ++i)
    row[i] = float(int(i * 37 % 101) - 50) / 50;
  const auto length = static_cast<int64_t>(row.size());
  for (int64_t at = 0; at < elements; at += length)
    narrow(type, row.data(), memory.get() + at * sizeOf(type),
           std::min(length, elements - at));
  return memory;
}

StatusOr<double> RoofMeter::measureProducts(DType type) {
  constexpr int64_t kSide = 1024, kTile = 256;
  // 16 tiles per 1024 rows: every thread has one or more.
  const int64_t blocks = (pool.size() + 15) / 16;
  MatMulStep step;
  step.m = kSide * blocks;
  step.n = step.k = kSide;
  step.lda = step.ldb = step.ldc = kSide;
  step.strideA = step.strideC = step.m * kSide;
  step.strideB = kSide * kSide;
  step.tileM = step.tileN = kTile;
  const Memory a = makeMatrix(type, step.m * step.k);
  const Memory b = makeMatrix(type, step.k * step.n);
  const Memory c = makeMatrix(DType::F32, step.m * step.n);
  if (!a || !b || !c)
    return Status(StatusCode::IO, "out of memory");
  auto made = provider.prepare(step,
                               {{type, a.get()},
                                {type, b.get()},
                                {DType::F32, c.get()},
                                EpilogueCall(),
                                Operand()},
                               pool.size());
  if (!made.ok())
    return made.status();
  Contraction &product = **made;
  const Memory shared = allocateAligned(product.sharedBytes());
  std::vector<Memory> scratch;
  for (int worker = 0; worker < pool.size(); ++worker)
    scratch.push_back(allocateAligned(product.scratchBytes()));
  if (!shared || !std::all_of(scratch.begin(), scratch.end(),
                              [](const Memory &memory) { return !!memory; }))
    return Status(StatusCode::IO, "out of memory");
  std::atomic<bool> failed{false};
  const double seconds = findLeastSeconds([&] {
    for (size_t phase = 0; phase < product.phases().size(); ++phase)
      pool.parallelFor(product.phases()[phase], [&](int64_t slice, int worker) {
        const SliceContext context{worker, shared.get(),
                                   scratch[size_t(worker)].get()};
        if (!product.runSlice(phase, slice, context).ok())
          failed = true;
      });
  });
  if (failed)
    return Status(StatusCode::Internal, "a product could not be measured");
  return 2.0 * double(step.m) * double(step.n) * double(step.k) / seconds;
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

Status RoofMeter::measureBandwidths(std::vector<Bandwidth> &found) {
  constexpr int64_t kLeast = 64 << 10, kMost = 128 << 20, kGrowth = 4;
  const int64_t threads = pool.size();
  const Memory source = allocateAligned(kMost / 2);
  const Memory target = allocateAligned(kMost / 2);
  if (!source || !target)
    return Status(StatusCode::IO, "out of memory");
  const int64_t most = kMost / 2 / threads;
  pool.parallelFor(threads, [&](int64_t slice, int) {
    std::memset(source.get() + slice * most, 1, size_t(most));
    std::memset(target.get() + slice * most, 1, size_t(most));
  });
  std::atomic<int> sink{0};
  for (int64_t bytes = kLeast; bytes <= kMost;
       bytes = bytes < kMost ? std::min(bytes * kGrowth, kMost) : kMost + 1) {
    // Each thread copies and compares its own parts of both arrays. memcpy and
    // memcmp use the widest vectors of the CPU.
    const int64_t part = std::max<int64_t>(bytes / 2 / threads / 64 * 64, 64);
    const int64_t rounds = std::max<int64_t>(1, (8 << 20) / (2 * part));
    auto move = [&](bool isCopy) {
      pool.parallelFor(threads, [&](int64_t slice, int) {
        std::byte *from = source.get() + slice * most;
        std::byte *to = target.get() + slice * most;
        for (int64_t round = 0; round < rounds; ++round) {
          if (isCopy)
            std::memcpy(to, from, size_t(part));
          else
            sink += std::memcmp(to, from, size_t(part));
        }
      });
    };
    const double least =
        std::min(findLeastSeconds([&] { move(/*isCopy=*/true); }),
                 findLeastSeconds([&] { move(/*isCopy=*/false); }));
    found.push_back({bytes, double(2 * part * rounds * threads) / least});
  }
  // Small amounts suffer from the start of the threads, and noise raises
  // others. A larger amount can never be faster.
  for (size_t i = found.size() - 1; i-- > 0;)
    found[i].rate = std::max(found[i].rate, found[i + 1].rate);
  return Status();
}

StatusOr<MachineRoof> RoofMeter::measure() {
  MachineRoof roof;
  for (auto [type, rate] : {std::pair(DType::F32, &roof.products.f32),
                            {DType::BF16, &roof.products.bf16},
                            {DType::F16, &roof.products.f16}}) {
    StatusOr<double> measured = measureProducts(type);
    if (!measured.ok())
      return measured.status();
    *rate = *measured;
  }
  if (Status status = measureBandwidths(roof.bandwidths); !status.ok())
    return status;
  roof.isBusy = isBusy;
  return roof;
}

MachineRoof joinRoofs(MachineRoof first, const MachineRoof &second) {
  const auto raise = [](double &rate, double other) {
    rate = std::max(rate, other);
  };
  raise(first.products.f32, second.products.f32);
  raise(first.products.bf16, second.products.bf16);
  raise(first.products.f16, second.products.f16);
  for (Bandwidth &bandwidth : first.bandwidths)
    for (const Bandwidth &other : second.bandwidths)
      if (other.bytes == bandwidth.bytes)
        raise(bandwidth.rate, other.rate);
  first.isBusy &= second.isBusy;
  return first;
}

StatusOr<MachineRoof> measureRoof(const std::vector<std::string> &features,
                                  int threads) {
  auto provider = OneDNNProvider::create(features);
  if (!provider.ok())
    return provider.status();
  return RoofMeter(**provider, threads).measure();
}

std::string hostCPUName() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (line.rfind("model name", 0) == 0)
      if (const size_t colon = line.find(": "); colon != std::string::npos)
        return line.substr(colon + 2);
  return "unknown CPU";
}

} // namespace mpc::runtime
