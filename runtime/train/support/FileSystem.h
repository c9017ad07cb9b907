// Files that survive a crash: written under another name, flushed, renamed.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_FILESYSTEM_H
#define MPC_RUNTIME_TRAIN_SUPPORT_FILESYSTEM_H

#include "runtime/Status.h"

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace mpc::runtime::train {

/// IO: "PATH: WHAT: " and what errno stands for.
Status failure(const std::string &path, const char *what);

enum class FileKind { None, Regular, Directory, Link, Other };

/// The kind of file at `path`; for a link, of what it leads to. None only where
/// the system says so. IO where it cannot tell, as on a disk that fails or in a
/// folder that may not be entered: what is there then must not count as gone.
StatusOr<FileKind> kindOf(const std::string &path);
/// The same of a link itself.
StatusOr<FileKind> kindOfLink(const std::string &path);
/// True if there is something at `path`, links followed.
StatusOr<bool> exists(const std::string &path);
/// True if both exist and are one file. IO where the system cannot tell.
StatusOr<bool> isSameFile(const std::string &first, const std::string &second);
/// The path that a link has; nothing where there is no link.
StatusOr<std::optional<std::string>> readLink(const std::string &path);

/// A name in a folder.
struct FolderEntry {
  std::string name;
  bool isFolder = false; ///< or leads to one
  bool isLink = false;
};
/// The names in a folder.
StatusOr<std::vector<FolderEntry>> listFolder(const std::string &path);

/// Writes all of `bytes`, whatever write(2) takes at a time; where that fails,
/// errno says why. No FaultHook is asked.
bool writeAll(int file, std::string_view bytes);

/// Rights of new files, less the umask: for all, or for the owner if the
/// content is nobody else's business.
constexpr mode_t kForAll = 0666, kForOwner = 0600;

/// Creates `path` (which must not exist), writes the chunks and flushes them to
/// the disk.
Status createFile(const std::string &path,
                  const std::vector<std::string_view> &chunks,
                  mode_t mode = kForAll);

/// The same by way of a temporary file beside `path`, which then takes the
/// place of what was there: `path` is either the old file or the new one.
Status replaceFile(const std::string &path,
                   const std::vector<std::string_view> &chunks,
                   mode_t mode = kForAll);

/// A symbolic link to `target`, which takes the place of what was at `path` as
/// a replaced file does.
Status replaceLink(const std::string &path, const std::string &target);

/// Flushes a directory's entries: renames in it are durable afterwards.
Status syncDirectory(const std::string &path);
Status renamePath(const std::string &from, const std::string &to);
/// Creates the directory and its parents where they do not exist.
Status makeDirectories(const std::string &path);
/// IO unless files may be made in the directory, or where it does not exist
/// yet, in the nearest one above it that does.
Status requireWritable(const std::string &path);
/// Removes the files in a directory, and it itself where it is empty then; what
/// lies in directories below it is not ours and stays. Of a symbolic link only
/// the link is removed.
Status removeDirectory(const std::string &path);
/// IO unless the file system of `directory` has `bytes` free.
Status requireSpace(const std::string &directory, uint64_t bytes);
/// Whether one of these functions failed for want of space: a full disk, or a
/// quota.
bool isForWantOfSpace(const Status &status);

/// An exclusive advisory lock on a directory, held while it lives: two
/// processes never write checkpoints into one directory.
class DirectoryLock {
public:
  DirectoryLock() = default;
  DirectoryLock(DirectoryLock &&other) noexcept;
  DirectoryLock &operator=(DirectoryLock &&other) noexcept;
  ~DirectoryLock();

  /// IO where another process holds it.
  static StatusOr<DirectoryLock> acquire(const std::string &directory);

  /// True if `directory` is the one that is locked: one that was moved away or
  /// removed takes its lock along.
  StatusOr<bool> holds(const std::string &directory) const;

private:
  int file = -1;
};

/// Called before every change these functions make to the disk ("open",
/// "link", "write", "sync", "rename", "sync-directory", "unlink"); a result
/// other than 0 is the errno with which that change fails. Tests set it to
/// break off at each point in turn.
using FaultHook =
    std::function<int(std::string_view change, const std::string &path)>;
void setFaultHook(FaultHook hook);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_FILESYSTEM_H
