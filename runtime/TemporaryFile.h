// Creates temporary files that will replace another file. Their names are
// predictable, so the next run can remove a file that a killed run left.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TEMPORARYFILE_H
#define MPC_RUNTIME_TEMPORARYFILE_H

#include <cerrno>
#include <fcntl.h>
#include <string>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mpc::runtime {

struct TemporaryFile {
  int file = -1; ///< open and locked; -1 on failure, with the reason in errno
  std::string path;
};

/// Returns ".NAME.mpc-tmp" in the folder of `path`.
inline std::string temporaryPathOf(const std::string &path) {
  const size_t name = path.rfind('/') + 1; // 0 without a '/'
  return path.substr(0, name) + "." + path.substr(name) + ".mpc-tmp";
}

/// Removes a temporary file that a killed run left. True if the file was
/// removed. Keeps a locked file, since a process is still writing it. Keeps a
/// link and anything but a regular file, since mpc did not create it.
inline bool removeLeftover(const std::string &path) {
  const int file =
      open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return false;
  // Compare the locked file with the file at `path`: the process that held the
  // lock before may have renamed its file, and `path` may name a new one.
  struct stat locked, present;
  const bool isLeft =
      flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &locked) == 0 &&
      S_ISREG(locked.st_mode) && lstat(path.c_str(), &present) == 0 &&
      present.st_dev == locked.st_dev && present.st_ino == locked.st_ino;
  const bool isGone = isLeft && unlink(path.c_str()) == 0;
  close(file);
  return isGone;
}

/// Creates the file that will replace `path`, with `mode` less the umask.
/// Rename the file before closing it: without the lock, another process may
/// remove it.
inline TemporaryFile createTemporaryFile(const std::string &path,
                                         mode_t mode = 0666) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  TemporaryFile temporary;
  temporary.path = temporaryPathOf(path);
  temporary.file = open(temporary.path.c_str(), kFlags, mode);
  if (temporary.file < 0 && errno == EEXIST) {
    // Another process is writing a replacement of the same file, so choose a
    // name with the process id.
    if (!removeLeftover(temporary.path))
      temporary.path += "-" + std::to_string(getpid());
    temporary.file = open(temporary.path.c_str(), kFlags, mode);
  }
  // Ignore a failure to lock. On a file system without locks, removeLeftover
  // cannot lock the file either, and keeps it.
  if (temporary.file >= 0)
    static_cast<void>(flock(temporary.file, LOCK_EX | LOCK_NB));
  return temporary;
}

} // namespace mpc::runtime

#endif // MPC_RUNTIME_TEMPORARYFILE_H
