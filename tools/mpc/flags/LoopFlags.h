// The flags of `mpc train` to end a run, and the flags about evaluations.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_LOOPFLAGS_H
#define MPC_TOOLS_MPC_FLAGS_LOOPFLAGS_H

#include "compiler/Support/ExitCode.h"
#include "runtime/train/Trainer.h"

#include <CLI/CLI.hpp>

#include <string>

namespace mpc::tools {

/// The texts of the flags.
struct LoopFlags {
  std::string best, earlyStopping, maxTime;
};

void addLoopFlags(CLI::App &app, LoopFlags &flags,
                  runtime::train::TrainOptions &train);

/// Parses `flags` into `train`, whose other members must be set. --max-time
/// counts from this call. Reports a Usage error if a flag is malformed or has
/// no effect. `evaluates` is true if there is data to evaluate on;
/// `keepsWeights` is true if there is a place for weights.
ExitCode resolve(const LoopFlags &flags, bool evaluates, bool keepsWeights,
                 runtime::train::TrainOptions &train);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_LOOPFLAGS_H
