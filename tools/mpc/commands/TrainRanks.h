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
/// rank. Prints an error.
ExitCode connectRanks(TrainCommand &command,
                      std::unique_ptr<runtime::Communicator> &communicator);

/// Chooses the rank's GPU if --target has chosen a GPU. An error, equal on all
/// ranks, if some train on a GPU and others on a CPU. `communicator` is null
/// for a single rank.
ExitCode chooseDevice(TrainCommand &command,
                      runtime::Communicator *communicator);

/// Returns Done if `code` is Done on all ranks. Otherwise the code of the first
/// rank that failed, and Rank on all ranks but rank 0. `communicator` is null
/// for a single rank.
ExitCode agreeOn(ExitCode code, runtime::Communicator *communicator);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_TRAINRANKS_H
