// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/GlobalAccesses.h"

#include <cstdio>

using namespace mpc::emulator::ptx;

static std::string describe(const char *does, uint64_t address,
                            const char *did) {
  char text[128];
  std::snprintf(text, sizeof(text),
                "race in global memory: a thread %s 0x%llx, which another "
                "thread of the launch %s",
                does, static_cast<unsigned long long>(address), did);
  return text;
}

GlobalAccesses::Page &GlobalAccesses::pageOf(uint64_t address) {
  uint64_t number = address / kPageBytes;
  if (number != lastNumber) {
    std::unique_ptr<Page> &page = pages[number];
    if (!page)
      page = std::make_unique<Page>();
    last = page.get();
    lastNumber = number;
  }
  return *last;
}

std::optional<std::string> GlobalAccesses::add(uint64_t address, unsigned bytes,
                                               bool write, uint32_t thread) {
  uint32_t self = thread + 1;
  for (uint64_t at = address; at < address + bytes; ++at) {
    Byte &byte = pageOf(at)[at % kPageBytes];
    if (byte.writer && byte.writer != self)
      return describe(write ? "writes" : "reads", at, "writes");
    if (write) {
      if (byte.reader && byte.reader != self)
        return describe("writes", at, "reads");
      byte.writer = self;
    } else {
      byte.reader = !byte.reader || byte.reader == self ? self : kSeveral;
    }
  }
  return std::nullopt;
}

std::optional<std::string> GlobalAccesses::add(const GlobalAccesses &others) {
  for (const auto &[number, theirs] : others.pages) {
    Page &page = pageOf(number * kPageBytes);
    for (uint64_t i = 0; i < kPageBytes; ++i) {
      Byte &own = page[i];
      const Byte &other = (*theirs)[i];
      bool touched = other.writer || other.reader;
      if (!touched)
        continue;
      if (own.writer || (own.reader && other.writer))
        return describe(own.writer ? "writes" : "reads",
                        number * kPageBytes + i,
                        other.writer ? "writes" : "reads");
      own.writer = other.writer;
      if (other.reader)
        own.reader = own.reader ? kSeveral : other.reader;
    }
  }
  return std::nullopt;
}
