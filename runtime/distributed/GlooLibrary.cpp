// libmpc_gloo.so: connects ranks by Gloo's TCP transport.
//
// Gloo's collectives cannot be interrupted: after an abort of a wait, they
// wait for the next rank. So the collectives here are made of Gloo's sends and
// receives.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/GlooABI.h"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <gloo/context.h>
#include <gloo/transport/address.h>
#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

using namespace mpc::runtime;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

namespace {

/// Blocks signals on the calling thread, for threads of Gloo, which inherit the
/// mask: the program's handlers run on the program's threads.
class BlockedSignals {
public:
  BlockedSignals() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
  }
  ~BlockedSignals() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }

private:
  sigset_t before;
};

/// Gloo writes to sockets without MSG_NOSIGNAL. Blocks SIGPIPE, and discards a
/// SIGPIPE that came meanwhile.
class BlockedPipeSignal {
public:
  BlockedPipeSignal() {
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    wasPending = sigismember(&pending, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
  }
  ~BlockedPipeSignal() {
    const timespec now = {};
    if (!wasPending)
      while (sigtimedwait(&pipe, nullptr, &now) < 0 && errno == EINTR)
        continue;
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

private:
  sigset_t pipe, before;
  bool wasPending;
};

/// Gloo's context, with pairs that this library connects.
class Mesh : public gloo::Context {
public:
  using gloo::Context::Context;

  void open(std::shared_ptr<gloo::transport::Device> device,
            milliseconds timeout) {
    device_ = std::move(device);
    transportContext_ = device_->createContext(rank, size);
    transportContext_->setTimeout(timeout);
    for (int peer = 0; peer < size; ++peer)
      if (peer != rank)
        transportContext_->createPair(peer);
  }
};

/// A part of a buffer that goes to a rank, or comes from it.
struct Part {
  int peer;
  size_t offset, bytes;
};

} // namespace

struct mpc_gloo {
  mpc_gloo(int rank, int size) : mesh(std::make_shared<Mesh>(rank, size)) {}

  int connect(const char *addresses);
  int move(const void *from, size_t fromBytes, const std::vector<Part> &sends,
           void *to, size_t toBytes, const std::vector<Part> &receives,
           int64_t timeout);
  int gather(char *data, size_t bytes, int64_t timeout);
  int broadcast(char *data, size_t bytes, int root, int64_t timeout);
  void abort();

  std::shared_ptr<Mesh> mesh;
  size_t addressSize = 0;
  std::string error;

private:
  using Buffer = std::unique_ptr<gloo::transport::UnboundBuffer>;

  int fail(int result, std::string text);
  int wait(const std::vector<Part> &sends, const std::vector<Part> &receives,
           Clock::time_point deadline);

  std::mutex mutex;     ///< of the members below
  bool aborted = false; ///< or failed
  bool connecting = false;
  Buffer source, target; ///< of the running call
  uint64_t calls = 0;    ///< tells the messages of calls apart
};

/// Fails this call and all later ones. Closes the connections: Gloo's thread
/// would wait for the buffers of the call without a pause.
int mpc_gloo::fail(int result, std::string text) {
  {
    std::lock_guard<std::mutex> lock(mutex);
    aborted = true;
    source.reset();
    target.reset();
  }
  error = std::move(text);
  try {
    mesh->closeConnections();
  } catch (const std::exception &) {
    // The caller gets the first error, which names the cause.
  }
  return result;
}

/// Connects the pairs in the order of the ranks.
int mpc_gloo::connect(const char *addresses) {
  BlockedPipeSignal blocked;
  {
    std::lock_guard<std::mutex> lock(mutex);
    connecting = true;
  }
  try {
    for (int peer = 0; peer < mesh->size; ++peer) {
      if (peer == mesh->rank)
        continue;
      const char *address = addresses + static_cast<size_t>(peer) * addressSize;
      mesh->getPair(peer)->connect(
          std::vector<char>(address, address + addressSize));
    }
  } catch (const std::exception &exception) {
    return fail(GlooFailed, exception.what());
  }
  std::unique_lock<std::mutex> lock(mutex);
  connecting = false;
  if (!aborted)
    return GlooDone;
  lock.unlock();
  return fail(GlooAborted, "aborted");
}

/// Names the ranks of `parts` that are not in `done`.
static std::string nameOthers(const std::vector<Part> &parts,
                              const std::vector<int> &done) {
  std::string text;
  for (const Part &part : parts)
    if (std::find(done.begin(), done.end(), part.peer) == done.end())
      text += (text.empty() ? "" : ", ") + std::to_string(part.peer);
  return text;
}

/// Waits for all parts, in any order.
int mpc_gloo::wait(const std::vector<Part> &sends,
                   const std::vector<Part> &receives,
                   Clock::time_point deadline) {
  const auto left = [&] {
    return std::max(milliseconds(1),
                    std::chrono::ceil<milliseconds>(deadline - Clock::now()));
  };
  std::vector<int> received, sent;
  try {
    for (size_t i = 0; i < receives.size(); ++i) {
      int peer = -1;
      if (!target->waitRecv(&peer, left()))
        return fail(GlooAborted, "aborted");
      received.push_back(peer);
    }
    for (size_t i = 0; i < sends.size(); ++i) {
      int peer = -1;
      if (!source->waitSend(&peer, left()))
        return fail(GlooAborted, "aborted");
      sent.push_back(peer);
    }
  } catch (const std::exception &exception) {
    if (Clock::now() < deadline)
      return fail(GlooFailed, exception.what());
    const std::string late = nameOthers(receives, received);
    return fail(GlooTimedOut, late.empty() ? nameOthers(sends, sent) : late);
  }
  std::lock_guard<std::mutex> lock(mutex);
  source.reset();
  target.reset();
  return GlooDone;
}

/// Sends and receives parts of two buffers, one part a rank each.
int mpc_gloo::move(const void *from, size_t fromBytes,
                   const std::vector<Part> &sends, void *to, size_t toBytes,
                   const std::vector<Part> &receives, int64_t timeout) {
  BlockedPipeSignal blocked;
  const auto deadline = Clock::now() + milliseconds(timeout);
  bool isAborted = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    isAborted = aborted;
    if (!isAborted) {
      source = mesh->createUnboundBuffer(const_cast<void *>(from), fromBytes);
      target = mesh->createUnboundBuffer(to, toBytes);
    }
  }
  if (isAborted)
    return fail(GlooAborted, "aborted");
  const uint64_t slot = ++calls;
  try {
    for (const Part &part : receives)
      target->recv(part.peer, slot, part.offset, part.bytes);
    for (const Part &part : sends)
      source->send(part.peer, slot, part.offset, part.bytes);
  } catch (const std::exception &exception) {
    return fail(GlooFailed, exception.what());
  }
  return wait(sends, receives, deadline);
}

/// Returns the parts of all other ranks. In `ranks` blocks, the part of rank r
/// is block r.
static std::vector<Part> othersBlocks(const Mesh &mesh, size_t bytes) {
  std::vector<Part> parts;
  // Begin with the next rank, so that not all ranks send to rank 0 at first.
  for (int i = 1; i < mesh.size; ++i) {
    const int peer = (mesh.rank + i) % mesh.size;
    parts.push_back({peer, static_cast<size_t>(peer) * bytes, bytes});
  }
  return parts;
}

int mpc_gloo::gather(char *data, size_t bytes, int64_t timeout) {
  const size_t all = static_cast<size_t>(mesh->size) * bytes;
  std::vector<Part> sends = othersBlocks(*mesh, bytes);
  for (Part &part : sends)
    part.offset = static_cast<size_t>(mesh->rank) * bytes;
  return move(data, all, sends, data, all, othersBlocks(*mesh, bytes), timeout);
}

/// Sends short data directly. Divides long data into shares: the root sends
/// each rank a share, and all gather the shares. So the root sends twice the
/// data at most, with any number of ranks.
int mpc_gloo::broadcast(char *data, size_t bytes, int root, int64_t timeout) {
  constexpr size_t kShort = 64 << 10;
  const size_t ranks = static_cast<size_t>(mesh->size);
  const size_t share = bytes / ranks;
  std::vector<Part> sends, receives;
  if (bytes <= kShort || ranks == 2) {
    if (mesh->rank != root)
      receives.push_back({root, 0, bytes});
    else
      for (int peer = 0; peer < mesh->size; ++peer)
        if (peer != root)
          sends.push_back({peer, 0, bytes});
    return move(data, bytes, sends, data, bytes, receives, timeout);
  }
  const auto start = Clock::now();
  if (mesh->rank != root)
    receives.push_back({root, static_cast<size_t>(mesh->rank) * share, share});
  else
    sends = othersBlocks(*mesh, share);
  if (int result = move(data, bytes, sends, data, bytes, receives, timeout))
    return result;
  const auto left = [&] {
    return std::max<int64_t>(
        1, timeout -
               std::chrono::ceil<milliseconds>(Clock::now() - start).count());
  };
  if (int result = gather(data, share, left()))
    return result;
  const size_t rest = bytes % ranks;
  return rest ? broadcast(data + bytes - rest, rest, root, left()) : GlooDone;
}

void mpc_gloo::abort() {
  bool closes = false;
  {
    std::lock_guard<std::mutex> lock(mutex);
    aborted = true;
    closes = connecting;
    for (const Buffer *buffer : {&source, &target})
      if (*buffer) {
        (*buffer)->abortWaitSend();
        (*buffer)->abortWaitRecv();
      }
  }
  try {
    if (closes)
      mesh->closeConnections();
  } catch (const std::exception &) {
    // The connecting thread meets the error too.
  }
}

//===----------------------------------------------------------------------===//
// The interface
//===----------------------------------------------------------------------===//

// The declarations, so that definitions of other types are errors.
extern "C" {
#define MPC_DECLARE(result, member, symbol, ...) result symbol(__VA_ARGS__);
MPC_GLOO_FUNCTIONS(MPC_DECLARE)
#undef MPC_DECLARE
}

int mpc_gloo_version() { return kGlooVersion; }

mpc_gloo *mpc_gloo_open(int rank, int size, const char *address,
                        const char *interface, int64_t timeout, char *error,
                        size_t errorSize) {
  BlockedSignals blocked;
  try {
    gloo::transport::tcp::attr attributes;
    if (interface)
      attributes.iface = interface;
    else
      attributes.hostname = address;
    auto gloo = std::make_unique<mpc_gloo>(rank, size);
    // Gloo waits five times as long for a connection.
    gloo->mesh->open(gloo::transport::tcp::CreateDevice(attributes),
                     milliseconds(std::max<int64_t>(1, timeout / 5)));
    gloo->addressSize =
        gloo->mesh->getPair(rank == 0 ? 1 : 0)->address().bytes().size();
    return gloo.release();
  } catch (const std::exception &exception) {
    std::strncpy(error, exception.what(), errorSize - 1);
    error[errorSize - 1] = '\0';
    return nullptr;
  }
}

size_t mpc_gloo_address_size(const mpc_gloo *gloo) { return gloo->addressSize; }

void mpc_gloo_address(const mpc_gloo *gloo, int peer, void *bytes) {
  std::memset(bytes, 0, gloo->addressSize);
  if (peer == gloo->mesh->rank)
    return;
  const std::vector<char> address =
      gloo->mesh->getPair(peer)->address().bytes();
  std::memcpy(bytes, address.data(), gloo->addressSize);
}

int mpc_gloo_connect(mpc_gloo *gloo, const void *addresses) {
  return gloo->connect(static_cast<const char *>(addresses));
}

int mpc_gloo_exchange(mpc_gloo *gloo, const void *from, void *to, size_t bytes,
                      int64_t timeout) {
  const size_t own = static_cast<size_t>(gloo->mesh->rank) * bytes;
  const size_t all = static_cast<size_t>(gloo->mesh->size) * bytes;
  std::memcpy(static_cast<char *>(to) + own,
              static_cast<const char *>(from) + own, bytes);
  const std::vector<Part> blocks = othersBlocks(*gloo->mesh, bytes);
  return gloo->move(from, all, blocks, to, all, blocks, timeout);
}

int mpc_gloo_gather(mpc_gloo *gloo, void *data, size_t bytes, int64_t timeout) {
  return gloo->gather(static_cast<char *>(data), bytes, timeout);
}

int mpc_gloo_broadcast(mpc_gloo *gloo, void *data, size_t bytes, int root,
                       int64_t timeout) {
  return gloo->broadcast(static_cast<char *>(data), bytes, root, timeout);
}

int mpc_gloo_barrier(mpc_gloo *gloo, int64_t timeout) {
  const std::vector<Part> parts = othersBlocks(*gloo->mesh, 0);
  return gloo->move(nullptr, 0, parts, nullptr, 0, parts, timeout);
}

const char *mpc_gloo_error(const mpc_gloo *gloo) { return gloo->error.c_str(); }

void mpc_gloo_abort(mpc_gloo *gloo) { gloo->abort(); }

void mpc_gloo_close(mpc_gloo *gloo) { delete gloo; }
