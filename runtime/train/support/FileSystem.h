// Changes files so that they survive a crash: writes under another name,
// flushes and renames.
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

/// Returns IO with `path`, `what` and the text of errno, separated by colons.
Status failure(const std::string &path, const char *what);

enum class FileKind { None, Regular, Directory, Link, Other };

/// The kind of file at `path`; links are followed. None only if the system says
/// so. IO if the system cannot tell, as on a failing disk or in a forbidden
/// folder: such a file must not count as gone.
StatusOr<FileKind> kindOf(const std::string &path);
/// Like `kindOf` without following links.
StatusOr<FileKind> kindOfLink(const std::string &path);
/// True if there is something at `path`; links are followed.
StatusOr<bool> exists(const std::string &path);
/// True if both exist and are the same file. IO if the system cannot tell.
StatusOr<bool> isSameFile(const std::string &first, const std::string &second);
/// The target of a link; nullopt if `path` is no link.
StatusOr<std::optional<std::string>> readLink(const std::string &path);

/// An entry of a folder.
struct FolderEntry {
  std::string name;
  bool isFolder = false; ///< true for a folder and for a link to a folder
  bool isLink = false;
};
/// Lists the entries of a folder, sorted by name.
StatusOr<std::vector<FolderEntry>> listFolder(const std::string &path);

/// Writes all of `bytes`, in as many calls of write(2) as needed. Sets errno on
/// failure. Ignores the FaultHook.
bool writeAll(int file, std::string_view bytes);

/// Permissions of new files before the umask: for all users, or for the owner
/// if the contents are private.
constexpr mode_t kForAll = 0666, kForOwner = 0600;

/// Creates `path`, which must not exist, writes the chunks and flushes them to
/// the disk.
Status createFile(const std::string &path,
                  const std::vector<std::string_view> &chunks,
                  mode_t mode = kForAll);

/// Writes a temporary file beside `path` and renames it to `path`, which is
/// thus either the old file or the new one at all times.
Status replaceFile(const std::string &path,
                   const std::vector<std::string_view> &chunks,
                   mode_t mode = kForAll);

/// Makes `path` a symbolic link to `target`. At all times, `path` is either
/// what it was before or the new link.
Status replaceLink(const std::string &path, const std::string &target);

/// Flushes the entries of a directory, so that renames in it are durable.
Status syncDirectory(const std::string &path);
Status renamePath(const std::string &from, const std::string &to);
/// Creates the directory and missing parents.
Status makeDirectories(const std::string &path);
/// Returns an I/O error unless files can be created in the directory or, if it
/// does not exist, in its nearest existing parent.
Status requireWritable(const std::string &path);
/// Removes the files in a directory, and the directory if it is empty then.
/// Keeps subdirectories, which mpc did not make. Removes only the link if
/// `path` is a symbolic link.
Status removeDirectory(const std::string &path);
/// Returns an I/O error unless the file system of `directory` has `bytes` free.
Status requireSpace(const std::string &directory, uint64_t bytes);
/// True if `status` of a function of this file says that the disk or quota is
/// full.
bool isForWantOfSpace(const Status &status);

/// An exclusive advisory lock on a directory, held during the lifetime of the
/// object: two processes never write checkpoints into one directory.
class DirectoryLock {
public:
  DirectoryLock() = default;
  DirectoryLock(DirectoryLock &&other) noexcept;
  DirectoryLock &operator=(DirectoryLock &&other) noexcept;
  ~DirectoryLock();

  /// Locks a directory. IO if another process holds the lock.
  static StatusOr<DirectoryLock> acquire(const std::string &directory);

  /// True if `directory` is the locked directory. A directory that was moved
  /// away or removed takes its lock along.
  StatusOr<bool> holds(const std::string &directory) const;

private:
  int file = -1;
};

/// Called before every change of the disk ("open", "link", "write", "sync",
/// "rename", "sync-directory", "unlink"). A result other than 0 is the errno
/// with which the change fails. Tests use the hook to fail at each point in
/// turn.
using FaultHook =
    std::function<int(std::string_view change, const std::string &path)>;
void setFaultHook(FaultHook hook);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_FILESYSTEM_H
