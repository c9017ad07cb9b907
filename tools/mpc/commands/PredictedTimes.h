// Predicts the time of a step in each precision mode, for `mpc explain
// --format=times`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_COMMANDS_PREDICTEDTIMES_H
#define MPC_TOOLS_MPC_COMMANDS_PREDICTEDTIMES_H

#include "compiler/Support/ExitCode.h"
#include "tools/mpc/flags/Options.h"

namespace mpc::tools {

/// Plans the model of `options` in 32-true, bf16-mixed and 16-mixed. Prints a
/// row of predicted microseconds for each mode: of a training step, or of the
/// forward pass if the model has no loss.
ExitCode printPredictedTimes(const CompileOptions &options);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_PREDICTEDTIMES_H
