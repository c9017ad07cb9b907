// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/MachineRoof.h"

#include "runtime/cpu/Convert.h"
#include "runtime/cpu/WorkerPool.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>

namespace mpc::runtime {
namespace {

using Memory = std::unique_ptr<std::byte, decltype(&std::free)>;

/// Measures with one pool of threads.
class RoofMeter {
public:
  RoofMeter(ContractionProvider &provider, int threads)
      : provider(provider), pool(threads) {}

  StatusOr<MachineRoof> measure();

private:
  StatusOr<double> measureProducts(DType type);
  Status measureBandwidths(std::vector<Bandwidth> &found);

  ContractionProvider &provider;
  WorkerPool pool;
};

} // namespace

/// The seconds for measuring a rate. The best run within this time counts.
static constexpr double kRoofSeconds = 0.06;

static Memory allocateAligned(size_t bytes) {
  return {static_cast<std::byte *>(
              std::aligned_alloc(64, (bytes + 64) & ~size_t(63))),
          &std::free};
}

/// Returns the seconds of the fastest run in kRoofSeconds, but runs at least
/// three times: the first run also loads code and memory.
template <typename Run>
static double findLeastSeconds(Run &&run) {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  double least = 0;
  for (int runs = 0;
       runs < 3 || std::chrono::duration<double>(Clock::now() - start).count() <
                       kRoofSeconds;
       ++runs) {
    const auto begin = Clock::now();
    run();
    const double seconds =
        std::chrono::duration<double>(Clock::now() - begin).count();
    least = runs == 0 ? seconds : std::min(least, seconds);
  }
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
  return roof;
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
