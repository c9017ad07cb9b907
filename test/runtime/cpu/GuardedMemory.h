// Memory between guard pages.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_CPU_GUARDEDMEMORY_H
#define MPC_TEST_RUNTIME_CPU_GUARDEDMEMORY_H

#include "test/runtime/cpu/Reference.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace mpc::runtime::test {

/// Fills the bytes around data within a page.
inline constexpr std::byte kPattern{0xa5};
/// The alignment that a plan gives to buffers.
inline constexpr size_t kBufferAlignment = 64;

enum class At { Start, End };

/// Memory between pages that cannot be accessed.
class Guarded {
public:
  Guarded(size_t bytes, At at, std::byte fill) : bytes(bytes) {
    const size_t page = static_cast<size_t>(getpagesize());
    const size_t room = (bytes + page) / page * page;
    mappedBytes = room + 2 * page;
    void *pages = mmap(nullptr, mappedBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(pages, MAP_FAILED);
    mapped = static_cast<std::byte *>(pages);
    begin = mapped + page;
    end = begin + room;
    mprotect(mapped, page, PROT_NONE);
    mprotect(end, page, PROT_NONE);
    const size_t aligned =
        (bytes + kBufferAlignment - 1) / kBufferAlignment * kBufferAlignment;
    data = at == At::Start ? begin : end - aligned;
    std::memset(begin, int(kPattern), room);
    std::memset(data, int(fill), bytes);
  }
  Guarded(const Guarded &) = delete;
  ~Guarded() { munmap(mapped, mappedBytes); }

  /// True if nothing around the data was written.
  bool isIntact() const {
    auto isPattern = [](std::byte byte) { return byte == kPattern; };
    return std::all_of(begin, data, isPattern) &&
           std::all_of(data + bytes, end, isPattern);
  }

  std::byte *data = nullptr;
  const size_t bytes;

private:
  std::byte *mapped = nullptr, *begin = nullptr, *end = nullptr;
  size_t mappedBytes = 0;
};

/// Fills with numbers between -1 and 1 of a type, from a short repeated list.
inline void fillWithNumbers(Guarded &memory, DType type, unsigned seed) {
  const Tensor block = randomTensor(type, {1021}, seed);
  for (size_t done = 0; done < memory.bytes; done += block.bytes.size())
    std::memcpy(memory.data + done, block.bytes.data(),
                std::min(block.bytes.size(), memory.bytes - done));
}

} // namespace mpc::runtime::test

#endif // MPC_TEST_RUNTIME_CPU_GUARDEDMEMORY_H
