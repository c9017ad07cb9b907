// The objects behind the C API's handles, and the way in which its functions
// turn exceptions and failures into statuses.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CAPI_CAPIOBJECTS_H
#define MPC_RUNTIME_CAPI_CAPIOBJECTS_H

#include "runtime/Communicator.h"
#include "runtime/Session.h"
#include "runtime/Status.h"
#include "runtime/capi/PrintableText.h"
#include "runtime/capi/mpc.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <string>
#include <utility>

namespace mpc::runtime::train {
struct DatasetOptions;
} // namespace mpc::runtime::train

struct mpc_status {
  mpc::runtime::Status status;
};

struct mpc_artifact {
  std::shared_ptr<const mpc::runtime::Artifact> artifact;
};

struct mpc_communicator {
  explicit mpc_communicator(
      std::shared_ptr<mpc::runtime::Communicator> communicator,
      int localRank = 0, int localSize = 1,
      std::chrono::milliseconds rankTimeout = std::chrono::minutes(10))
      : shared(std::move(communicator)), localRank(localRank),
        localSize(localSize), rankTimeout(rankTimeout),
        backend(shared ? shared->backend() : "") {}

  /// Shared with the sessions of the ranks; null for a single rank.
  const std::shared_ptr<mpc::runtime::Communicator> shared;
  const int localRank, localSize;
  const std::chrono::milliseconds rankTimeout;
  const std::string backend;
};

struct mpc_session {
  std::shared_ptr<const mpc::runtime::Artifact> artifact;
  /// Shared with the trainers and evaluations of the session.
  std::shared_ptr<mpc::runtime::Session> session;
  uint64_t seed = 0;
  /// Connects the ranks of the session, which keeps it alive; null for a single
  /// rank.
  mpc::runtime::Communicator *communicator = nullptr;
  /// The valid labels of the model's inputs; null until checkLabels needs them.
  std::shared_ptr<const mpc::runtime::train::DatasetOptions> labels = nullptr;
};

namespace mpc::capi {

using runtime::Status;
using runtime::StatusCode;

/// Returns a shared status for failures that leave no memory for a status of
/// their own. mpc_status_free does not free this status. The message is short
/// enough for a string without allocation.
inline mpc_status *outOfMemoryStatus() noexcept {
  static mpc_status status{Status(StatusCode::IO, "out of memory")};
  return &status;
}

/// Returns `status` with a message that a terminal can show: names in models
/// may have any characters.
inline Status toPrintable(Status status) {
  std::string text = status.message();
  runtime::blankControls(text, /*keepsLines=*/false);
  return Status(status.getCode(), std::move(text));
}

/// Moves `status` to the heap for the C caller. Null if `status` is success;
/// outOfMemoryStatus() if there is no memory.
inline mpc_status *release(Status status) noexcept {
  if (status.ok())
    return nullptr;
  auto *object = new (std::nothrow) mpc_status{std::move(status)};
  return object ? object : outOfMemoryStatus();
}

/// Runs the body of a function of the C API, which returns a Status. Returns
/// the status for the caller, also of an exception.
template <typename Body>
mpc_status *guarded(Body body) noexcept {
  try {
    try {
      return release(toPrintable(body()));
    } catch (const std::bad_alloc &) {
      return outOfMemoryStatus();
    } catch (const std::exception &error) {
      return release(toPrintable(Status(StatusCode::Internal, error.what())));
    }
  } catch (...) { // copying error.what() may throw, too
    return outOfMemoryStatus();
  }
}

/// Returns InvalidInput if `bytes`, the value of an input of labels, has a
/// class label that the model's loss does not know. Success for other inputs. A
/// runtime without training knows no losses.
Status checkLabels(mpc_session &session, const char *function, const char *name,
                   const void *bytes, size_t size);

inline Status nullArgument(const char *what) {
  return Status(StatusCode::Usage, std::string(what) + " is NULL");
}

/// Returns a usage error if `object` is a struct whose struct_size is not set.
/// Success if `object` is null.
template <typename Struct>
Status checkSize(const Struct *object, const char *type) {
  if (!object || object->struct_size >= sizeof(size_t))
    return Status();
  return Status(StatusCode::Usage, "struct_size of " + std::string(type) +
                                       " is not set; initialise it with the "
                                       "macro");
}

/// Overwrites the defaults in `options` by the caller's options, if not null. A
/// caller compiled with an older header passes fewer fields.
template <typename Options>
Status readOptions(const Options *given, const char *type, Options &options) {
  Status status = checkSize(given, type);
  if (given && status.ok())
    std::memcpy(&options, given, std::min(given->struct_size, sizeof(options)));
  return status;
}

/// Copies `full` to `result`, at most `result->struct_size` bytes: a caller
/// compiled with an older header has a smaller struct.
template <typename Result>
Status fillResult(Result full, const char *type, Result *result) {
  Status status = checkSize(result, type);
  full.struct_size = result->struct_size;
  if (status.ok())
    std::memcpy(result, &full, std::min(result->struct_size, sizeof(full)));
  return status;
}

} // namespace mpc::capi

#endif // MPC_RUNTIME_CAPI_CAPIOBJECTS_H
