// SPDX-License-Identifier: Apache-2.0
#include "runtime/PerfMap.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <link.h>
#include <mutex>
#include <sys/mman.h>
#include <unistd.h>

namespace mpc::runtime {

bool isPerfMapWanted() {
  const char *value = std::getenv("MPC_PERF_MAP");
  return value && *value && std::strcmp(value, "0") != 0;
}

namespace {
/// A range of whole pages.
struct Pages {
  std::byte *begin = nullptr;
  size_t bytes = 0;
};

struct Search {
  const void *base;
  std::vector<Pages> code;
};
} // namespace

/// Appends the executable segments of the library at `Search::base`.
static int findCode(dl_phdr_info *info, size_t, void *data) {
  auto &search = *static_cast<Search *>(data);
  if (reinterpret_cast<const void *>(info->dlpi_addr) != search.base)
    return 0;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr) &segment = info->dlpi_phdr[i];
    if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X))
      continue;
    const uintptr_t begin = (info->dlpi_addr + segment.p_vaddr) / page * page;
    const uintptr_t end =
        (info->dlpi_addr + segment.p_vaddr + segment.p_memsz + page - 1) /
        page * page;
    search.code.push_back({reinterpret_cast<std::byte *>(begin), end - begin});
  }
  return 1;
}

static Status systemError(const std::string &what) {
  return Status(StatusCode::IO,
                "MPC_PERF_MAP: cannot " + what + ": " + std::strerror(errno));
}

/// True if `code` is mapped from a file, and not yet moved. An artifact that is
/// opened twice is one library, whose code may be running.
static bool isMappedFromFile(const Pages &code) {
  std::FILE *maps = std::fopen("/proc/self/maps", "re");
  if (!maps)
    return false;
  const auto address = reinterpret_cast<unsigned long>(code.begin);
  bool found = false;
  unsigned long begin = 0, end = 0, inode = 0;
  while (!found && std::fscanf(maps, "%lx-%lx %*s %*x %*s %lu%*[^\n]", &begin,
                               &end, &inode) == 3)
    found = begin <= address && address < end && inode != 0;
  std::fclose(maps);
  return found;
}

/// Replaces mapped pages of a file by anonymous pages with the same code.
static Status moveToAnonymousMemory(const Pages &code) {
  // Try on other pages first if the system allows anonymous code at all. The
  // library would be lost otherwise.
  void *copy = mmap(nullptr, code.bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (copy == MAP_FAILED)
    return systemError("copy the kernels");
  std::memcpy(copy, code.begin, code.bytes);
  Status status;
  if (mprotect(copy, code.bytes, PROT_READ | PROT_EXEC) != 0) {
    status = systemError("execute anonymous memory");
  } else if (mmap(code.begin, code.bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                  0) == MAP_FAILED) {
    status = systemError("move the kernels");
  } else {
    std::memcpy(code.begin, copy, code.bytes);
    // perf records the pages when they become executable.
    if (mprotect(code.begin, code.bytes, PROT_READ | PROT_EXEC) != 0)
      status = systemError("execute the moved kernels");
  }
  munmap(copy, code.bytes);
  return status;
}

/// Returns a line of the map for each symbol that the library has.
static std::string describe(void *library,
                            const std::vector<std::string> &symbols,
                            const void **base) {
  std::string text;
  for (const std::string &symbol : symbols) {
    void *address = dlsym(library, symbol.c_str());
    Dl_info info{};
    void *entry = nullptr;
    if (!address || !dladdr1(address, &info, &entry, RTLD_DL_SYMENT) || !entry)
      continue;
    char range[64];
    std::snprintf(range, sizeof(range), "%lx %lx ",
                  reinterpret_cast<unsigned long>(address),
                  static_cast<unsigned long>(
                      static_cast<const ElfW(Sym) *>(entry)->st_size));
    text += range + symbol + "\n";
    *base = info.dli_fbase;
  }
  return text;
}

/// Opens the map of this process. Replaces the map that an earlier process with
/// the same number left, but follows no link: /tmp belongs to everybody.
static int openMap(const std::string &path) {
  static pid_t owner = 0;
  if (owner != getpid())
    unlink(path.c_str());
  const int flags = owner == getpid() ? O_APPEND : O_CREAT | O_EXCL;
  const int file =
      open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC | flags, 0644);
  if (file >= 0)
    owner = getpid();
  return file;
}

Status addToPerfMap(void *library, const std::vector<std::string> &symbols) {
  static std::mutex writing;
  std::lock_guard<std::mutex> lock(writing);
  Search search{nullptr, {}};
  const std::string text = describe(library, symbols, &search.base);
  if (text.empty())
    return Status();
  dl_iterate_phdr(findCode, &search);
  bool isMoved = false;
  for (const Pages &code : search.code)
    if (isMappedFromFile(code)) {
      if (Status status = moveToAnonymousMemory(code); !status.ok())
        return status;
      isMoved = true;
    }
  if (!isMoved)
    return Status(); // the map has the library
  const std::string path = "/tmp/perf-" + std::to_string(getpid()) + ".map";
  const int file = openMap(path);
  if (file < 0)
    return systemError("write '" + path + "'");
  const ssize_t written = write(file, text.data(), text.size());
  const Status status = written == static_cast<ssize_t>(text.size())
                            ? Status()
                            : systemError("write '" + path + "'");
  close(file);
  return status;
}

} // namespace mpc::runtime
