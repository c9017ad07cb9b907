// Status is the only error type of the runtime. The runtime never exits or
// prints, and no exception leaves its C API.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_STATUS_H
#define MPC_RUNTIME_STATUS_H

#include "runtime/Names.h"

#include <optional>
#include <string>
#include <utility>

namespace mpc::runtime {

/// The kind of a failure, also the exit code of a command that fails.
using StatusCode = ExitCode;

/// Success, or a code and a message. The message names what failed, what was
/// expected and what to do.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string message)
      : code(code), text(std::move(message)) {}

  bool ok() const { return code == StatusCode::Done; }
  StatusCode getCode() const { return code; }
  const std::string &message() const { return text; }

private:
  StatusCode code = StatusCode::Done;
  std::string text;
};

/// A value, or the reason why there is none.
template <typename T>
class [[nodiscard]] StatusOr {
public:
  StatusOr(T value) : stored(std::move(value)) {}
  StatusOr(Status status) : failure(std::move(status)) {}

  bool ok() const { return stored.has_value(); }
  const Status &status() const { return failure; }
  T &operator*() { return *stored; }
  const T &operator*() const { return *stored; }
  T *operator->() { return &*stored; }
  const T *operator->() const { return &*stored; }

private:
  std::optional<T> stored;
  Status failure;
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_STATUS_H
