// Several ranks in `mpc train`: finds the launcher, connects the ranks, and
// gives each rank a part of the machine.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_COMMANDS_TRAINRANKS_H
#define MPC_TOOLS_MPC_COMMANDS_TRAINRANKS_H

#include "runtime/Communicator.h"
#include "runtime/distributed/Launch.h"
#include "tools/mpc/commands/TrainFlags.h"

#include <memory>

namespace mpc::tools {

/// Connects this process with the other ranks that a launcher has started; null
/// for a single rank. Changes `command`: the device and the threads of this
/// rank, a share of --global-batch-size, and no output unless this is the first
/// rank. Prints an error. Afterwards, errors are kept for `agreeOn`.
ExitCode connectRanks(TrainCommand &command,
                      std::unique_ptr<runtime::Communicator> &communicator);

/// Chooses the rank's GPU if --target has chosen a GPU. An error, equal on all
/// ranks, if some train on a GPU and others on a CPU. `communicator` is null
/// for a single rank.
ExitCode chooseDevice(TrainCommand &command,
                      runtime::Communicator *communicator);

/// Returns Done if `code` is Done on all ranks. Otherwise the code of the first
/// rank that failed, on all ranks; rank 0 prints the errors that the ranks have
/// kept, each text once. `communicator` is null for a single rank.
ExitCode agreeOn(ExitCode code, runtime::Communicator *communicator);

/// Reports a failure that no `agreeOn` follows, and ends all ranks. With MPI,
/// ends this process too. Returns the code of the failure.
ExitCode endRanks(runtime::Communicator &communicator,
                  const runtime::Status &failure);

/// Waits until rank 0 has printed a failure of all ranks. Launchers kill all
/// ranks once a rank has ended with an error.
void waitForPrinter(runtime::Communicator &communicator);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_TRAINRANKS_H
