// SPDX-License-Identifier: Apache-2.0
#include "compiler/Artifact/CodeCache.h"

#include "compiler/Artifact/ArtifactWriter.h"
#include "compiler/Artifact/CompilerIdentity.h"

#include "llvm/ADT/SmallString.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CachePruning.h"
#include "llvm/Support/Endian.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/xxhash.h"

#include <cstdlib>
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
  // The specification of XDG_CACHE_HOME has relative paths ignored.
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
  // The folder is the user's alone: code from it is run.
  if (std::error_code error = fs::create_directories(
          folder, /*IgnoreExisting=*/true, fs::owner_all))
    return llvm::createStringError(error, "cannot make the folder '%s': %s",
                                   folder.str().c_str(),
                                   error.message().c_str());
  fs::file_status status;
  if (std::error_code error = fs::status(folder, status))
    return llvm::createStringError(error, "cannot use the folder '%s': %s",
                                   folder.str().c_str(),
                                   error.message().c_str());
  const auto othersWrite = fs::group_write | fs::others_write;
  bool isOurs =
      status.getUser() == geteuid() && !(status.permissions() & othersWrite);
  if (!isOurs)
    return llvm::createStringError(
        "others may write to the folder '%s', and so to the code that runs",
        folder.str().c_str());
  // Without an identity of the compiler, old code could be taken for new.
  if (identifyCompiler().empty())
    return llvm::createStringError("this build of mpc has no build ID");
  return CodeCache(folder);
}

// pruneCache touches no other files than those of this name.
std::string CodeCache::getPath(llvm::StringRef key) const {
  llvm::XXH128_hash_t digest =
      llvm::xxh3_128bits(llvm::arrayRefFromStringRef(key));
  llvm::SmallString<128> path(folder);
  llvm::sys::path::append(path, "llvmcache-" +
                                    llvm::utohexstr(digest.high64, true, 16) +
                                    llvm::utohexstr(digest.low64, true, 16));
  return path.str().str();
}

//===----------------------------------------------------------------------===//
// Entries
//===----------------------------------------------------------------------===//

// An entry is the code and, in eight bytes, its digest.
static std::string getSeal(llvm::StringRef code) {
  std::string seal(sizeof(uint64_t), '\0');
  llvm::support::endian::write64le(seal.data(), llvm::xxh3_64bits(code));
  return seal;
}

std::optional<std::string> CodeCache::lookup(llvm::StringRef key) const {
  auto file = llvm::MemoryBuffer::getFile(getPath(key), /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false,
                                          /*IsVolatile=*/true);
  if (!file || (*file)->getBufferSize() < sizeof(uint64_t))
    return std::nullopt;
  llvm::StringRef code = (*file)->getBuffer().drop_back(sizeof(uint64_t));
  if (getSeal(code) != (*file)->getBuffer().take_back(sizeof(uint64_t)))
    return std::nullopt;
  return code.str();
}

void CodeCache::store(llvm::StringRef key, llvm::StringRef code) const {
  llvm::consumeError(
      writeFileAtomically(getPath(key), [&](llvm::raw_ostream &out) {
        out << code << getSeal(code);
        return llvm::Error::success();
      }));
}

void CodeCache::prune(uint64_t maxBytes, int64_t interval) const {
  llvm::CachePruningPolicy policy;
  policy.Interval = std::chrono::seconds(interval);
  policy.Expiration = std::chrono::seconds(0);
  policy.MaxSizeBytes = maxBytes;
  llvm::pruneCache(folder, policy);
}
