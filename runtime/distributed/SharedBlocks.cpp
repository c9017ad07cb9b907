// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/SharedBlocks.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <string>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace mpc::runtime {

static constexpr char kMemoryName[] = "mpc-ranks";
static constexpr size_t kPage = 4096;
static constexpr size_t kMarks = 3;

/// Stands at the begin of the memory, before the counts of the ranks.
struct SharedBlocks::Header {
  uint64_t token[2];
  int64_t size;
};

// Counts in memory of several processes must not need a lock of one process.
static_assert(std::atomic<uint32_t>::is_always_lock_free);

static Status memoryError(const std::string &what, int code) {
  return Status(StatusCode::IO, "ranks cannot share memory: " + what + ": " +
                                    std::strerror(code));
}

size_t SharedBlocks::headerBytes(int size) {
  const size_t counts = static_cast<size_t>(size) * kMarks * sizeof(Count);
  return (sizeof(Count) + counts + kPage - 1) / kPage * kPage;
}

size_t SharedBlocks::totalBytes(int size) {
  return headerBytes(size) + static_cast<size_t>(size) * kSlots * kSlotBytes;
}

Status SharedBlocks::map(int file) {
  void *mapped = mmap(nullptr, totalBytes(ranks), PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_POPULATE, file, 0);
  if (mapped == MAP_FAILED)
    return memoryError("mmap", errno);
  memory = static_cast<std::byte *>(mapped);
  return Status();
}

StatusOr<std::unique_ptr<SharedBlocks>> SharedBlocks::create(int size) {
  std::unique_ptr<SharedBlocks> blocks(new SharedBlocks(0, size));
  blocks->descriptor = memfd_create(kMemoryName, MFD_CLOEXEC);
  if (blocks->descriptor < 0)
    return memoryError("memfd_create", errno);
  // Reserves all pages. Otherwise a write could end the process.
  if (int code = posix_fallocate(blocks->descriptor, 0,
                                 static_cast<off_t>(totalBytes(size))))
    return memoryError("posix_fallocate", code);
  if (Status status = blocks->map(blocks->descriptor); !status.ok())
    return status;
  Header header = {{0, 0}, size};
  if (getrandom(header.token, sizeof(header.token), 0) !=
      static_cast<ssize_t>(sizeof(header.token)))
    return memoryError("getrandom", errno);
  std::memcpy(blocks->memory, &header, sizeof(header));
  blocks->ownName = {
      getpid(), blocks->descriptor, {header.token[0], header.token[1]}};
  return blocks;
}

StatusOr<std::unique_ptr<SharedBlocks>> SharedBlocks::open(const Name &name,
                                                           int rank, int size) {
  const std::string path = "/proc/" + std::to_string(name.process) + "/fd/" +
                           std::to_string(name.descriptor);
  // In another name space, the number may name any process and any file, and
  // to open a device may have effects.
  char target[64] = {};
  if (readlink(path.c_str(), target, sizeof(target) - 1) < 0)
    return memoryError(path, errno);
  if (!std::strstr(target, kMemoryName))
    return memoryError(path, ENXIO);
  const int file = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0)
    return memoryError(path, errno);
  struct stat info;
  const bool fits = fstat(file, &info) == 0 && S_ISREG(info.st_mode) &&
                    info.st_size == static_cast<off_t>(totalBytes(size));
  std::unique_ptr<SharedBlocks> blocks(new SharedBlocks(rank, size));
  const Status status = fits ? blocks->map(file) : memoryError(path, ENXIO);
  close(file);
  if (!status.ok())
    return status;
  Header header;
  std::memcpy(&header, blocks->memory, sizeof(header));
  if (header.size != size || header.token[0] != name.token[0] ||
      header.token[1] != name.token[1])
    return memoryError(path, ENXIO);
  return blocks;
}

SharedBlocks::~SharedBlocks() {
  closeName();
  if (memory)
    munmap(memory, totalBytes(ranks));
}

void SharedBlocks::closeName() {
  if (descriptor >= 0)
    close(descriptor);
  descriptor = -1;
}

std::byte *SharedBlocks::slotOf(int rank, uint32_t block) const {
  const size_t slot = static_cast<size_t>(rank) * kSlots + block % kSlots;
  return memory + headerBytes(ranks) + slot * kSlotBytes;
}

SharedBlocks::Count &SharedBlocks::countOf(int rank, Mark mark) const {
  const size_t index =
      static_cast<size_t>(rank) * kMarks + static_cast<size_t>(mark);
  // Zeroed memory is an array of counts of 0.
  return reinterpret_cast<Count *>(memory + sizeof(Count))[index];
}

bool SharedBlocks::hasCome(int rank, Mark mark, uint32_t blocks) const {
  const uint32_t count =
      countOf(rank, mark).blocks.load(std::memory_order_acquire);
  return static_cast<int32_t>(count - blocks) >= 0;
}

// The count is written before the sleepers are read, and a sleeper is counted
// before the kernel compares the count. So one of both sees the other.
void SharedBlocks::raise(Mark mark, uint32_t blocks) {
  Count &count = countOf(own, mark);
  count.blocks.store(blocks);
  if (count.sleepers.load() > 0)
    syscall(SYS_futex, &count.blocks, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void SharedBlocks::sleep(int rank, Mark mark, uint32_t blocks,
                         std::chrono::milliseconds most) {
  Count &count = countOf(rank, mark);
  const timespec time = {most.count() / 1000, most.count() % 1000 * 1000000};
  count.sleepers.fetch_add(1);
  const uint32_t seen = count.blocks.load();
  if (static_cast<int32_t>(seen - blocks) < 0)
    syscall(SYS_futex, &count.blocks, FUTEX_WAIT, seen, &time, nullptr, 0);
  count.sleepers.fetch_sub(1);
}

} // namespace mpc::runtime
