// Implements the C API's communicators: those of a launcher, and those of the
// program's own functions.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/capi/CAPIObjects.h"
#include "runtime/distributed/Connect.h"
#include "runtime/distributed/HostCommunicator.h"
#include "runtime/distributed/Launch.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

using namespace mpc::runtime;
using mpc::capi::guarded;
using mpc::capi::nullArgument;
using mpc::capi::readOptions;

static_assert(MPC_RANK == int(StatusCode::Rank));

//===----------------------------------------------------------------------===//
// Back ends of the program
//===----------------------------------------------------------------------===//

namespace {

/// Moves bytes by the functions of the program.
class ProgramCommunicator : public HostCommunicator {
public:
  ProgramCommunicator(int rank, int size, const mpc_backend &functions)
      : HostCommunicator(rank, size), functions(functions),
        name(functions.name ? functions.name : "program") {}

  std::string_view backend() const override { return name; }
  void noteLoss() override { hasFailed = true; }
  void abort(const Status &why) override {
    hasFailed = true;
    if (functions.abort)
      functions.abort(functions.context, why.message().c_str());
  }

protected:
  Status exchangeBlocks(const std::byte *from, std::byte *to,
                        size_t bytes) override {
    return call(functions.exchange, "exchange", from, to, bytes);
  }
  Status gatherBlocks(std::byte *data, size_t bytes) override {
    return call(functions.gather, "gather", data, bytes);
  }
  Status broadcastBlock(std::byte *data, size_t bytes, int root) override {
    return call(functions.broadcast, "broadcast", data, bytes, root);
  }
  Status waitForAll() override { return call(functions.barrier, "barrier"); }

private:
  template <typename Function, typename... Arguments>
  Status call(Function function, const char *what, Arguments... arguments) {
    if (hasFailed)
      return Status(StatusCode::Rank,
                    describeCall() + ": an earlier call has failed");
    const int32_t code = function(functions.context, arguments...);
    if (code == 0)
      return Status();
    hasFailed = true;
    return Status(StatusCode::Rank,
                  "rank " + std::to_string(rank()) + " of " +
                      std::to_string(size()) + ": " + describeCall() +
                      ": the function '" + what + "' of the back end '" + name +
                      "' returned " + std::to_string(code) +
                      ", expected 0; another rank may have ended");
  }

  const mpc_backend functions;
  const std::string name;
  std::atomic<bool> hasFailed{false};
};

} // namespace

/// Returns a usage error if a function is missing.
static Status checkBackend(const mpc_backend &backend) {
  const std::pair<const char *, bool> functions[] = {
      {"exchange", backend.exchange},
      {"gather", backend.gather},
      {"broadcast", backend.broadcast},
      {"barrier", backend.barrier}};
  for (const auto &[name, isGiven] : functions)
    if (!isGiven)
      return nullArgument((std::string(name) + " of mpc_backend").c_str());
  return Status();
}

extern "C" {

mpc_status *mpc_communicator_connect(const mpc_communicator_options *options,
                                     mpc_communicator **communicator) noexcept {
  return guarded([&] {
    if (!communicator)
      return nullArgument("communicator");
    mpc_communicator_options given = MPC_COMMUNICATOR_OPTIONS_INIT;
    if (Status status = readOptions(options, "mpc_communicator_options", given);
        !status.ok())
      return status;
    if (given.ranks < 0)
      return Status(StatusCode::Usage,
                    "ranks: expected a number of at least 0, got " +
                        std::to_string(given.ranks));
    ConnectOptions converted;
    // A century in milliseconds fits 64 bits.
    if (!(given.rank_timeout > 0 && given.rank_timeout < 3e9))
      return Status(StatusCode::Usage,
                    "rank_timeout: expected seconds above 0 and below 3e9, "
                    "got " +
                        std::to_string(given.rank_timeout));
    converted.rankTimeout =
        std::max(std::chrono::milliseconds(1),
                 std::chrono::milliseconds(int64_t(given.rank_timeout * 1000)));
    StatusOr<Launch> launch = Launch::find(given.ranks);
    if (!launch.ok())
      return launch.status();
    StatusOr<std::unique_ptr<Communicator>> connected =
        connect(*launch, converted);
    if (!connected.ok())
      return connected.status();
    *communicator =
        new mpc_communicator{std::move(*connected), launch->localRank,
                             launch->localSize, converted.rankTimeout};
    return Status();
  });
}

mpc_status *mpc_communicator_create(int32_t rank, int32_t size,
                                    const mpc_backend *backend,
                                    mpc_communicator **communicator) noexcept {
  return guarded([&] {
    if (!backend || !communicator)
      return nullArgument("backend or communicator");
    if (size < 1 || rank < 0 || rank >= size)
      return Status(StatusCode::Usage,
                    "expected a rank in [0, size), got rank " +
                        std::to_string(rank) + " of " + std::to_string(size));
    mpc_backend given = MPC_BACKEND_INIT;
    Status status = readOptions(backend, "mpc_backend", given);
    if (status.ok())
      status = checkBackend(given);
    if (!status.ok())
      return status;
    std::unique_ptr<Communicator> made;
    if (size > 1)
      made = std::make_unique<ProgramCommunicator>(rank, size, given);
    *communicator = new mpc_communicator{std::move(made)};
    return Status();
  });
}

int32_t mpc_communicator_rank(const mpc_communicator *communicator) noexcept {
  return communicator && communicator->shared ? communicator->shared->rank()
                                              : 0;
}

int32_t mpc_communicator_size(const mpc_communicator *communicator) noexcept {
  return communicator && communicator->shared ? communicator->shared->size()
                                              : 1;
}

int32_t
mpc_communicator_local_rank(const mpc_communicator *communicator) noexcept {
  return communicator ? communicator->localRank : 0;
}

int32_t
mpc_communicator_local_size(const mpc_communicator *communicator) noexcept {
  return communicator ? communicator->localSize : 1;
}

const char *
mpc_communicator_backend(const mpc_communicator *communicator) noexcept {
  return communicator ? communicator->backend.c_str() : "";
}

uint64_t
mpc_communicator_bytes_sent(const mpc_communicator *communicator) noexcept {
  return communicator && communicator->shared
             ? communicator->shared->bytesSent()
             : 0;
}

mpc_status *mpc_communicator_barrier(mpc_communicator *communicator) noexcept {
  return guarded([&] {
    if (!communicator)
      return nullArgument("communicator");
    return communicator->shared ? communicator->shared->barrier() : Status();
  });
}

void mpc_communicator_abort(mpc_communicator *communicator,
                            const char *why) noexcept {
  if (!communicator || !communicator->shared)
    return;
  mpc_status_free(guarded([&] {
    communicator->shared->abort(
        Status(StatusCode::Rank,
               "rank " + std::to_string(communicator->shared->rank()) + ": " +
                   (why ? why : "the program has given up")));
    return Status();
  }));
}

void mpc_communicator_free(mpc_communicator *communicator) noexcept {
  delete communicator;
}

} // extern "C"
