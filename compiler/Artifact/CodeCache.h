// Keeps compiled machine code in a folder that all processes of a user share.
// The key of an entry is the text from which the code was compiled. So a model
// that is compiled again, or a layer that two models share, is compiled only
// once.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_ARTIFACT_CODECACHE_H
#define MPC_COMPILER_ARTIFACT_CODECACHE_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace mpc {

/// A folder with one file per entry, named by a digest of the entry's key.
/// Processes may look up, store and prune at the same time, because an entry
/// appears whole or not at all. A damaged entry, or an entry with another key,
/// counts as absent. Copies of this object share the folder.
class CodeCache {
public:
  /// Returns the folder for `name`: empty for `none` and "",
  /// $XDG_CACHE_HOME/mpc or ~/.cache/mpc for `auto`, otherwise `name`.
  static std::string findFolder(llvm::StringRef name);

  /// Opens `folder`, creating it if missing. Fails if `folder` cannot be
  /// created, is a file, or if other users may write to it or exchange it: they
  /// could choose the code that runs.
  static llvm::Expected<CodeCache> open(llvm::StringRef folder);

  /// Returns the code stored for `key`; nullopt if there is none.
  std::optional<std::string> lookup(llvm::StringRef key) const;

  /// Stores `code` for `key`. Ignores failures, such as a full disk: the code
  /// is then compiled again.
  void store(llvm::StringRef key, llvm::StringRef code) const;

  /// The disk space that all entries take, in whole blocks.
  struct Usage {
    size_t entries = 0;
    uint64_t bytes = 0;
  };
  Usage getUsage() const;

  /// Removes the least recently used entries until the rest occupies at most
  /// `maxBytes` of disk. Counts whole disk blocks, so a small kernel counts as
  /// 4 KiB or so. Runs at most once in `interval` seconds, over all processes.
  void prune(uint64_t maxBytes = uint64_t(512) << 20,
             int64_t interval = 20 * 60) const;

private:
  explicit CodeCache(std::shared_ptr<int> descriptor);
  std::string getPath(llvm::StringRef key) const;

  /// The open folder, whose owner and rights `open` has checked. The last copy
  /// of the cache closes the descriptor.
  std::shared_ptr<int> descriptor;
  /// The path of the open folder, /proc/self/fd/N. It leads to the checked
  /// folder even if the folder is renamed and another folder takes its name.
  std::string folder;
};

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_CODECACHE_H
