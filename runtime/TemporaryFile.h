// Files that will take the place of another, under names that can be found
// again: the next run removes what a killed one left.
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
  int file = -1; ///< open and locked; -1 where errno says why not
  std::string path;
};

/// ".NAME.mpc-tmp" beside `path`.
inline std::string temporaryPathOf(const std::string &path) {
  const size_t name = path.rfind('/') + 1; // 0 where there is none
  return path.substr(0, name) + "." + path.substr(name) + ".mpc-tmp";
}

/// True if a file that nobody writes was there, and is gone. One that is locked
/// is being written; a link, or what is no file, is not ours.
inline bool removeLeftover(const std::string &path) {
  const int file =
      open(path.c_str(), O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (file < 0)
    return false;
  // Whoever held the lock before may have put another file in its place.
  struct stat locked, present;
  const bool isLeft =
      flock(file, LOCK_EX | LOCK_NB) == 0 && fstat(file, &locked) == 0 &&
      S_ISREG(locked.st_mode) && lstat(path.c_str(), &present) == 0 &&
      present.st_dev == locked.st_dev && present.st_ino == locked.st_ino;
  const bool isGone = isLeft && unlink(path.c_str()) == 0;
  close(file);
  return isGone;
}

/// Creates the file that will take the place of `path`, with the rights of
/// `mode` that the umask leaves. To be renamed before it is closed: once its
/// lock is gone, so may the file be.
inline TemporaryFile createTemporaryFile(const std::string &path,
                                         mode_t mode = 0666) {
  constexpr int kFlags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  TemporaryFile temporary;
  temporary.path = temporaryPathOf(path);
  temporary.file = open(temporary.path.c_str(), kFlags, mode);
  if (temporary.file < 0 && errno == EEXIST) {
    // Another process that writes the same file has a name of its own.
    if (!removeLeftover(temporary.path))
      temporary.path += "-" + std::to_string(getpid());
    temporary.file = open(temporary.path.c_str(), kFlags, mode);
  }
  // If files cannot be locked, nobody else removes it either.
  if (temporary.file >= 0)
    static_cast<void>(flock(temporary.file, LOCK_EX | LOCK_NB));
  return temporary;
}

} // namespace mpc::runtime

#endif // MPC_RUNTIME_TEMPORARYFILE_H
