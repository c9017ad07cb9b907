// The flags of `mpc train`: registration, translation into options of the
// training loop, and checks before the model is compiled.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_COMMANDS_TRAINFLAGS_H
#define MPC_TOOLS_MPC_COMMANDS_TRAINFLAGS_H

#include "tools/mpc/flags/DataFlags.h"
#include "tools/mpc/flags/LoopFlags.h"
#include "tools/mpc/flags/ScheduleFlags.h"
#include "tools/mpc/model/Driver.h"
#include "tools/mpc/model/TrainedModel.h"
#include "tools/mpc/print/Progress.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// The flags for several ranks, as typed.
struct RankFlags {
  int ranks = 0;               ///< --ranks; 0: as many as the launcher started
  std::string timeout = "10m"; ///< --rank-timeout
  int64_t globalBatch = 0;     ///< --global-batch-size; 0: not given
};

/// The flags of `mpc train`.
struct TrainCommand {
  CompileOptions compile;
  DataFlags data;
  std::vector<std::string> valData;
  double valSplit = 0;
  runtime::train::TrainOptions train;
  LoopFlags loop;
  RankFlags ranks;
  ScheduleFlags schedule;
  std::string lastBatch = "drop";
  bool noShuffle = false;
  TrainedModelOptions trained;
  runtime::SessionOptions session;
  /// Names of the given flags that set the learning rate, for the error if they
  /// have no effect. Values from the environment and from files count too.
  std::vector<std::string> rateFlags;
  /// The parsed flags, for the record of the trained model.
  const CLI::App *app = nullptr;
  /// The seconds between two lines of progress on stderr.
  double logEvery = 30;
  bool isQuiet = false, isVerbose = false;
  /// True for a run that keeps nothing on purpose, such as that of `mpc
  /// profile`.
  bool isTrial = false;
  std::string trace; ///< --trace: the file of the run's trace
  /// --trace-steps: the steps that the trace shows.
  int64_t tracedSteps = 100;

  Verbosity verbosity() const {
    return isQuiet     ? Verbosity::Quiet
           : isVerbose ? Verbosity::Verbose
                       : Verbosity::Normal;
  }
};

/// Adds --ranks.
void addRanksOption(CLI::App &app, int &ranks);

/// Adds all flags to `app`, in the order of --help.
void addTrainFlags(CLI::App &app, TrainCommand &command);

/// Translates texts of flags into options of the training loop: "step:10"
/// becomes a schedule. Prints an error if flags contradict each other.
ExitCode resolve(TrainCommand &command);

/// Checks all files that flags name, before the model is compiled: outputs
/// overwrite no input, and inputs exist. Prints an error.
ExitCode checkFiles(TrainCommand &command);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_TRAINFLAGS_H
