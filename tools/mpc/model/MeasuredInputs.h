// Measures how large the values of inputs are in the data, for precision
// decisions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_MEASUREDINPUTS_H
#define MPC_TOOLS_MPC_MODEL_MEASUREDINPUTS_H

#include "compiler/Support/ExitCode.h"
#include "runtime/train/data/Dataset.h"
#include "tools/mpc/model/Driver.h"

namespace mpc::tools {

/// Gives the driver the root mean square and the largest absolute value of each
/// float32 input that is combined with low-precision values. The values are
/// measured after samples are prepared for the model of `info`; of large data,
/// in batches spread over all samples. Skips an input with NaN or infinities.
/// Does nothing unless the mode in `options` is mixed.
ExitCode measureInputs(const CompileOptions &options,
                       const runtime::train::TraineeInfo &info,
                       const runtime::train::Dataset &data, Driver &driver);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_MEASUREDINPUTS_H
