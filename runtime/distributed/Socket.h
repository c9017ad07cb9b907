// TCP sockets with deadlines, for messages between ranks.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_SOCKET_H
#define MPC_RUNTIME_DISTRIBUTED_SOCKET_H

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

namespace mpc::runtime {

using Deadline = std::chrono::steady_clock::time_point;

/// Returns the milliseconds until `deadline`, at least 0, for `poll`.
int millisecondsUntil(Deadline deadline);

/// A non-blocking TCP socket, or none. Never raises SIGPIPE.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : descriptor(descriptor) {}
  Socket(Socket &&other) noexcept
      : descriptor(std::exchange(other.descriptor, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(descriptor, other.descriptor);
    return *this;
  }
  ~Socket();

  bool isOpen() const { return descriptor >= 0; }
  int get() const { return descriptor; } ///< the descriptor, or -1

  /// Listens at `port`. A loopback `host` ("localhost", "127.0.0.1", "::1")
  /// admits processes of this machine only. For any other host, listens at all
  /// addresses of the machine: on Debian, the own name of a machine is a
  /// loopback address there. No socket if the port is in use.
  static Socket listenAt(const std::string &host, int port);

  /// Connects to the first address of `host` that answers. No socket if none
  /// does, or if the name is unknown; then `why` has the reason.
  static Socket connectTo(const std::string &host, int port, Deadline deadline,
                          std::string &why);

  /// Accepts a connection; no socket if none is waiting.
  Socket accept() const;

  /// Sends all bytes; false if the connection is lost, or after the deadline.
  bool send(const void *bytes, size_t size, Deadline deadline) const;
  /// Receives exactly `size` bytes; false as for `send`.
  bool receive(void *bytes, size_t size, Deadline deadline) const;
  /// Receives up to `size` bytes that have arrived; 0 for none. -1 if the
  /// connection is lost.
  long receiveArrived(void *bytes, size_t size) const;

  /// Returns the numeric address of this end: "10.0.0.4", "fe80::1%eth0".
  std::string localAddress() const;

  /// Makes the system detect a machine that vanished, within 20 s.
  void watchPeer() const;

private:
  int descriptor = -1;
};

/// True for a numeric address that only reaches this machine.
bool isLoopback(const std::string &address);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_SOCKET_H
