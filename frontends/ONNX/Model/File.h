// Files that nobody vouches for: opened without following them out of their
// folder, never blocking, read up to a limit.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_FILE_H
#define MPC_FRONTENDS_ONNX_MODEL_FILE_H

#include "frontends/ONNX/Model/Error.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"

#include <array>
#include <memory>
#include <optional>
#include <string>

namespace mpc::onnx_frontend {

/// The path that stands for standard input, whose folder is the current one.
inline constexpr llvm::StringLiteral kStandardInput = "-";

/// What tells a file from another at the same path, and from itself once its
/// bytes have changed: device, inode, size, and when bytes and inode changed.
using FileVersion = std::array<int64_t, 7>;

/// An open file; closed with the object.
class File {
public:
  /// Opens the file at `path`, following links. A pipe, a device or a directory
  /// is an error, as is a missing file (kind IO). Standard input may be
  /// anything; what it holds can be read once, in order.
  static llvm::Expected<File> open(llvm::StringRef path);

  /// Opens `relative`, which must lie in `directory` (a real path) after all
  /// links are followed; anything else is an error (kind Invalid).
  static llvm::Expected<File> openBeneath(llvm::StringRef directory,
                                          llvm::StringRef relative);

  File(File &&other)
      : fd(other.fd), path(std::move(other.path)), size(other.size),
        version(other.version) {
    other.fd = -1;
  }
  File &operator=(File &&) = delete;
  ~File();

  /// In bytes; nothing for standard input.
  std::optional<int64_t> getSize() const { return size; }
  /// What was opened; nothing for standard input.
  const std::optional<FileVersion> &getVersion() const { return version; }

  /// Reads the bytes that follow those it read last, as many as there are at
  /// once. Returns how many, 0 at the end.
  llvm::Expected<size_t> readNext(llvm::MutableArrayRef<char> buffer) const;

  /// Reads exactly `buffer.size()` bytes from `offset` of a regular file.
  llvm::Error read(int64_t offset, llvm::MutableArrayRef<char> buffer) const;

private:
  File(int fd, llvm::StringRef path) : fd(fd), path(path) {}
  static llvm::Expected<File> adopt(int fd, llvm::StringRef path);

  int fd;
  std::string path;
  std::optional<int64_t> size;
  std::optional<FileVersion> version;
};

/// Writes a file that appears whole or not at all: bytes go to a temporary file
/// beside `path`, which `commit` syncs and renames. Without commit it vanishes.
class AtomicFile {
public:
  static llvm::Expected<AtomicFile> create(llvm::StringRef path);

  AtomicFile(AtomicFile &&other);
  AtomicFile &operator=(AtomicFile &&) = delete;
  ~AtomicFile();

  int getDescriptor() const { return fd; }
  llvm::Error write(llvm::ArrayRef<char> bytes);
  llvm::Error commit();

private:
  AtomicFile(int fd, std::string path, std::string temporary)
      : fd(fd), path(std::move(path)), temporary(std::move(temporary)) {}

  int fd;
  std::string path, temporary;
};

/// The real path of the folder that holds the file at `path` itself (links to
/// the file are followed first when `followFile`).
llvm::Expected<std::string> getRealDirectory(llvm::StringRef path,
                                             bool followFile);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_FILE_H
