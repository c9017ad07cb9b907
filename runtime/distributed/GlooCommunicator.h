// Connects ranks by Gloo over TCP, for launchers that bring no MPI. Gloo is
// loaded at run time, through libmpc_gloo.so.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_DISTRIBUTED_GLOOCOMMUNICATOR_H
#define MPC_RUNTIME_DISTRIBUTED_GLOOCOMMUNICATOR_H

#include "runtime/distributed/Connect.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::runtime {

/// True if the launcher names the machine of rank 0, where the ranks can meet.
bool servesGloo(const Launch &launch);

/// Connects the ranks of `launch`, which names the machine of rank 0. The
/// interface of the network is that of the route to rank 0, or the one in
/// GLOO_SOCKET_IFNAME. `abort` ends the calls of this rank too. A Rank error if
/// the library is missing, or if a rank does not come.
StatusOr<std::unique_ptr<Communicator>>
connectGloo(const Launch &launch, const ConnectOptions &options);

/// Returns the file of libmpc_gloo.so, or, if it cannot be loaded, the reason
/// as a Rank error.
StatusOr<std::string> findGlooLibrary();

/// Chooses the address at which each rank listens, from the addresses by which
/// the ranks reach rank 0. Ranks on the machine of rank 0 may reach it by a
/// loopback address, which is of no use to other machines. A Rank error if the
/// ranks have addresses of IPv4 and of IPv6.
StatusOr<std::string> chooseAddress(const std::vector<std::string> &addresses,
                                    int rank);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_DISTRIBUTED_GLOOCOMMUNICATOR_H
