// A regular file, mapped for reading.
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

/// The bytes of a file as they were when it was opened. A file that another
/// process truncates while it is mapped is beyond what can be checked: reading
/// past its new end raises SIGBUS.
class MappedFile {
public:
  /// IO where it cannot be opened or is no regular file (a pipe is refused
  /// without waiting for it).
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
