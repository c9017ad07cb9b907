// Makes durable changes to the file system, and checks each one.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/FileSystem.h"

#include "runtime/TemporaryFile.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

namespace mpc::runtime::train {

namespace fs = std::filesystem;

static FaultHook &faultHook() {
  static FaultHook hook;
  return hook;
}

void setFaultHook(FaultHook hook) { faultHook() = std::move(hook); }

/// True if the FaultHook, which only tests set, allows the change. Otherwise
/// sets errno.
static bool permitted(std::string_view change, const std::string &path) {
  if (!faultHook())
    return true;
  errno = faultHook()(change, path);
  return errno == 0;
}

Status failure(const std::string &path, const char *what) {
  return Status(StatusCode::IO,
                path + ": " + what + ": " + std::strerror(errno));
}

//===----------------------------------------------------------------------===//
// Looking
//===----------------------------------------------------------------------===//

/// True if `error` means that there is no such file. A name that is too long
/// means the same, since no file can have it.
static bool isGone(int error) {
  return error == ENOENT || error == ENOTDIR || error == ENAMETOOLONG;
}

static FileKind kindOf(const struct stat &info) {
  return S_ISREG(info.st_mode)   ? FileKind::Regular
         : S_ISDIR(info.st_mode) ? FileKind::Directory
         : S_ISLNK(info.st_mode) ? FileKind::Link
                                 : FileKind::Other;
}

static StatusOr<FileKind> kindOf(const std::string &path, int failed,
                                 const struct stat &info) {
  if (failed == 0)
    return kindOf(info);
  return isGone(errno) ? StatusOr<FileKind>(FileKind::None)
                       : failure(path, "cannot be examined");
}

StatusOr<FileKind> kindOf(const std::string &path) {
  struct stat info = {};
  const int failed = stat(path.c_str(), &info);
  return kindOf(path, failed, info);
}

StatusOr<FileKind> kindOfLink(const std::string &path) {
  struct stat info = {};
  const int failed = lstat(path.c_str(), &info);
  return kindOf(path, failed, info);
}

StatusOr<bool> exists(const std::string &path) {
  StatusOr<FileKind> kind = kindOf(path);
  return kind.ok() ? StatusOr<bool>(*kind != FileKind::None) : kind.status();
}

StatusOr<bool> isSameFile(const std::string &first, const std::string &second) {
  struct stat infos[2] = {};
  for (int i = 0; i < 2; ++i) {
    const std::string &path = i == 0 ? first : second;
    const int failed = stat(path.c_str(), &infos[i]);
    StatusOr<FileKind> kind = kindOf(path, failed, infos[i]);
    if (!kind.ok())
      return kind.status();
    if (*kind == FileKind::None)
      return false;
  }
  return infos[0].st_dev == infos[1].st_dev &&
         infos[0].st_ino == infos[1].st_ino;
}

StatusOr<std::optional<std::string>> readLink(const std::string &path) {
  char target[PATH_MAX];
  const ssize_t size = readlink(path.c_str(), target, sizeof(target));
  if (size >= 0)
    return std::optional<std::string>(std::string(target, size_t(size)));
  if (errno == EINVAL || isGone(errno))
    return std::optional<std::string>();
  return failure(path, "cannot be examined");
}

StatusOr<std::vector<FolderEntry>> listFolder(const std::string &path) {
  std::vector<FolderEntry> entries;
  std::error_code error;
  fs::directory_iterator it(path, error), end;
  for (; !error && it != end; it.increment(error)) {
    FolderEntry entry;
    entry.name = it->path().filename().string();
    // Ask the directory entry first: most file systems report the kind of a
    // file together with its name.
    std::error_code unknown;
    entry.isLink = it->is_symlink(unknown);
    if (!unknown)
      entry.isFolder = it->is_directory(unknown);
    // A link to nothing causes an error, as does a file that was just removed.
    if (unknown) {
      StatusOr<FileKind> kind = kindOfLink(it->path().string());
      if (kind.ok() && *kind == FileKind::None)
        continue;
      entry.isLink = kind.ok() && *kind == FileKind::Link;
      if (entry.isLink)
        kind = kindOf(it->path().string());
      if (!kind.ok())
        return kind.status();
      entry.isFolder = *kind == FileKind::Directory;
    }
    entries.push_back(std::move(entry));
  }
  if (error)
    return Status(StatusCode::IO,
                  path + ": cannot be listed: " + error.message());
  std::sort(entries.begin(), entries.end(),
            [](const FolderEntry &a, const FolderEntry &b) {
              return a.name < b.name;
            });
  return entries;
}

//===----------------------------------------------------------------------===//
// Changing
//===----------------------------------------------------------------------===//

bool writeAll(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(file, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      return false;
    bytes.remove_prefix(size_t(written));
  }
  return true;
}

/// Writes the chunks and flushes them to the disk.
static Status writeChunks(int file, const std::string &path,
                          const std::vector<std::string_view> &chunks) {
  bool written = true;
  for (std::string_view chunk : chunks)
    written = written && permitted("write", path) && writeAll(file, chunk);
  if (!written)
    return failure(path, "cannot write");
  if (!permitted("sync", path) || fsync(file) != 0)
    return failure(path, "cannot flush");
  return Status();
}

Status createFile(const std::string &path,
                  const std::vector<std::string_view> &chunks, mode_t mode) {
  // Never overwrite an existing file or follow a link: both could belong to
  // somebody else.
  int file = -1;
  if (permitted("open", path))
    file = open(path.c_str(),
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode);
  if (file < 0)
    return failure(path, "cannot create");
  Status status = writeChunks(file, path, chunks);
  // Check this result too: a network disk may report only here that it is full.
  if (close(file) != 0 && status.ok())
    status = failure(path, "cannot close");
  return status;
}

Status replaceFile(const std::string &path,
                   const std::vector<std::string_view> &chunks, mode_t mode) {
  // A rename would put a file in the place of a device such as /dev/null.
  struct stat place;
  if (stat(path.c_str(), &place) == 0 && !S_ISREG(place.st_mode))
    return Status(StatusCode::IO, path + ": expected a file to replace, found "
                                         "a folder, a device or a pipe");
  TemporaryFile temporary;
  if (permitted("open", path))
    temporary = createTemporaryFile(path, mode);
  if (temporary.file < 0)
    return failure(path, "cannot create a file beside it");
  Status status = writeChunks(temporary.file, temporary.path, chunks);
  if (status.ok())
    status = renamePath(temporary.path, path);
  if (!status.ok())
    unlink(temporary.path.c_str());
  close(temporary.file);
  if (!status.ok())
    return status;
  const std::string parent = fs::path(path).parent_path().string();
  return syncDirectory(parent.empty() ? "." : parent);
}

Status replaceLink(const std::string &path, const std::string &target) {
  const std::string temporary = path + ".tmp";
  unlink(temporary.c_str()); // left by a killed process
  if (!permitted("link", temporary) ||
      symlink(target.c_str(), temporary.c_str()) != 0)
    return failure(temporary, "cannot create");
  if (Status status = renamePath(temporary, path); !status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  const std::string parent = fs::path(path).parent_path().string();
  return syncDirectory(parent.empty() ? "." : parent);
}

Status syncDirectory(const std::string &path) {
  const int directory = open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory < 0)
    return failure(path, "cannot open");
  Status status;
  if (!permitted("sync-directory", path) || fsync(directory) != 0)
    status = failure(path, "cannot flush");
  close(directory);
  return status;
}

Status renamePath(const std::string &from, const std::string &to) {
  if (!permitted("rename", to) || rename(from.c_str(), to.c_str()) != 0)
    return failure(from, ("cannot rename to " + to).c_str());
  return Status();
}

Status makeDirectories(const std::string &path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error)
    return Status(StatusCode::IO,
                  path + ": cannot create the directory: " + error.message());
  return Status();
}

Status requireWritable(const std::string &path) {
  fs::path existing = path;
  StatusOr<FileKind> kind = kindOf(path);
  while (kind.ok() && *kind == FileKind::None && !existing.empty()) {
    existing = existing.parent_path();
    kind = kindOf(existing.empty() ? "." : existing.string());
  }
  if (!kind.ok())
    return kind.status();
  if (existing.empty())
    existing = ".";
  if (*kind != FileKind::Directory)
    return Status(StatusCode::IO,
                  existing.string() + ": is a file, expected a folder");
  if (access(existing.c_str(), W_OK | X_OK) != 0)
    return failure(existing.string(), "cannot write");
  return Status();
}

Status removeDirectory(const std::string &path) {
  // If `path` is a link, remove only the link, since mpc did not create its
  // target.
  StatusOr<FileKind> kind = kindOfLink(path);
  if (!kind.ok())
    return kind.status();
  if (*kind == FileKind::Link)
    return permitted("unlink", path) && unlink(path.c_str()) == 0
               ? Status()
               : failure(path, "cannot remove");
  StatusOr<std::vector<FolderEntry>> entries = listFolder(path);
  if (!entries.ok())
    return entries.status();
  for (const FolderEntry &entry : *entries)
    if (const std::string name = path + "/" + entry.name;
        entry.isLink || !entry.isFolder)
      if (!permitted("unlink", name) || unlink(name.c_str()) != 0)
        return failure(name, "cannot remove");
  if (!permitted("unlink", path) || rmdir(path.c_str()) != 0)
    return failure(path, "cannot remove");
  return Status();
}

Status requireSpace(const std::string &directory, uint64_t bytes) {
  struct statvfs info;
  if (statvfs(directory.c_str(), &info) != 0)
    return failure(directory, "cannot stat the file system");
  const uint64_t available = uint64_t(info.f_bavail) * info.f_frsize;
  if (available < bytes)
    return Status(StatusCode::IO, directory + ": " + std::to_string(bytes) +
                                      " bytes are needed, " +
                                      std::to_string(available) +
                                      " are free: " + std::strerror(ENOSPC));
  return Status();
}

/// True if the message ends with the system's text for a full disk or quota.
bool isForWantOfSpace(const Status &status) {
  const std::string &message = status.message();
  for (int error : {ENOSPC, EDQUOT}) {
    const std::string words = std::strerror(error);
    if (message.size() >= words.size() &&
        message.compare(message.size() - words.size(), words.size(), words) ==
            0)
      return true;
  }
  return false;
}

//===----------------------------------------------------------------------===//
// DirectoryLock
//===----------------------------------------------------------------------===//

DirectoryLock::DirectoryLock(DirectoryLock &&other) noexcept
    : file(std::exchange(other.file, -1)) {}

DirectoryLock &DirectoryLock::operator=(DirectoryLock &&other) noexcept {
  std::swap(file, other.file);
  return *this;
}

DirectoryLock::~DirectoryLock() {
  if (file >= 0)
    close(file); // releases the lock
}

StatusOr<DirectoryLock> DirectoryLock::acquire(const std::string &directory) {
  DirectoryLock lock;
  lock.file = open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock.file < 0)
    return failure(directory, "cannot open");
  if (flock(lock.file, LOCK_EX | LOCK_NB) == 0)
    return lock;
  if (errno == EWOULDBLOCK)
    return Status(StatusCode::IO,
                  directory + ": in use by another training run");
  return failure(directory, "cannot lock");
}

StatusOr<bool> DirectoryLock::holds(const std::string &directory) const {
  struct stat locked, present;
  if (fstat(file, &locked) != 0 || stat(directory.c_str(), &present) != 0)
    return failure(directory, "cannot tell if it is the folder that is locked");
  return locked.st_dev == present.st_dev && locked.st_ino == present.st_ino;
}

} // namespace mpc::runtime::train
