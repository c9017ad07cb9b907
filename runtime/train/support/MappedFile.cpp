// Opens and maps regular files, and refuses special ones.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/support/MappedFile.h"
#include "runtime/train/support/FileSystem.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace mpc::runtime::train {

StatusOr<std::shared_ptr<const MappedFile>>
MappedFile::open(const std::string &path) {
  // Without O_NONBLOCK, opening a named pipe would wait for a writer.
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (file < 0)
    return failure(path, "cannot open");
  struct stat info;
  void *base = nullptr;
  Status status;
  // Map only regular files with content: other files have no size, and mmap
  // refuses an empty file.
  if (fstat(file, &info) != 0)
    status = failure(path, "cannot stat");
  else if (!S_ISREG(info.st_mode))
    status = Status(StatusCode::IO, path + ": not a regular file");
  else if (info.st_size > 0)
    base = mmap(nullptr, size_t(info.st_size), PROT_READ, MAP_PRIVATE, file, 0);
  if (base == MAP_FAILED)
    status = failure(path, "cannot map");
  close(file);
  if (!status.ok())
    return status;
  return std::shared_ptr<const MappedFile>(new MappedFile(
      path, static_cast<const std::byte *>(base), size_t(info.st_size)));
}

MappedFile::~MappedFile() {
  if (base)
    munmap(const_cast<std::byte *>(base), length);
}

} // namespace mpc::runtime::train
