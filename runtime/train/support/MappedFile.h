// Maps a regular file for reading.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_SUPPORT_MAPPEDFILE_H
#define MPC_RUNTIME_TRAIN_SUPPORT_MAPPEDFILE_H

#include "runtime/Status.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace mpc::runtime::train {

/// The bytes of a file, mapped for reading. Replacing the file by a rename does
/// not affect the mapping. mpc cannot detect that another process truncates the
/// file: reading beyond the new end raises SIGBUS.
class MappedFile {
public:
  /// Opens and maps a file. IO if it cannot be opened or is no regular file. A
  /// pipe is refused without waiting for a writer.
  static StatusOr<std::shared_ptr<const MappedFile>>
  open(const std::string &path);
  ~MappedFile();
  MappedFile(const MappedFile &) = delete;
  MappedFile &operator=(const MappedFile &) = delete;

  const std::string &path() const { return name; }
  const std::byte *data() const { return base; }
  size_t size() const { return length; }
  std::string_view text() const {
    return {reinterpret_cast<const char *>(base), length};
  }

private:
  MappedFile(std::string name, const std::byte *base, size_t length)
      : name(std::move(name)), base(base), length(length) {}

  std::string name;
  const std::byte *base;
  size_t length;
};

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_SUPPORT_MAPPEDFILE_H
