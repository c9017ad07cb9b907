// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/HostCommunicator.h"

#include "runtime/Tensor.h"
#include "runtime/distributed/Reduction.h"
#include "runtime/distributed/SharedCollectives.h"

#include <algorithm>
#include <cstring>

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
      [this](SharedCollectives::Time start) { return checkWait(start); });
  return Status();
}

Status HostCommunicator::checkWait(std::chrono::steady_clock::time_point) {
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
