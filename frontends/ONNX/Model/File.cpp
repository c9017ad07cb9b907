// Reads untrusted files and writes files atomically.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Model/File.h"

#include "runtime/TemporaryFile.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Path.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

using namespace mpc::onnx_frontend;
using llvm::StringRef;

static llvm::Error makeSystemError(StringRef path, const char *action) {
  int error = errno;
  return makeError(ErrorKind::IO,
                   path + ": cannot " + action + ": " + std::strerror(error));
}

//===----------------------------------------------------------------------===//
// Reading
//===----------------------------------------------------------------------===//

llvm::Expected<File> File::adopt(int fd, StringRef path) {
  File file(fd, path);
  // Accept only regular files: devices and pipes may never end, and cannot be
  // read twice.
  struct stat status;
  if (fstat(fd, &status) != 0)
    return makeSystemError(path, "stat");
  if (S_ISDIR(status.st_mode))
    return makeError(ErrorKind::IO,
                     path + ": expected a file, found a directory");
  if (!S_ISREG(status.st_mode))
    return makeError(ErrorKind::IO,
                     path + ": expected a regular file, found a device, pipe "
                            "or socket");
  file.size = status.st_size;
  // The version identifies the bytes of the file: two reads with equal versions
  // have read equal bytes.
  file.version = {static_cast<int64_t>(status.st_dev),
                  static_cast<int64_t>(status.st_ino),
                  status.st_size,
                  status.st_mtim.tv_sec,
                  status.st_mtim.tv_nsec,
                  status.st_ctim.tv_sec,
                  status.st_ctim.tv_nsec};
  return file;
}

// Writes all of `bytes`; on failure returns false and sets errno.
static bool writeAll(int fd, llvm::ArrayRef<char> bytes) {
  while (!bytes.empty()) {
    ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR)
      return false;
    bytes = bytes.drop_front(std::max<ssize_t>(count, 0));
  }
  return true;
}

llvm::Expected<File> File::open(StringRef path) {
  if (path == kStandardInput) {
    int fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0);
    if (fd < 0)
      return makeSystemError("standard input", "open");
    return File(fd, "standard input");
  }
  // O_NONBLOCK: opening a pipe must not wait for its writer.
  int fd = ::open(path.str().c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0)
    return makeSystemError(path, "open");
  return adopt(fd, path);
}

// Opens the path `relative` below the open directory `root`. The kernel refuses
// a path that leaves `root`, also through a link. Returns -1 and sets errno on
// failure.
static int openContained(int root, const std::string &relative) {
  struct open_how how = {};
  how.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(
      syscall(SYS_openat2, root, relative.c_str(), &how, sizeof(how)));
}

llvm::Expected<File> File::openBeneath(StringRef directory,
                                       StringRef relative) {
  // Refuse null characters: the kernel would end the path at the first, and so
  // open another file than the checked one.
  std::string inside = relative.str();
  if (inside.empty() || inside.find('\0') != std::string::npos)
    return makeError(ErrorKind::InvalidInput,
                     "the location of external data is "
                     "empty or holds a null character");
  // Keep the folder open during the lookup, so that nobody can exchange it.
  int root = ::open(directory.str().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  if (root < 0)
    return makeSystemError(directory, "open");
  int fd = openContained(root, inside);
  int error = errno;
  close(root);
  if (fd >= 0)
    return adopt(fd, (directory + "/" + relative).str());
  // The two errors mean: `..` or a link leads out of the folder.
  if (error == EXDEV || error == ELOOP)
    return makeError(ErrorKind::InvalidInput,
                     "external data '" + relative +
                         "' leaves the folder of the model, " + directory);
  errno = error;
  return makeSystemError((directory + "/" + relative).str(), "open");
}

File::~File() {
  if (fd >= 0)
    close(fd);
}

llvm::Expected<size_t>
File::readNext(llvm::MutableArrayRef<char> buffer) const {
  while (true) {
    ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count >= 0)
      return static_cast<size_t>(count);
    if (errno != EINTR)
      return makeSystemError(path, "read");
  }
}

llvm::Error File::read(int64_t offset,
                       llvm::MutableArrayRef<char> buffer) const {
  while (!buffer.empty()) {
    ssize_t count = pread(fd, buffer.data(), buffer.size(), offset);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return makeSystemError(path, "read");
    if (count == 0)
      return makeError(ErrorKind::IO,
                       path + ": the file ended while it was read");
    buffer = buffer.drop_front(count);
    offset += count;
  }
  return llvm::Error::success();
}

llvm::Expected<std::string>
mpc::onnx_frontend::getRealDirectory(StringRef path, bool followFile) {
  StringRef parent = llvm::sys::path::parent_path(path);
  followFile &= path != kStandardInput;
  std::string start = followFile ? path.str() : parent.str();
  if (start.empty())
    start = ".";
  std::unique_ptr<char, void (*)(void *)> real(realpath(start.c_str(), nullptr),
                                               std::free);
  if (!real)
    return makeSystemError(path, "resolve");
  return followFile ? llvm::sys::path::parent_path(real.get()).str()
                    : std::string(real.get());
}

//===----------------------------------------------------------------------===//
// Writing
//===----------------------------------------------------------------------===//

llvm::Expected<AtomicFile> AtomicFile::create(StringRef path) {
  mpc::runtime::TemporaryFile temporary =
      mpc::runtime::createTemporaryFile(path.str());
  if (temporary.file < 0)
    return makeSystemError(path, "create a file beside it");
  return AtomicFile(temporary.file, path.str(), std::move(temporary.path));
}

AtomicFile::AtomicFile(AtomicFile &&other)
    : fd(other.fd), path(std::move(other.path)),
      temporary(std::move(other.temporary)) {
  other.fd = -1;
}

AtomicFile::~AtomicFile() {
  if (fd < 0)
    return;
  unlink(temporary.c_str());
  close(fd);
}

llvm::Error AtomicFile::write(llvm::ArrayRef<char> bytes) {
  if (!writeAll(fd, bytes))
    return makeSystemError(path, "write");
  return llvm::Error::success();
}

llvm::Error AtomicFile::commit() {
  if (fsync(fd) != 0 || rename(temporary.c_str(), path.c_str()) != 0)
    return makeSystemError(path, "write");
  close(fd);
  fd = -1;
  // Sync the folder, too: only then does the rename survive a crash.
  StringRef parent = llvm::sys::path::parent_path(path);
  std::string folder = parent.empty() ? "." : parent.str();
  int directory = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (directory >= 0) {
    (void)fsync(directory);
    close(directory);
  }
  return llvm::Error::success();
}
