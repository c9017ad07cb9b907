// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/ReleasedMemory.h"

#include <algorithm>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <elf.h>
#include <fstream>
#include <link.h>
#include <malloc.h>
#include <string>
#include <sys/mman.h>
#include <unistd.h>
#include <vector>

/// True if the dynamic loader has written into the code of a loaded library, so
/// that its pages differ from the file.
static bool hasRelocatedCode(const dl_phdr_info &object) {
  const auto *headers = object.dlpi_phdr;
  return std::any_of(
      headers, headers + object.dlpi_phnum, [&](const auto &header) {
        if (header.p_type != PT_DYNAMIC)
          return false;
        const auto *entry = reinterpret_cast<const ElfW(Dyn) *>(
            object.dlpi_addr + header.p_vaddr);
        for (; entry->d_tag != DT_NULL; ++entry)
          if (entry->d_tag == DT_TEXTREL ||
              (entry->d_tag == DT_FLAGS && (entry->d_un.d_val & DF_TEXTREL)))
            return true;
        return false;
      });
}

namespace {
/// Addresses, in whole pages.
struct Range {
  uintptr_t begin, end;
};
} // namespace

/// Returns the addresses at which files are mapped. Elsewhere, a dropped page
/// would be read as zeros: some tools copy code to huge pages.
static std::vector<Range> findFileMappings() {
  std::vector<Range> mappings;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    Range range;
    unsigned long inode = 0;
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %*s %*s %*s %lu",
                    &range.begin, &range.end, &inode) == 3 &&
        inode != 0)
      mappings.push_back(range);
  }
  return mappings;
}

/// Drops the read-only pages of a loaded library, which the system can read
/// again from the file. Breakpoints of a debugger are in these pages and get
/// lost. `mappings` is the result of findFileMappings.
static int releaseSegments(dl_phdr_info *object, size_t, void *mappings) {
  if (hasRelocatedCode(*object))
    return 0;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto &header = object->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_W))
      continue;
    uintptr_t begin = object->dlpi_addr + header.p_vaddr;
    uintptr_t end = (begin + header.p_memsz) / page * page;
    begin = (begin + page - 1) / page * page;
    for (const Range &file : *static_cast<std::vector<Range> *>(mappings)) {
      const uintptr_t from = std::max(begin, file.begin);
      const uintptr_t to = std::min(end, file.end);
      if (from < to)
        madvise(reinterpret_cast<void *>(from), to - from, MADV_DONTNEED);
    }
  }
  return 0;
}

void mpc::tools::releaseUnusedMemory() {
  malloc_trim(0);
  std::vector<Range> mappings = findFileMappings();
  dl_iterate_phdr(releaseSegments, &mappings);
}
