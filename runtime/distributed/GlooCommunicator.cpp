// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/GlooCommunicator.h"

#include "runtime/distributed/GlooABI.h"
#include "runtime/distributed/HostCommunicator.h"
#include "runtime/distributed/RankChannel.h"
#include "runtime/distributed/RankErrors.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>

namespace mpc::runtime {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The file lies beside libmpc_runtime.so, or in the folder mpc there.
static constexpr char kGlooLibrary[] = "libmpc_gloo.so";
/// Other ranks need some time to notice which rank is lost.
static constexpr milliseconds kNewsWait(3000);
/// The bytes of a numeric address in a message: "fe80::1%eth0".
static constexpr size_t kAddressText = 64;

//===----------------------------------------------------------------------===//
// Loading
//===----------------------------------------------------------------------===//

static StatusOr<GlooFunctions> loadGloo() {
  const char *named = std::getenv("MPC_GLOO_LIBRARY");
  const char *name = named ? named : kGlooLibrary;
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *why = dlerror();
    return rankError(
        "ranks without MPI need the library libmpc_gloo.so, which cannot be "
        "loaded: " +
        std::string(why ? why : name) +
        "; install mpc's package libmpc-gloo0, or build mpc with Debian's "
        "package libgloo-dev; or start the ranks by mpirun");
  }
  GlooFunctions call;
#define MPC_FIND(result, member, symbol, ...)                                  \
  call.member =                                                                \
      reinterpret_cast<decltype(call.member)>(dlsym(library, #symbol));
  MPC_GLOO_FUNCTIONS(MPC_FIND)
#undef MPC_FIND
  if (!call.version || call.version() != kGlooVersion)
    return rankError("'" + std::string(name) +
                     "' is of another version of mpc; install the same version "
                     "of both");
  return call;
}

StatusOr<std::string> findGlooLibrary() {
  StatusOr<GlooFunctions> call = loadGloo();
  if (!call.ok())
    return call.status();
  Dl_info info = {};
  if (!dladdr(reinterpret_cast<void *>(call->version), &info))
    return std::string(kGlooLibrary);
  return std::string(info.dli_fname);
}

//===----------------------------------------------------------------------===//
// The communicator
//===----------------------------------------------------------------------===//

namespace {

class GlooCommunicator : public HostCommunicator {
  using Time = std::chrono::steady_clock::time_point;

public:
  GlooCommunicator(const Launch &launch, const GlooFunctions &call,
                   milliseconds timeout)
      : HostCommunicator(launch.rank, launch.size), call(call),
        timeout(timeout) {}
  ~GlooCommunicator() override;

  Status start(const Launch &launch);

  std::string_view backend() const override { return "gloo"; }
  void abort(const Status &why) override;
  StatusCode failureCode() override;

protected:
  Status exchangeBlocks(const std::byte *from, std::byte *to,
                        size_t bytes) override {
    return settle(call.exchange(gloo, from, to, bytes, timeout.count()));
  }
  Status gatherBlocks(std::byte *data, size_t bytes) override {
    return settle(call.gather(gloo, data, bytes, timeout.count()));
  }
  Status broadcastBlock(std::byte *data, size_t bytes, int root) override {
    return settle(call.broadcast(gloo, data, bytes, root, timeout.count()));
  }
  Status waitForAll() override {
    return settle(call.barrier(gloo, timeout.count()));
  }
  Status checkWait(Time start, int awaited) override;

private:
  StatusOr<std::vector<std::string>> gatherAddresses();
  StatusOr<bool> agreeToShare(const std::vector<std::string> &addresses);
  Status openGloo(const std::string &address);
  Status connectGloo();
  Status settle(int result);
  Status fail(const std::string &why);
  Status failOf(const Status &cause);

  const GlooFunctions call;
  const milliseconds timeout;
  mpc_gloo *gloo = nullptr;
  std::unique_ptr<RankChannel> channel;
  /// The start of the wait in which the awaited rank was seen to have ended.
  Time seenToEnd;
};

} // namespace

GlooCommunicator::~GlooCommunicator() {
  // The channel's thread may call the library.
  channel.reset();
  if (gloo)
    call.close(gloo);
}

/// Tells all ranks of a failure, and returns the first failure of the run.
Status GlooCommunicator::fail(const std::string &why) {
  return failOf(rankError("rank " + std::to_string(rank()) + ": " + why));
}

/// Like `fail`, for a cause that another rank may have told.
Status GlooCommunicator::failOf(const Status &cause) {
  channel->abort(cause);
  return rankError(channel->findFailure()->message());
}

/// Returns the numeric addresses by which the ranks reach rank 0.
StatusOr<std::vector<std::string>> GlooCommunicator::gatherAddresses() {
  std::string own = channel->localAddress();
  if (own.size() >= kAddressText)
    return fail("the address '" + own + "' is too long");
  own.resize(kAddressText);
  std::string blocks;
  for (int peer = 0; peer < size(); ++peer)
    blocks += own;
  StatusOr<std::string> all = channel->exchange(blocks, timeout);
  if (!all.ok())
    return all.status();
  std::vector<std::string> addresses;
  for (size_t begin = 0; begin < all->size(); begin += kAddressText)
    addresses.push_back(all->substr(begin, kAddressText).c_str());
  return addresses;
}

Status GlooCommunicator::openGloo(const std::string &address) {
  const char *interface = std::getenv("GLOO_SOCKET_IFNAME");
  std::string error(1024, '\0');
  gloo = call.open(rank(), size(), address.c_str(), interface, timeout.count(),
                   error.data(), error.size());
  if (gloo)
    return Status();
  const std::string place =
      interface ? "GLOO_SOCKET_IFNAME='" + std::string(interface) + "'"
                : "the address " + address;
  return fail("Gloo cannot listen at " + place + ": " + error.c_str() +
              "; name an interface of the network by GLOO_SOCKET_IFNAME");
}

Status GlooCommunicator::connectGloo() {
  const size_t bytes = call.addressSize(gloo);
  std::string blocks(bytes * static_cast<size_t>(size()), '\0');
  for (int peer = 0; peer < size(); ++peer)
    call.address(gloo, peer, &blocks[static_cast<size_t>(peer) * bytes]);
  StatusOr<std::string> addresses = channel->exchange(blocks, timeout);
  if (!addresses.ok())
    return addresses.status();
  channel->watch([this] { call.abort(gloo); });
  return settle(call.connect(gloo, addresses->data()));
}

Status GlooCommunicator::start(const Launch &launch) {
  // torchrun's identifier tells runs apart that have chosen the same port.
  const char *run = std::getenv("TORCHELASTIC_RUN_ID");
  StatusOr<std::unique_ptr<RankChannel>> opened =
      RankChannel::open(launch, run ? run : "", timeout);
  if (!opened.ok())
    return opened.status();
  channel = std::move(*opened);
  StatusOr<std::vector<std::string>> addresses = gatherAddresses();
  if (!addresses.ok())
    return addresses.status();
  StatusOr<std::string> address = chooseAddress(*addresses, rank());
  if (!address.ok())
    return fail(address.status().message());
  if (Status status = openGloo(*address); !status.ok())
    return status;
  const StatusOr<bool> shares = agreeToShare(*addresses);
  if (!shares.ok())
    return shares.status();
  if (Status status = connectGloo(); !status.ok())
    return status;
  return *shares ? shareMemory() : Status();
}

/// True if all ranks are on one machine, and no rank names an interface of the
/// network, which then carries the data.
StatusOr<bool>
GlooCommunicator::agreeToShare(const std::vector<std::string> &addresses) {
  const bool isOneMachine =
      std::all_of(addresses.begin(), addresses.end(), isLoopback) ||
      std::all_of(addresses.begin(), addresses.end(),
                  [&](const std::string &address) {
                    return address == addresses.front();
                  });
  const char own = isOneMachine && !std::getenv("GLOO_SOCKET_IFNAME");
  const StatusOr<std::string> all =
      channel->exchange(std::string(static_cast<size_t>(size()), own), timeout);
  if (!all.ok())
    return all.status();
  return all->find('\0') == std::string::npos;
}

Status GlooCommunicator::checkWait(Time start, int awaited) {
  if (const std::optional<Status> failure = channel->findFailure())
    return rankError(failure->message());
  if (awaited >= 0 && channel->hasLeft(awaited)) {
    // The rank may have done its part just before its end. Then this wait ends
    // before the next check.
    if (seenToEnd == start)
      return failOf(*channel->findCause(milliseconds(0)));
    seenToEnd = start;
  }
  if (std::chrono::steady_clock::now() - start <= timeout)
    return Status();
  return fail("waited " + inSeconds(timeout) + " in " + describeCall() +
              " for rank " + std::to_string(awaited) +
              ", which hangs or takes longer; --rank-timeout sets the time");
}

/// Turns a result of the library into a status. The channel knows best why a
/// connection is lost.
Status GlooCommunicator::settle(int result) {
  if (result == GlooDone)
    return Status();
  const std::optional<Status> cause =
      channel->findCause(result == GlooTimedOut ? milliseconds(0) : kNewsWait);
  if (cause)
    return failOf(*cause);
  const std::string name = describeCall().empty() ? "start" : describeCall();
  if (result == GlooTimedOut)
    return fail("waited " + inSeconds(timeout) + " in " + name + " for rank " +
                call.error(gloo) +
                ", which hangs or takes longer; --rank-timeout sets the time");
  return fail("Gloo's " + name + " failed: " + call.error(gloo));
}

void GlooCommunicator::abort(const Status &why) {
  channel->abort(why);
  call.abort(gloo);
}

StatusCode GlooCommunicator::failureCode() {
  const std::optional<Status> failure =
      channel ? channel->findFailure() : std::nullopt;
  return failure ? failure->getCode() : StatusCode::Rank;
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

StatusOr<std::string> chooseAddress(const std::vector<std::string> &addresses,
                                    int rank) {
  const auto addressOf = [&](size_t index) {
    return isLoopback(addresses[index]) ? addresses[0] : addresses[index];
  };
  const auto isIPv6 = [](const std::string &address) {
    return address.find(':') != std::string::npos;
  };
  for (size_t index = 1; index < addresses.size(); ++index)
    if (isIPv6(addressOf(index)) != isIPv6(addressOf(0)))
      return rankError("rank 0 has the address " + addressOf(0) +
                       ", and rank " + std::to_string(index) + " has " +
                       addressOf(index) +
                       "; all need IPv4 or all IPv6: name the interface of the "
                       "network by GLOO_SOCKET_IFNAME, or set MASTER_ADDR to "
                       "an address in digits");
  return addressOf(static_cast<size_t>(rank));
}

bool servesGloo(const Launch &launch) {
  return !launch.masterAddress.empty() && launch.masterPort != 0;
}

StatusOr<std::unique_ptr<Communicator>>
connectGloo(const Launch &launch, const ConnectOptions &options) {
  StatusOr<GlooFunctions> call = loadGloo();
  if (!call.ok())
    return call.status();
  auto communicator =
      std::make_unique<GlooCommunicator>(launch, *call, options.rankTimeout);
  // Another rank may be connected already, and fail.
  if (Status status = communicator->start(launch); !status.ok())
    return Status(communicator->failureCode(), status.message());
  return std::unique_ptr<Communicator>(std::move(communicator));
}

} // namespace mpc::runtime
