// Finds a port for the ranks of a test.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_DISTRIBUTED_FREEPORT_H
#define MPC_TEST_RUNTIME_DISTRIBUTED_FREEPORT_H

#include "runtime/distributed/RankChannel.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace mpc::runtime {

/// Returns a MASTER_PORT such that the first port of rank 0 is free.
inline int findFreeMasterPort() {
  const int probe = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  bind(probe, reinterpret_cast<sockaddr *>(&address), size);
  getsockname(probe, reinterpret_cast<sockaddr *>(&address), &size);
  close(probe);
  return ntohs(address.sin_port) - RankChannel::kFirstPort;
}

} // namespace mpc::runtime

#endif // MPC_TEST_RUNTIME_DISTRIBUTED_FREEPORT_H
