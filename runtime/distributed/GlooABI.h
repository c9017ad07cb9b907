// The C interface of libmpc_gloo.so, mpc's library around Gloo.
//
// Gloo is a C++ library without a stable binary interface. So libmpc_gloo.so is
// built with Gloo, and mpc, which is built without, loads libmpc_gloo.so when a
// run needs it. No exception leaves the library.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_GLOOABI_H
#define MPC_RUNTIME_DISTRIBUTED_GLOOABI_H

#include <cstddef>
#include <cstdint>

/// The connections of a rank with all others. One thread at a time calls, but
/// any thread may abort.
struct mpc_gloo;

namespace mpc::runtime {

/// The version of the interface, which the library returns.
inline constexpr int kGlooVersion = 1;

enum GlooResult : int {
  GlooDone = 0,
  GlooFailed = 1,   ///< the text of the error says why
  GlooTimedOut = 2, ///< the text of the error names the late ranks: "1, 3"
  GlooAborted = 3,  ///< another thread called `abort`
};

// `version` returns kGlooVersion.
//
// `open` listens at a numeric address. If `interface` is not null, `open` takes
// the first address of that network interface instead. Returns null, with an
// error, if there is no such address.
//
// `address` writes the address of `addressSize` bytes at which `peer` reaches
// this rank. Block r of the `addresses` of `connect` is rank r's address for
// this rank.
//
// `exchange` sends block r of `from` to rank r, and receives block r of `to`.
// `gather` gives every rank the blocks of all; the own block is in place.
// `broadcast` gives every rank the bytes of `root`. `barrier` returns once all
// ranks have called. Times are in milliseconds. After a call has failed, all
// later calls fail. `error` returns the error of the last call.
//
// `abort` ends a running call, and all later ones. `close` ends the connections
// and frees the object.

/// The functions of the library: X(result, member, symbol, parameters...).
#define MPC_GLOO_FUNCTIONS(X)                                                  \
  X(int, version, mpc_gloo_version)                                            \
  X(mpc_gloo *, open, mpc_gloo_open, int rank, int size, const char *address,  \
    const char *interface, int64_t timeout, char *error, size_t errorSize)     \
  X(size_t, addressSize, mpc_gloo_address_size, const mpc_gloo *)              \
  X(void, address, mpc_gloo_address, const mpc_gloo *, int peer, void *bytes)  \
  X(int, connect, mpc_gloo_connect, mpc_gloo *, const void *addresses)         \
  X(int, exchange, mpc_gloo_exchange, mpc_gloo *, const void *from, void *to,  \
    size_t bytes, int64_t timeout)                                             \
  X(int, gather, mpc_gloo_gather, mpc_gloo *, void *data, size_t bytes,        \
    int64_t timeout)                                                           \
  X(int, broadcast, mpc_gloo_broadcast, mpc_gloo *, void *data, size_t bytes,  \
    int root, int64_t timeout)                                                 \
  X(int, barrier, mpc_gloo_barrier, mpc_gloo *, int64_t timeout)               \
  X(const char *, error, mpc_gloo_error, const mpc_gloo *)                     \
  X(void, abort, mpc_gloo_abort, mpc_gloo *)                                   \
  X(void, close, mpc_gloo_close, mpc_gloo *)

struct GlooFunctions {
#define MPC_MEMBER(result, member, symbol, ...)                                \
  result (*member)(__VA_ARGS__) = nullptr;
  MPC_GLOO_FUNCTIONS(MPC_MEMBER)
#undef MPC_MEMBER
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_GLOOABI_H
