// SPDX-License-Identifier: Apache-2.0
#include "runtime/distributed/Socket.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace mpc::runtime {

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

/// Returns the addresses of `host`; null, with the reason in `why`, if the name
/// is unknown.
static AddressList resolve(const char *host, int port, int flags,
                           std::string &why) {
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | flags;
  addrinfo *found = nullptr;
  const int code =
      getaddrinfo(host, std::to_string(port).c_str(), &hints, &found);
  if (code != 0)
    why = gai_strerror(code);
  return AddressList(code == 0 ? found : nullptr, &freeaddrinfo);
}

static Socket openFor(const addrinfo &address) {
  return Socket(socket(address.ai_family,
                       SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
                       address.ai_protocol));
}

static bool setOption(const Socket &socket, int level, int name, int value) {
  return setsockopt(socket.get(), level, name, &value, sizeof(value)) == 0;
}

/// Waits until the socket is ready for `events`; false after the deadline.
static bool waitFor(const Socket &socket, short events, Deadline deadline) {
  for (;;) {
    pollfd entry = {socket.get(), events, 0};
    const int count = poll(&entry, 1, millisecondsUntil(deadline));
    if (count > 0)
      return true;
    if (count == 0 || errno != EINTR)
      return false;
  }
}

int millisecondsUntil(Deadline deadline) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(
      deadline - std::chrono::steady_clock::now());
  return static_cast<int>(
      std::clamp<milliseconds::rep>(left.count(), 0, 1 << 30));
}

Socket::~Socket() {
  if (descriptor >= 0)
    close(descriptor);
}

Socket Socket::listenAt(const std::string &host, int port) {
  std::string why;
  const std::string local = host == "localhost" ? "127.0.0.1" : host;
  AddressList addresses(nullptr, &freeaddrinfo);
  if (isLoopback(local))
    addresses = resolve(local.c_str(), port, AI_NUMERICHOST, why);
  else
    addresses = resolve(nullptr, port, AI_PASSIVE, why);
  // An IPv6 socket also takes IPv4, so prefer one.
  for (int family : {AF_INET6, AF_INET})
    for (const addrinfo *next = addresses.get(); next; next = next->ai_next) {
      if (next->ai_family != family)
        continue;
      Socket socket = openFor(*next);
      if (!socket.isOpen() || !setOption(socket, SOL_SOCKET, SO_REUSEADDR, 1))
        continue;
      if (family == AF_INET6 &&
          !setOption(socket, IPPROTO_IPV6, IPV6_V6ONLY, 0))
        continue;
      if (bind(socket.get(), next->ai_addr, next->ai_addrlen) == 0 &&
          listen(socket.get(), SOMAXCONN) == 0)
        return socket;
      // IPv4 alone would accept what belongs to the owner of the port.
      if (errno == EADDRINUSE)
        return Socket();
    }
  return Socket();
}

Socket Socket::connectTo(const std::string &host, int port, Deadline deadline,
                         std::string &why) {
  const AddressList addresses = resolve(host.c_str(), port, 0, why);
  for (const addrinfo *next = addresses.get(); next; next = next->ai_next) {
    Socket socket = openFor(*next);
    if (!socket.isOpen()) {
      why = std::strerror(errno);
      continue;
    }
    if (connect(socket.get(), next->ai_addr, next->ai_addrlen) != 0 &&
        errno != EINPROGRESS) {
      why = std::strerror(errno);
      continue;
    }
    if (!waitFor(socket, POLLOUT, deadline)) {
      why = "no answer";
      continue;
    }
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0) {
      setOption(socket, IPPROTO_TCP, TCP_NODELAY, 1);
      return socket;
    }
    why = std::strerror(error);
  }
  return Socket();
}

Socket Socket::accept() const {
  Socket accepted(
      accept4(descriptor, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
  if (accepted.isOpen())
    setOption(accepted, IPPROTO_TCP, TCP_NODELAY, 1);
  return accepted;
}

bool Socket::send(const void *bytes, size_t size, Deadline deadline) const {
  const char *next = static_cast<const char *>(bytes);
  while (size > 0) {
    const ssize_t count = ::send(descriptor, next, size, MSG_NOSIGNAL);
    if (count > 0) {
      next += count;
      size -= static_cast<size_t>(count);
    } else if (errno != EINTR && errno != EAGAIN) {
      return false;
    } else if (!waitFor(*this, POLLOUT, deadline)) {
      return false;
    }
  }
  return true;
}

bool Socket::receive(void *bytes, size_t size, Deadline deadline) const {
  char *next = static_cast<char *>(bytes);
  while (size > 0) {
    const long count = receiveArrived(next, size);
    if (count < 0 || (count == 0 && !waitFor(*this, POLLIN, deadline)))
      return false;
    next += count;
    size -= static_cast<size_t>(count);
  }
  return true;
}

long Socket::receiveArrived(void *bytes, size_t size) const {
  for (;;) {
    const ssize_t count = recv(descriptor, bytes, size, 0);
    if (count > 0)
      return count;
    if (count < 0 && errno == EINTR)
      continue;
    return count < 0 && errno == EAGAIN ? 0 : -1;
  }
}

std::string Socket::localAddress() const {
  sockaddr_storage address = {};
  socklen_t size = sizeof(address);
  char text[NI_MAXHOST] = "";
  if (getsockname(descriptor, reinterpret_cast<sockaddr *>(&address), &size) !=
          0 ||
      getnameinfo(reinterpret_cast<sockaddr *>(&address), size, text,
                  sizeof(text), nullptr, 0, NI_NUMERICHOST) != 0)
    return "";
  // An IPv6 socket shows its IPv4 peers like this.
  const std::string mapped = "::ffff:";
  const std::string result = text;
  return result.compare(0, mapped.size(), mapped) == 0
             ? result.substr(mapped.size())
             : result;
}

void Socket::watchPeer() const {
  setOption(*this, SOL_SOCKET, SO_KEEPALIVE, 1);
  setOption(*this, IPPROTO_TCP, TCP_KEEPIDLE, 5);
  setOption(*this, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  setOption(*this, IPPROTO_TCP, TCP_KEEPCNT, 3);
  // The system sends no probes while data wait for an acknowledgement.
  setOption(*this, IPPROTO_TCP, TCP_USER_TIMEOUT, 20000);
}

bool isLoopback(const std::string &address) {
  return address == "::1" || address.compare(0, 4, "127.") == 0;
}

} // namespace mpc::runtime
