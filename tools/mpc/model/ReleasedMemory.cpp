// SPDX-License-Identifier: Apache-2.0
#include "tools/mpc/model/ReleasedMemory.h"

#include <algorithm>
#include <cstdint>
#include <elf.h>
#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

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

/// Drops the read-only pages of a loaded library, which the system can read
/// again from the file. Breakpoints of a debugger are in these pages and get
/// lost.
static int releaseSegments(dl_phdr_info *object, size_t, void *) {
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
    if (begin < end)
      madvise(reinterpret_cast<void *>(begin), end - begin, MADV_DONTNEED);
  }
  return 0;
}

void mpc::tools::releaseUnusedMemory() {
  malloc_trim(0);
  dl_iterate_phdr(releaseSegments, nullptr);
}
