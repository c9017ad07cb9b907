// Durable changes to the file system, each one checked.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/FileSystem.h"

#include <cerrno>
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

/// True where the change may go ahead; otherwise errno is set.
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

Status createFile(const std::string &path,
                  const std::vector<std::string_view> &chunks) {
  // Never over an existing file, and never through a link: both could be
  // somebody else's.
  int file = -1;
  if (permitted("open", path))
    file = open(path.c_str(),
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0)
    return failure(path, "cannot create");
  // What is written counts once it is on the disk.
  bool written = true;
  for (std::string_view chunk : chunks)
    written = written && permitted("write", path) && writeAll(file, chunk);
  Status status;
  if (!written)
    status = failure(path, "cannot write");
  else if (!permitted("sync", path) || fsync(file) != 0)
    status = failure(path, "cannot flush");
  // A full network disk may report it only here.
  if (close(file) != 0 && status.ok())
    status = failure(path, "cannot close");
  return status;
}

Status replaceFile(const std::string &path,
                   const std::vector<std::string_view> &chunks) {
  const std::string temporary =
      path + ".tmp" + std::to_string(static_cast<long>(getpid()));
  // In containers the same number comes back: what a killed process of it left.
  unlink(temporary.c_str());
  Status status = createFile(temporary, chunks);
  if (status.ok())
    status = renamePath(temporary, path);
  if (!status.ok()) {
    unlink(temporary.c_str());
    return status;
  }
  const std::string parent = fs::path(path).parent_path().string();
  return syncDirectory(parent.empty() ? "." : parent);
}

Status replaceLink(const std::string &path, const std::string &target) {
  const std::string temporary = path + ".tmp";
  unlink(temporary.c_str()); // what a killed process left
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
  std::error_code ignored;
  fs::path existing = fs::path(path);
  while (!existing.empty() && !fs::exists(existing, ignored))
    existing = existing.parent_path();
  if (existing.empty())
    existing = ".";
  if (!fs::is_directory(existing, ignored))
    return Status(StatusCode::IO,
                  existing.string() + ": is a file, expected a folder");
  if (access(existing.c_str(), W_OK | X_OK) != 0)
    return failure(existing.string(), "cannot write");
  return Status();
}

Status removeDirectory(const std::string &path) {
  std::vector<std::string> names;
  std::error_code error;
  // What a link leads to is not ours.
  if (fs::is_symlink(fs::symlink_status(path, error)))
    return permitted("unlink", path) && unlink(path.c_str()) == 0
               ? Status()
               : failure(path, "cannot remove");
  fs::directory_iterator it(path, error), end;
  for (; !error && it != end; it.increment(error))
    if (it->symlink_status().type() != fs::file_type::directory)
      names.push_back(it->path().string());
  if (error)
    return Status(StatusCode::IO, path + ": cannot list: " + error.message());
  for (const std::string &name : names)
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

/// All messages here end with the system's words.
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

} // namespace mpc::runtime::train
