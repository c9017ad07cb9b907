// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/HostCommunicator.h"

#include "runtime/Tensor.h"
#include "runtime/distributed/Reduction.h"
#include "runtime/distributed/RowReduction.h"
#include "runtime/distributed/SharedCollectives.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace mpc::runtime {

/// Up to this size, a single call that sends everything to everybody is faster
/// than two calls with shares.
static constexpr size_t kSmallBytes = 16 << 10;
/// The scratch memory for the blocks of all ranks, as long as the blocks do not
/// get shorter than the second constant.
static constexpr size_t kScratchBytes = 16 << 20;
static constexpr size_t kLeastBlock = 64 << 10;
/// MPI counts bytes by `int`.
static constexpr size_t kMaxMessage = size_t(1) << 30;

static void ensure(std::vector<std::byte> &memory, size_t bytes) {
  if (memory.size() < bytes)
    memory.resize(bytes);
}

static size_t widthOf(DType type) { return static_cast<size_t>(sizeOf(type)); }

HostCommunicator::HostCommunicator(int rank, int size)
    : Communicator(rank, size) {}

HostCommunicator::~HostCommunicator() = default;

//===----------------------------------------------------------------------===//
// Shared memory
//===----------------------------------------------------------------------===//

Status HostCommunicator::shareMemory() {
  callName = "start";
  callBytes = 0;
  std::unique_ptr<SharedBlocks> blocks;
  SharedBlocks::Name name = {};
  if (isFirst()) {
    StatusOr<std::unique_ptr<SharedBlocks>> created =
        SharedBlocks::create(size());
    if (created.ok()) {
      blocks = std::move(*created);
      name = blocks->name();
    }
  }
  if (Status status =
          broadcastAll(reinterpret_cast<std::byte *>(&name), sizeof(name), 0);
      !status.ok())
    return status;
  if (!isFirst() && name.process != 0) {
    StatusOr<std::unique_ptr<SharedBlocks>> opened =
        SharedBlocks::open(name, rank(), size());
    if (opened.ok())
      blocks = std::move(*opened);
  }
  // Ranks that cannot open the memory are on other machines, and exchange
  // through the library. Then all do.
  std::vector<std::byte> haveOpened(static_cast<size_t>(size()));
  haveOpened[static_cast<size_t>(rank())] = std::byte(blocks ? 1 : 0);
  if (Status status = gather(haveOpened.data(), 1); !status.ok())
    return status;
  if (std::count(haveOpened.begin(), haveOpened.end(), std::byte(0)) > 0)
    return Status();
  blocks->closeName();
  shared = std::make_unique<SharedCollectives>(
      std::move(blocks), rank(), size(),
      [this](SharedCollectives::Time start, int awaited) {
        return checkWait(start, awaited);
      });
  return Status();
}

Status HostCommunicator::checkWait(std::chrono::steady_clock::time_point, int) {
  return Status();
}

size_t HostCommunicator::bytesSent() const {
  return sent + bytesSentBeside() + (shared ? shared->bytesSent() : 0);
}

//===----------------------------------------------------------------------===//
// Calls of the library, counted
//===----------------------------------------------------------------------===//

Status HostCommunicator::exchange(const std::byte *from, std::byte *to,
                                  size_t bytes) {
  sent += bytes * static_cast<size_t>(size() - 1);
  return exchangeBlocks(from, to, bytes);
}

Status HostCommunicator::gather(std::byte *data, size_t bytes) {
  if (bytes <= kMaxMessage) {
    sent += bytes * static_cast<size_t>(size() - 1);
    return gatherBlocks(data, bytes);
  }
  for (int root = 0; root < size(); ++root)
    if (Status status =
            broadcastAll(data + static_cast<size_t>(root) * bytes, bytes, root);
        !status.ok())
      return status;
  return Status();
}

Status HostCommunicator::broadcastAll(std::byte *data, size_t bytes, int root) {
  // In a ring, the rank before the root forwards nothing.
  if ((rank() + 1) % size() != root)
    sent += bytes;
  for (size_t offset = 0; offset < bytes; offset += kMaxMessage)
    if (Status status = broadcastBlock(
            data + offset, std::min(kMaxMessage, bytes - offset), root);
        !status.ok())
      return status;
  return Status();
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

size_t HostCommunicator::elementsPerBlock(DType type) const {
  const size_t block =
      std::max(kLeastBlock, kScratchBytes / static_cast<size_t>(size()));
  return block / widthOf(type);
}

/// Reduces a multiple of size() elements, at most a block for each rank.
Status HostCommunicator::reduceInPlace(std::byte *data, size_t count,
                                       DType type, Reduce kind) {
  const size_t ranks = static_cast<size_t>(size());
  const size_t share = count / ranks;
  const size_t bytes = share * widthOf(type);
  ensure(received, ranks * bytes);
  if (Status status = exchange(data, received.data(), bytes); !status.ok())
    return status;
  reduceParts(received.data(), bytes, ranks,
              data + static_cast<size_t>(rank()) * bytes, share, type, kind);
  return gather(data, bytes);
}

/// Reduces few elements: each rank gets the elements of all ranks.
Status HostCommunicator::reduceGathered(std::byte *data, size_t count,
                                        DType type, Reduce kind) {
  const size_t ranks = static_cast<size_t>(size());
  const size_t bytes = count * widthOf(type);
  ensure(received, ranks * bytes);
  std::memcpy(received.data() + static_cast<size_t>(rank()) * bytes, data,
              bytes);
  if (Status status = gather(received.data(), bytes); !status.ok())
    return status;
  reduceParts(received.data(), bytes, ranks, data, count, type, kind);
  return Status();
}

/// Reduces any number of elements up to a block for each rank, after padding
/// them to a multiple of size().
Status HostCommunicator::reducePadded(std::byte *data, size_t count, DType type,
                                      Reduce kind) {
  const size_t ranks = static_cast<size_t>(size());
  const size_t padded = (count + ranks - 1) / ranks * ranks;
  if (padded == count)
    return reduceInPlace(data, count, type, kind);
  const size_t bytes = count * widthOf(type);
  const size_t paddedBytes = padded * widthOf(type);
  ensure(packed, paddedBytes);
  std::memcpy(packed.data(), data, bytes);
  std::memset(packed.data() + bytes, 0, paddedBytes - bytes);
  if (Status status = reduceInPlace(packed.data(), padded, type, kind);
      !status.ok())
    return status;
  std::memcpy(data, packed.data(), bytes);
  return Status();
}

//===----------------------------------------------------------------------===//
// Blocks of different sizes
//===----------------------------------------------------------------------===//

static size_t largestOf(const std::vector<size_t> &sizes) {
  return *std::max_element(sizes.begin(), sizes.end());
}

Status HostCommunicator::exchangeUneven(const std::byte *from, std::byte *to,
                                        const std::vector<size_t> &sizes) {
  const size_t most = largestOf(sizes), own = sizes[size_t(rank())];
  ensure(padded, 2 * most * sizes.size());
  std::byte *theirs = padded.data() + most * sizes.size();
  for (size_t part = 0; part < sizes.size(); from += sizes[part++])
    std::memcpy(padded.data() + part * most, from, sizes[part]);
  if (Status status = exchange(padded.data(), theirs, most); !status.ok())
    return status;
  for (size_t part = 0; part < sizes.size(); ++part)
    std::memcpy(to + part * own, theirs + part * most, own);
  return Status();
}

Status HostCommunicator::gatherUneven(std::byte *data,
                                      const std::vector<size_t> &sizes) {
  const size_t most = largestOf(sizes);
  ensure(padded, most * sizes.size());
  std::byte *block = data;
  for (size_t part = 0; part < sizes.size(); block += sizes[part++])
    std::memcpy(padded.data() + part * most, block, sizes[part]);
  if (Status status = gather(padded.data(), most); !status.ok())
    return status;
  block = data;
  for (size_t part = 0; part < sizes.size(); block += sizes[part++])
    std::memcpy(block, padded.data() + part * most, sizes[part]);
  return Status();
}

namespace {
/// The bytes of the parts of one owner, side by side, from `next` on.
class PartStream {
public:
  PartStream(const std::vector<RankPart> &parts, int owner) {
    for (const RankPart &part : parts)
      if (part.owner == owner && part.bytes > 0) {
        own.push_back(part);
        left += part.bytes;
      }
  }

  size_t bytesLeft() const { return left; }
  /// Calls copy(address, bytes) for the next `bytes` bytes, and moves on.
  template <typename Copy>
  void advance(size_t bytes, Copy &&copy) {
    left -= bytes;
    while (bytes > 0) {
      const RankPart &part = own[index];
      const size_t now = std::min(bytes, part.bytes - offset);
      copy(static_cast<std::byte *>(part.data) + offset, now);
      bytes -= now;
      offset += now;
      if (offset == part.bytes) {
        ++index;
        offset = 0;
      }
    }
  }
  void read(std::byte *to, size_t bytes) {
    advance(bytes, [&](const std::byte *from, size_t count) {
      std::memcpy(to, from, count);
      to += count;
    });
  }
  void write(const std::byte *from, size_t bytes) {
    advance(bytes, [&](std::byte *to, size_t count) {
      std::memcpy(to, from, count);
      from += count;
    });
  }

private:
  std::vector<RankPart> own;
  size_t index = 0, offset = 0, left = 0;
};
} // namespace

static std::vector<PartStream> streamsOf(const std::vector<RankPart> &parts,
                                         int ranks) {
  std::vector<PartStream> streams;
  for (int owner = 0; owner < ranks; ++owner)
    streams.emplace_back(parts, owner);
  return streams;
}

/// Returns the sizes of the next blocks: at most `most` bytes each. All are
/// zero at the end.
static std::vector<size_t> nextSizes(const std::vector<PartStream> &streams,
                                     size_t most) {
  std::vector<size_t> sizes;
  for (const PartStream &stream : streams)
    sizes.push_back(std::min(most, stream.bytesLeft()));
  return sizes;
}

static size_t totalOf(const std::vector<size_t> &sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), size_t(0));
}

static size_t totalOf(const std::vector<RankPart> &parts) {
  size_t bytes = 0;
  for (const RankPart &part : parts)
    bytes += part.bytes;
  return bytes;
}

Status HostCommunicator::reduceToOwners(const std::vector<RankPart> &parts,
                                        DType type, Reduce kind) {
  if (Status status = checkReduction(type, kind); !status.ok())
    return status;
  callName = "reduce_scatter";
  callBytes = totalOf(parts);
  const size_t most = elementsPerBlock(type) * widthOf(type);
  std::vector<PartStream> streams = streamsOf(parts, size());
  // Sums are written behind the reads of the same block.
  PartStream sums = streams[size_t(rank())];
  for (;;) {
    const std::vector<size_t> sizes = nextSizes(streams, most);
    const size_t own = sizes[size_t(rank())];
    if (totalOf(sizes) == 0)
      return Status();
    ensure(packed, totalOf(sizes));
    ensure(received, own * sizes.size());
    std::byte *block = packed.data();
    for (size_t owner = 0; owner < sizes.size(); block += sizes[owner++])
      streams[owner].read(block, sizes[owner]);
    if (Status status = exchangeUneven(packed.data(), received.data(), sizes);
        !status.ok())
      return status;
    if (own == 0)
      continue;
    reduceParts(received.data(), own, sizes.size(), packed.data(),
                own / widthOf(type), type, kind);
    sums.write(packed.data(), own);
  }
}

Status HostCommunicator::gatherFromOwners(const std::vector<RankPart> &parts) {
  callName = "all_gather";
  callBytes = totalOf(parts);
  const size_t most =
      std::max(kLeastBlock, kScratchBytes / static_cast<size_t>(size()));
  std::vector<PartStream> streams = streamsOf(parts, size());
  PartStream own = streams[size_t(rank())];
  for (;;) {
    const std::vector<size_t> sizes = nextSizes(streams, most);
    if (totalOf(sizes) == 0)
      return Status();
    ensure(packed, totalOf(sizes));
    own.read(packed.data() + std::accumulate(sizes.begin(),
                                             sizes.begin() + rank(), size_t(0)),
             sizes[size_t(rank())]);
    if (Status status = gatherUneven(packed.data(), sizes); !status.ok())
      return status;
    const std::byte *block = packed.data();
    for (size_t owner = 0; owner < sizes.size(); block += sizes[owner++])
      streams[owner].write(block, sizes[owner]);
  }
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

std::string HostCommunicator::describeCall() const {
  std::string text = callName;
  if (callBytes)
    text += " of " + std::to_string(callBytes) + " bytes";
  return text;
}

Status HostCommunicator::allReduce(void *data, size_t count, DType type,
                                   Reduce kind) {
  if (Status status = checkReduction(type, kind); !status.ok())
    return status;
  callName = "all_reduce";
  callBytes = count * widthOf(type);
  std::byte *next = static_cast<std::byte *>(data);
  if (shared)
    return shared->allReduce(next, count, type, kind);
  const size_t most = elementsPerBlock(type) * static_cast<size_t>(size());
  while (count > 0) {
    const size_t part = std::min(most, count);
    const size_t bytes = part * widthOf(type);
    Status status = bytes <= kSmallBytes
                        ? reduceGathered(next, part, type, kind)
                        : reducePadded(next, part, type, kind);
    if (!status.ok())
      return status;
    next += bytes;
    count -= part;
  }
  return Status();
}

/// Two messages: the numbers of rows, then the rows of all ranks. Each rank
/// adds all of them. If a rank has many rows, the ranks reduce the whole table.
Status HostCommunicator::allReduceRows(void *data, size_t rows,
                                       size_t rowElements, DType type,
                                       Reduce kind) {
  if (Status status = checkReduction(type, kind); !status.ok())
    return status;
  std::byte *table = static_cast<std::byte *>(data);
  const size_t ranks = static_cast<size_t>(size());
  const RowReduction reduction(rows, rowElements, type, kind, ranks,
                               elementsPerBlock(DType::U8));
  if (!reduction.maySend())
    return allReduce(data, rows * rowElements, type, kind);
  const std::vector<uint32_t> own = reduction.findRows(table);
  std::vector<uint32_t> counts = reduction.countRows(own, size_t(rank()));
  if (Status status =
          allGather(counts.data(), counts.size() / ranks * sizeof(counts[0]));
      !status.ok())
    return status;
  const std::vector<uint32_t> longest = reduction.findLongest(counts);
  if (!reduction.sendsLess(longest))
    return allReduce(data, rows * rowElements, type, kind);
  const uint32_t *next = own.data();
  for (size_t section = 0; section < longest.size(); ++section) {
    if (longest[section] == 0)
      continue;
    const size_t bytes = reduction.messageBytes(longest[section]);
    const size_t numOwn = counts[size_t(rank()) * longest.size() + section];
    ensure(packed, ranks * bytes);
    reduction.pack(table, next, numOwn, longest[section],
                   packed.data() + size_t(rank()) * bytes);
    next += numOwn;
    if (Status status = allGather(packed.data(), bytes); !status.ok())
      return status;
    reduction.addRows(packed.data(), counts, section, longest[section], table);
  }
  return Status();
}

Status HostCommunicator::reduceScatter(void *data, size_t count, DType type,
                                       Reduce kind) {
  if (Status status = checkReduction(type, kind); !status.ok())
    return status;
  const size_t ranks = static_cast<size_t>(size());
  const size_t width = widthOf(type);
  callName = "reduce_scatter";
  callBytes = ranks * count * width;
  std::byte *parts = static_cast<std::byte *>(data);
  if (shared)
    return shared->reduceScatter(parts, count, type, kind);
  std::byte *own = parts + static_cast<size_t>(rank()) * count * width;
  const size_t most = elementsPerBlock(type);
  for (size_t begin = 0; begin < count; begin += most) {
    const size_t share = std::min(most, count - begin);
    const size_t bytes = share * width;
    const std::byte *blocks = parts;
    if (share < count) {
      ensure(packed, ranks * bytes);
      for (size_t part = 0; part < ranks; ++part)
        std::memcpy(packed.data() + part * bytes,
                    parts + (part * count + begin) * width, bytes);
      blocks = packed.data();
    }
    ensure(received, ranks * bytes);
    if (Status status = exchange(blocks, received.data(), bytes); !status.ok())
      return status;
    reduceParts(received.data(), bytes, ranks, own + begin * width, share, type,
                kind);
  }
  return Status();
}

Status HostCommunicator::allGather(void *data, size_t bytes) {
  callName = "all_gather";
  callBytes = bytes * static_cast<size_t>(size());
  std::byte *parts = static_cast<std::byte *>(data);
  if (shared)
    return shared->allGather(parts, bytes);
  return bytes ? gather(parts, bytes) : Status();
}

Status HostCommunicator::broadcast(void *data, size_t bytes, int root) {
  callName = "broadcast";
  callBytes = bytes;
  std::byte *content = static_cast<std::byte *>(data);
  return shared ? shared->broadcast(content, bytes, root)
                : broadcastAll(content, bytes, root);
}

Status HostCommunicator::barrier() {
  callName = "barrier";
  callBytes = 0;
  return shared ? shared->barrier() : waitForAll();
}

} // namespace mpc::runtime
