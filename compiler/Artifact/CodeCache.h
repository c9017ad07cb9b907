// Machine code by what it was compiled from, in a folder of the user's that
// processes share: a model that is compiled again, or a layer that another
// model has too, is not compiled again.
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

/// A folder with one file per entry. Any number of processes may look up, store
/// and prune at the same time: an entry appears whole, under the digest of its
/// key, and one that was damaged, or is another key's, is as good as none.
/// Copies share the folder.
class CodeCache {
public:
  /// The folder that `name` stands for: `none` and an empty name for no folder,
  /// `auto` for $XDG_CACHE_HOME/mpc or ~/.cache/mpc, everything else for
  /// itself.
  static std::string findFolder(llvm::StringRef name);

  /// Opens `folder`, and makes it if it is missing. Fails if the folder cannot
  /// be made, if it is a file, or if other users may write to it or exchange
  /// it: they could choose the code that runs here.
  static llvm::Expected<CodeCache> open(llvm::StringRef folder);

  /// The code that was stored for `key`.
  std::optional<std::string> lookup(llvm::StringRef key) const;

  /// Keeps `code` for `key`. Where it cannot, on a full disk for example, the
  /// code is compiled again the next time.
  void store(llvm::StringRef key, llvm::StringRef code) const;

  /// Removes the entries that were used least recently, until the rest occupies
  /// `maxBytes` of the disk at most: whole blocks, of which a small kernel does
  /// not fill one. Looks at most once in `interval` seconds, whoever asks.
  void prune(uint64_t maxBytes = uint64_t(512) << 20,
             int64_t interval = 20 * 60) const;

private:
  explicit CodeCache(std::shared_ptr<int> descriptor);
  std::string getPath(llvm::StringRef key) const;

  /// The folder that was checked; the last copy closes it.
  std::shared_ptr<int> descriptor;
  /// The same as a path: another folder that takes the first one's name is not
  /// used.
  std::string folder;
};

} // namespace mpc

#endif // MPC_COMPILER_ARTIFACT_CODECACHE_H
