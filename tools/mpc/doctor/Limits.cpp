// The sections on caches and on limits of memory, processes and folders.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/CodeCache.h"
#include "runtime/cpu/ControlGroups.h"
#include "tools/mpc/doctor/Section.h"
#include "tools/mpc/print/TrainReport.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>
#include <sys/resource.h>
#include <unistd.h>

using namespace mpc;
using namespace mpc::tools;
using JSONValue = nlohmann::json;
namespace fs = llvm::sys::fs;

//===----------------------------------------------------------------------===//
// Caches
//===----------------------------------------------------------------------===//

Section mpc::tools::describeCaches(const std::string &kernelCache) {
  Section section{"caches", {}, JSONValue::object()};
  JSONValue &facts = section.facts["kernels"];
  const auto conclude = [&](const std::string &text) {
    section.rows.push_back({"kernels", text});
    return section;
  };
  const std::string folder = CodeCache::findFolder(kernelCache);
  if (folder.empty())
    return conclude("none: all kernels are compiled again");
  facts["folder"] = folder;
  if (!fs::exists(folder))
    return conclude(folder + ", which the next compile creates");
  llvm::Expected<CodeCache> cache = CodeCache::open(folder);
  if (!cache) {
    const std::string fault = llvm::toString(cache.takeError());
    facts["error"] = fault;
    return conclude("none: " + fault);
  }
  const CodeCache::Usage usage = cache->getUsage();
  facts["entries"] = usage.entries;
  facts["bytes"] = usage.bytes;
  return conclude(folder + ": " + formatCount(int64_t(usage.entries)) +
                  " kernels, " + formatBytes(double(usage.bytes)));
}

//===----------------------------------------------------------------------===//
// Limits
//===----------------------------------------------------------------------===//

// Reads an entry of /proc/meminfo, such as "MemAvailable:  1024 kB", in bytes.
static std::optional<uint64_t> readMemory(const std::string &name) {
  std::ifstream file("/proc/meminfo");
  std::string key;
  uint64_t kilobytes = 0;
  for (std::string unit; file >> key >> kilobytes; std::getline(file, unit))
    if (key == name + ":")
      return kilobytes * 1024;
  return std::nullopt;
}

static void addMemory(Section &section) {
  const auto total = readMemory("MemTotal");
  const auto available = readMemory("MemAvailable");
  const auto limit = runtime::findMemoryLimit("");
  const auto text = [](const std::optional<uint64_t> &bytes) {
    return bytes ? formatBytes(double(*bytes)) : std::string("unknown");
  };
  section.rows.push_back({"memory", text(available) + " available of " +
                                        text(total) + ", control group " +
                                        (limit ? text(limit) : "unlimited")});
  JSONValue &facts = section.facts["memory"] = JSONValue::object();
  if (total)
    facts["total_bytes"] = *total;
  if (available)
    facts["available_bytes"] = *available;
  if (limit)
    facts["control_group_bytes"] = *limit;
}

namespace {
/// A limit of the process, as `ulimit` sets it.
struct ProcessLimit {
  const char *name;
  decltype(RLIMIT_AS) resource;
  bool isBytes;
};
} // namespace

// Returns the key in JSON of a row: "open_files" for "open files".
static std::string keyOf(llvm::StringRef name) {
  std::string key = name.lower();
  std::replace(key.begin(), key.end(), ' ', '_');
  return key;
}

static void addProcessLimits(Section &section) {
  constexpr ProcessLimit limits[] = {
      {"address space", RLIMIT_AS, /*isBytes=*/true},
      {"locked memory", RLIMIT_MEMLOCK, /*isBytes=*/true},
      {"file size", RLIMIT_FSIZE, /*isBytes=*/true},
      {"open files", RLIMIT_NOFILE, /*isBytes=*/false},
      {"processes", RLIMIT_NPROC, /*isBytes=*/false},
      {"CPU seconds", RLIMIT_CPU, /*isBytes=*/false}};
  for (const auto &[name, resource, isBytes] : limits) {
    rlimit found = {};
    if (getrlimit(resource, &found) != 0)
      continue;
    const std::string key = keyOf(name);
    if (found.rlim_cur == RLIM_INFINITY) {
      section.rows.push_back({name, "unlimited"});
      section.facts[key] = nullptr;
      continue;
    }
    section.rows.push_back({name, isBytes
                                      ? formatBytes(double(found.rlim_cur))
                                      : formatCount(int64_t(found.rlim_cur))});
    section.facts[key] = found.rlim_cur;
  }
}

static void addFolder(Section &section, const char *name,
                      const std::string &folder) {
  JSONValue &facts = section.facts[keyOf(name)] = {{"folder", folder}};
  llvm::ErrorOr<fs::space_info> space = fs::disk_space(folder);
  if (!space || access(folder.c_str(), W_OK | X_OK) != 0) {
    const std::string fault =
        (space ? std::error_code(errno, std::generic_category())
               : space.getError())
            .message();
    section.rows.push_back({name, folder + ": " + fault});
    facts["error"] = fault;
    return;
  }
  section.rows.push_back(
      {name, folder + ": " + formatBytes(double(space->available)) +
                 " free of " + formatBytes(double(space->capacity))});
  facts["free_bytes"] = space->available;
  facts["bytes"] = space->capacity;
}

Section mpc::tools::describeLimits() {
  Section section{"limits", {}, JSONValue::object()};
  addMemory(section);
  addProcessLimits(section);
  llvm::SmallString<128> temporary;
  llvm::sys::path::system_temp_directory(/*ErasedOnReboot=*/true, temporary);
  addFolder(section, "temporary files", temporary.str().str());
  // MPI and NCCL move data between the ranks of a machine here. Containers
  // often have only 64 MiB.
  addFolder(section, "shared memory", "/dev/shm");
  return section;
}
