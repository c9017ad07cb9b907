// Opens and reads untrusted files: never outside their folder, never blocking,
// and up to a limit. Writes files atomically.
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

/// The path that stands for standard input. Paths relative to standard input
/// are relative to the current directory.
inline constexpr llvm::StringLiteral kStandardInput = "-";

/// Identifies the bytes of a file: device, inode, size, and the times of the
/// last change of bytes and of inode.
using FileVersion = std::array<int64_t, 7>;

/// An open file. The destructor closes it.
class File {
public:
  /// Opens the file at `path`, and follows links. Error (kind IO) if the file
  /// is missing or no regular file, such as a pipe, device or directory.
  /// Standard input may be of any kind, but is read once, from beginning to
  /// end.
  static llvm::Expected<File> open(llvm::StringRef path);

  /// Opens the path `relative` below `directory`, a real path. Error (kind
  /// InvalidInput) if the file lies outside `directory` once all links are
  /// followed.
  static llvm::Expected<File> openBeneath(llvm::StringRef directory,
                                          llvm::StringRef relative);

  File(File &&other)
      : fd(other.fd), path(std::move(other.path)), size(other.size),
        version(other.version) {
    other.fd = -1;
  }
  File &operator=(File &&) = delete;
  ~File();

  /// The size in bytes; nullopt for standard input.
  std::optional<int64_t> getSize() const { return size; }
  /// Identifies the file's contents when it was opened; nullopt for standard
  /// input.
  const std::optional<FileVersion> &getVersion() const { return version; }

  /// Reads the next bytes into `buffer`, as many as one system call gives.
  /// Returns their number, 0 at the end of the file.
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

/// Writes a file that appears whole or not at all. Bytes go to a temporary file
/// beside `path`; `commit` syncs and renames it. Without `commit` the
/// destructor deletes it.
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

/// Returns the real path of the folder that holds the file at `path`. If
/// `followFile` and the file is a link, returns the folder of the link's
/// target.
llvm::Expected<std::string> getRealDirectory(llvm::StringRef path,
                                             bool followFile);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_FILE_H
