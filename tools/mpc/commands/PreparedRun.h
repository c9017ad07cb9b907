// A training run before its first step, for commands that use the model and the
// data otherwise.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_COMMANDS_PREPAREDRUN_H
#define MPC_TOOLS_MPC_COMMANDS_PREPAREDRUN_H

#include "runtime/train/data/Dataset.h"
#include "tools/mpc/commands/TrainFlags.h"
#include "tools/mpc/model/Driver.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <memory>

namespace mpc::tools {

struct PreparedRun {
  std::shared_ptr<const runtime::Artifact> artifact;
  OpenSession &opened;
  const runtime::train::Dataset &train;
  const runtime::train::Dataset *evaluation; ///< null without --val-data and
                                             ///< --val-split
};

/// Reads the data and compiles the model as `mpc train` does, then calls `then`
/// in place of training. Returns the exit code of `then`, or of the first
/// failure, which is printed.
int prepareRun(TrainCommand &command,
               llvm::function_ref<int(const PreparedRun &)> then);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_PREPAREDRUN_H
