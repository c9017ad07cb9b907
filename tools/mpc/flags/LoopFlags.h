// The flags of `mpc train` that end a run, and those that evaluations decide.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_FLAGS_LOOPFLAGS_H
#define MPC_TOOLS_MPC_FLAGS_LOOPFLAGS_H

#include "compiler/Support/ExitCode.h"
#include "runtime/train/Trainer.h"

#include <CLI/CLI.hpp>

#include <string>

namespace mpc::tools {

/// As they are written.
struct LoopFlags {
  std::string best, earlyStopping, maxTime;
};

void addLoopFlags(CLI::App &app, LoopFlags &flags,
                  runtime::train::TrainOptions &train);

/// Gives `train` what the flags say. Usage where one is malformed or has no
/// effect: the rest of `train` is known by then, and the command's time begins
/// here. `evaluates` and `keepsWeights`: whether there is data to evaluate on,
/// and a place for weights.
ExitCode resolve(const LoopFlags &flags, bool evaluates, bool keepsWeights,
                 runtime::train::TrainOptions &train);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_FLAGS_LOOPFLAGS_H
