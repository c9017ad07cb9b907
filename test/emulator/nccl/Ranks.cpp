// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/nccl/Ranks.h"

#include "test/emulator/Element.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sys/mman.h>
#include <unistd.h>

using namespace mpc::emulator;

namespace {
constexpr int kMaxRanks = 8;
constexpr size_t kChunkBytes = size_t(256) << 10;

/// The part of a rank in the shared memory, which is zero at first. Only the
/// rank writes.
struct Slot {
  std::atomic<int> process; ///< 0 before the rank joins
  int ranks, device;
  std::atomic<bool> hasFinalized;
  /// The chunks that the rank has posted, and has read from all ranks.
  std::atomic<uint64_t> posted, read;
  Exchange exchange; ///< of the posted chunk
  alignas(64) std::byte data[kChunkBytes];
};
} // namespace

struct Ranks::Shared {
  Slot slots[kMaxRanks];
};

size_t mpc::emulator::sizeOf(int type) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return type >= 0 && type < 10 ? kSizes[type] : 0;
}

double mpc::emulator::loadScale(const void *scalar, int type) {
  const Element element = type == ncclFloat16   ? Element::F16
                          : type == ncclFloat32 ? Element::F32
                          : type == ncclFloat64 ? Element::F64
                                                : Element::BF16;
  return load<double>(scalar, 0, element);
}

const char *Exchange::name() const {
  return kind == Kind::AllReduce ? "ncclAllReduce"
         : kind == Kind::Reduce  ? "ncclReduce"
                                 : "ncclBroadcast";
}

std::string Exchange::describe() const {
  return std::string(name()) + " of count " + std::to_string(count) +
         ", type " + std::to_string(type) + ", operation " +
         std::to_string(operation) + ", scale " + std::to_string(scale) +
         ", root " + std::to_string(root);
}

bool Exchange::operator==(const Exchange &other) const {
  return kind == other.kind && count == other.count && type == other.type &&
         operation == other.operation && scale == other.scale &&
         root == other.root;
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

namespace {
/// The same elements of all ranks, in their order.
struct Parts {
  const std::byte *const *data;
  int ranks;
};
} // namespace

template <class T>
static void reduceIntegers(const Parts &parts, void *result, uint64_t count,
                           bool isMax) {
  for (uint64_t i = 0; i < count; ++i) {
    auto at = [&](int rank) {
      return reinterpret_cast<const T *>(parts.data[rank])[i];
    };
    T value = at(0);
    for (int rank = 1; rank < parts.ranks; ++rank)
      value = isMax ? std::max(value, at(rank)) : T(value + at(rank));
    static_cast<T *>(result)[i] = value;
  }
}

/// Rounds each product and each sum to the type, as the kernels of NCCL do.
template <class T>
static void reduceFloats(const Parts &parts, void *result, uint64_t count,
                         Element element, const Exchange &reduction) {
  auto round = [&](T value) {
    double place = 0;
    store<T>(&place, 0, element, value);
    return load<T>(&place, 0, element);
  };
  const T scale = round(static_cast<T>(reduction.scale));
  for (uint64_t i = 0; i < count; ++i) {
    auto at = [&](int rank) {
      return round(scale * load<T>(parts.data[rank], i, element));
    };
    T value = at(0);
    for (int rank = 1; rank < parts.ranks; ++rank)
      value = reduction.operation == ncclMax ? std::max(value, at(rank))
                                             : round(value + at(rank));
    store<T>(result, i, element, value);
  }
}

static void reduceParts(const Parts &parts, void *result, uint64_t count,
                        const Exchange &reduction) {
  const bool isMax = reduction.operation == ncclMax;
  switch (reduction.type) {
  case ncclInt8:
    return reduceIntegers<int8_t>(parts, result, count, isMax);
  case ncclUint8:
    return reduceIntegers<uint8_t>(parts, result, count, isMax);
  case ncclInt32:
    return reduceIntegers<int32_t>(parts, result, count, isMax);
  case ncclUint32:
    return reduceIntegers<uint32_t>(parts, result, count, isMax);
  case ncclInt64:
    return reduceIntegers<int64_t>(parts, result, count, isMax);
  case ncclUint64:
    return reduceIntegers<uint64_t>(parts, result, count, isMax);
  case ncclFloat16:
    return reduceFloats<float>(parts, result, count, Element::F16, reduction);
  case ncclBfloat16:
    return reduceFloats<float>(parts, result, count, Element::BF16, reduction);
  case ncclFloat32:
    return reduceFloats<float>(parts, result, count, Element::F32, reduction);
  case ncclFloat64:
    return reduceFloats<double>(parts, result, count, Element::F64, reduction);
  }
}

//===----------------------------------------------------------------------===//
// Ranks
//===----------------------------------------------------------------------===//

std::string Ranks::create() {
  const char *folder = std::getenv("TMPDIR");
  std::string path = std::string(folder ? folder : "/tmp") + "/mpc-nccl-XXXXXX";
  const int file = mkstemp(path.data());
  if (file < 0)
    return "";
  const bool isSized = ftruncate(file, sizeof(Shared)) == 0;
  close(file);
  return isSized ? path : "";
}

std::shared_ptr<Ranks> Ranks::join(const std::string &path, int ranks, int rank,
                                   int device) {
  if (ranks > kMaxRanks)
    return nullptr;
  const int file = open(path.c_str(), O_RDWR);
  if (file < 0)
    return nullptr;
  void *memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                      MAP_SHARED, file, 0);
  close(file);
  if (memory == MAP_FAILED)
    return nullptr;
  std::shared_ptr<Ranks> joined(
      new Ranks(path, static_cast<Shared *>(memory), ranks, rank));
  Slot &own = joined->shared->slots[rank];
  if (own.process)
    return nullptr;
  own.ranks = ranks;
  own.device = device;
  own.process = getpid();
  return joined;
}

Ranks::~Ranks() {
  munmap(shared, sizeof(Shared));
  // The others have joined by now, or never will.
  if (rank == 0)
    unlink(path.c_str());
}

/// True if the process runs. A process that has ended, but was not awaited yet,
/// does not run.
static bool isAlive(int process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string text;
  if (!std::getline(file, text))
    return false;
  // "12 (name) S ...": the name may contain anything.
  const size_t end = text.rfind(')');
  return end != std::string::npos && text.compare(end, 3, ") Z") != 0;
}

ncclResult_t Ranks::getState() const {
  bool haveJoined = true;
  for (int other = 0; other < ranks; ++other) {
    const Slot &slot = shared->slots[other];
    const int process = slot.process;
    if (!process) {
      haveJoined = false;
      continue;
    }
    if (slot.ranks != ranks)
      return ncclInvalidUsage;
    for (int before = 0; before < other; ++before)
      if (shared->slots[before].process &&
          shared->slots[before].device == slot.device)
        return ncclInvalidUsage;
    if (!slot.hasFinalized && !isAlive(process))
      return ncclRemoteError;
  }
  return haveJoined ? ncclSuccess : ncclInProgress;
}

bool Ranks::haveRead(uint64_t chunks) const {
  return std::all_of(shared->slots, shared->slots + ranks,
                     [&](const Slot &slot) { return slot.read >= chunks; });
}

bool Ranks::havePosted(uint64_t chunks) const {
  return std::all_of(shared->slots, shared->slots + ranks,
                     [&](const Slot &slot) { return slot.posted >= chunks; });
}

bool Ranks::run(void *data, const Exchange &exchange, std::string &fault) {
  if (isAborted)
    return true;
  const size_t width = sizeOf(exchange.type);
  Slot &own = shared->slots[rank];
  while (offset < exchange.count) {
    const uint64_t count =
        std::min<uint64_t>(exchange.count - offset, kChunkBytes / width);
    std::byte *elements = static_cast<std::byte *>(data) + offset * width;
    if (!isPosted) {
      if (!haveRead(chunk))
        return false;
      std::memcpy(own.data, elements, count * width);
      own.exchange = exchange;
      own.posted = chunk + 1;
      isPosted = true;
    }
    if (!havePosted(chunk + 1))
      return false;
    const std::byte *parts[kMaxRanks] = {};
    for (int other = 0; other < ranks; ++other) {
      const Slot &slot = shared->slots[other];
      parts[other] = slot.data;
      if (slot.exchange == exchange)
        continue;
      fault = "rank " + std::to_string(other) + " calls " +
              slot.exchange.describe() + "; rank " + std::to_string(rank) +
              " calls " + exchange.describe();
      return true;
    }
    // Only the root of a reduction gets elements.
    if (exchange.kind == Kind::Broadcast)
      std::memcpy(elements, parts[exchange.root], count * width);
    else if (exchange.kind == Kind::AllReduce || exchange.root == rank)
      reduceParts({parts, ranks}, elements, count, exchange);
    own.read = ++chunk;
    isPosted = false;
    offset += count;
  }
  offset = 0;
  return true;
}

void Ranks::finalize() { shared->slots[rank].hasFinalized = true; }

bool Ranks::haveAllFinalized() const {
  return std::all_of(shared->slots, shared->slots + ranks,
                     [](const Slot &slot) { return slot.hasFinalized.load(); });
}
