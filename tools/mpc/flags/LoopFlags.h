// Flags of `mpc train` that end a run, and flags about evaluations.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_LOOPFLAGS_H
#define MPC_TOOLS_MPC_FLAGS_LOOPFLAGS_H

#include "compiler/Support/ExitCode.h"
#include "runtime/train/Trainer.h"

#include <CLI/CLI.hpp>

#include <string>

namespace mpc::tools {

/// The values of the flags as typed, like "loss:5" for --early-stopping.
struct LoopFlags {
  std::string best, earlyStopping, maxTime, requeueSignal;

  /// The number of --requeue-signal; 0 if the flag is not given.
  int requeueNumber() const;
};

void addLoopFlags(CLI::App &app, LoopFlags &flags,
                  runtime::train::TrainOptions &train);

/// Parses `flags` into `train`. Set the other members of `train` before.
/// --max-time counts from this call. Prints an error and returns Usage if a
/// flag is malformed or has no effect. `evaluates` is true if there are data
/// for evaluations, `keepsWeights` if the run has a place to save weights.
ExitCode resolve(const LoopFlags &flags, bool evaluates, bool keepsWeights,
                 runtime::train::TrainOptions &train);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_LOOPFLAGS_H
