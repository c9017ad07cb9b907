// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/CodeCache.h"

#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Artifact/CompilerIdentity.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace mpc;
namespace fs = llvm::sys::fs;

//===----------------------------------------------------------------------===//
// The folder
//===----------------------------------------------------------------------===//

std::string CodeCache::findFolder(llvm::StringRef name) {
  if (name == "none")
    return "";
  if (name != "auto")
    return name.str();
  llvm::SmallString<128> folder;
  const char *caches = std::getenv("XDG_CACHE_HOME");
  // The XDG specification requires to ignore relative paths.
  if (caches && llvm::sys::path::is_absolute(caches)) {
    folder = caches;
  } else if (const char *home = std::getenv("HOME"); home && *home) {
    folder = home;
    llvm::sys::path::append(folder, ".cache");
  } else {
    return "";
  }
  llvm::sys::path::append(folder, "mpc");
  return folder.str().str();
}

llvm::Expected<CodeCache> CodeCache::open(llvm::StringRef folder) {
  // The folder belongs to the user alone, because code from it is run.
  if (std::error_code error = fs::create_directories(
          folder, /*IgnoreExisting=*/true, fs::owner_all))
    return llvm::createStringError(error, "cannot make the folder '%s': %s",
                                   folder.str().c_str(),
                                   error.message().c_str());
  // Keep the checked folder open, so that no other folder can take its place.
  auto cannotUse = [&](int number) {
    std::error_code error(number, std::generic_category());
    return llvm::createStringError(error, "cannot use the folder '%s': %s",
                                   folder.str().c_str(),
                                   error.message().c_str());
  };
  const int opened =
      ::open(folder.str().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (opened < 0)
    return cannotUse(errno);
  std::shared_ptr<int> descriptor(new int(opened), [](int *owned) {
    ::close(*owned);
    delete owned;
  });
  struct stat status, parent;
  if (::fstat(opened, &status) != 0)
    return cannotUse(errno);
  // If a file has this name, fail: nothing could be stored below it.
  if (!S_ISDIR(status.st_mode))
    return llvm::createStringError(
        std::make_error_code(std::errc::not_a_directory),
        "expected a folder, found the file '%s'", folder.str().c_str());
  if (::fstatat(opened, "..", &parent, 0) != 0)
    return cannotUse(errno);
  // Others may write to a sticky parent folder, such as /tmp, because nobody
  // can rename the files of others there.
  const bool isOurs =
      status.st_uid == geteuid() && !(status.st_mode & (S_IWGRP | S_IWOTH));
  const bool staysOurs =
      !(parent.st_mode & S_IWOTH) || (parent.st_mode & S_ISVTX);
  if (!isOurs || !staysOurs)
    return llvm::createStringError(
        "others may write to %s '%s', and so change the code that runs; remove "
        "their write permission, or name another folder",
        isOurs ? "the parent of the folder" : "the folder",
        folder.str().c_str());
  // Entries of another build of mpc are told apart by the identity. Without
  // one, old code could be run.
  if (identifyCompiler().empty())
    return llvm::createStringError(
        "this build of mpc has no build ID, which the kernel cache needs; link "
        "mpc with --build-id");
  CodeCache cache(std::move(descriptor));
  if (!fs::is_directory(cache.folder))
    return llvm::createStringError("/proc is not mounted, and the kernel "
                                   "cache needs it");
  return cache;
}

CodeCache::CodeCache(std::shared_ptr<int> descriptor)
    : descriptor(std::move(descriptor)),
      folder("/proc/self/fd/" + std::to_string(*this->descriptor)) {}

// All entries begin with this prefix, so that pruning does not remove other
// files.
static constexpr llvm::StringLiteral kEntryPrefix = "llvmcache-";

std::string CodeCache::getPath(llvm::StringRef key) const {
  llvm::XXH128_hash_t digest =
      llvm::xxh3_128bits(llvm::arrayRefFromStringRef(key));
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, kEntryPrefix +
                                    llvm::utohexstr(digest.high64, true, 16) +
                                    llvm::utohexstr(digest.low64, true, 16));
  return path.str().str();
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

// Returns the seal of an entry: a digest of key and code, stored in eight bytes
// behind the code. `lookup` rejects an entry with a wrong seal: a damaged file,
// or a file copied from another entry's name.
static std::string getSeal(llvm::StringRef key, llvm::StringRef code) {
  std::string sealed = llvm::utostr(key.size()) + "\n";
  sealed += key;
  sealed += code;
  std::string seal(sizeof(uint64_t), '\0');
  llvm::support::endian::write64le(seal.data(), llvm::xxh3_64bits(sealed));
  return seal;
}

std::optional<std::string> CodeCache::lookup(llvm::StringRef key) const {
  auto file = llvm::MemoryBuffer::getFile(getPath(key), /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false,
                                          /*IsVolatile=*/true);
  if (!file || (*file)->getBufferSize() < sizeof(uint64_t))
    return std::nullopt;
  llvm::StringRef code = (*file)->getBuffer().drop_back(sizeof(uint64_t));
  if (getSeal(key, code) != (*file)->getBuffer().take_back(sizeof(uint64_t)))
    return std::nullopt;
  return code.str();
}

void CodeCache::store(llvm::StringRef key, llvm::StringRef code) const {
  llvm::consumeError(
      writeFileAtomically(getPath(key), [&](llvm::raw_ostream &out) {
        out << code << getSeal(key, code);
        return llvm::Error::success();
      }));
}

//===----------------------------------------------------------------------===//
// Pruning
//===----------------------------------------------------------------------===//

namespace {
/// A file in the cache folder: an entry, or the partial entry of a process that
/// ended while writing.
struct StoredFile {
  std::string path;
  timespec used;
  uint64_t bytes;

  /// Orders by time of last use. Files may have equal times, since clocks tick
  /// slowly. Then the name decides, so that two processes that prune at once
  /// agree.
  bool operator<(const StoredFile &other) const {
    return std::tie(used.tv_sec, used.tv_nsec, path) <
           std::tie(other.used.tv_sec, other.used.tv_nsec, other.path);
  }
};
} // namespace

// Lists all entries, each with its use of disk in whole blocks: a kernel of 2
// KiB may take 4 KiB. Skips entries that another process has just removed.
static std::vector<StoredFile> listFiles(llvm::StringRef folder) {
  std::vector<StoredFile> files;
  std::error_code error;
  for (fs::directory_iterator file(folder, error), end; file != end && !error;
       file.increment(error)) {
    struct stat status;
    if (llvm::sys::path::filename(file->path()).starts_with(kEntryPrefix) &&
        ::lstat(file->path().c_str(), &status) == 0)
      files.push_back({file->path(), status.st_atim,
                       static_cast<uint64_t>(status.st_blocks) * 512});
  }
  return files;
}

CodeCache::Usage CodeCache::getUsage() const {
  Usage usage;
  for (const StoredFile &file : listFiles(folder)) {
    ++usage.entries;
    usage.bytes += file.bytes;
  }
  return usage;
}

// True if the last pruning was at least `interval` seconds ago; then records
// the time, so that other processes need not prune. Ignores times in the
// future: a clock that was ahead would stop pruning until time catches up.
static bool isTimeToPrune(llvm::StringRef folder, int64_t interval) {
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, "llvmcache.timestamp");
  const std::time_t now = std::time(nullptr);
  struct stat status;
  bool isKnown = ::lstat(path.c_str(), &status) == 0 && status.st_mtime <= now;
  if (isKnown && now - status.st_mtime < interval)
    return false;
  // Remove the old file first: opening a symbolic link for writing would empty
  // the file behind the link.
  ::unlink(path.c_str());
  std::error_code error;
  llvm::raw_fd_ostream(path, error);
  return !error;
}

void CodeCache::prune(uint64_t maxBytes, int64_t interval) const {
  if (!isTimeToPrune(folder, interval))
    return;
  std::vector<StoredFile> files = listFiles(folder);
  uint64_t bytes = 0;
  for (const StoredFile &file : files)
    bytes += file.bytes;
  // Limit the cache to three quarters of the space that is free or taken by
  // entries.
  if (llvm::ErrorOr<fs::space_info> space = fs::disk_space(folder))
    maxBytes = std::min<uint64_t>(maxBytes, (space->available + bytes) / 4 * 3);
  // Remove the least recently used entries. A process that still reads an entry
  // keeps the file open. Ignore failures of unlink: another process was faster.
  llvm::sort(files);
  for (const StoredFile &file : files) {
    if (bytes <= maxBytes)
      break;
    ::unlink(file.path.c_str());
    bytes -= file.bytes;
  }
}
