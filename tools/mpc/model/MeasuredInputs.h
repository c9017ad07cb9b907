// Measures the inputs whose size in the data decides precision.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_MEASUREDINPUTS_H
#define MPC_TOOLS_MPC_MODEL_MEASUREDINPUTS_H

#include "compiler/Support/ExitCode.h"
#include "runtime/train/data/Dataset.h"
#include "tools/mpc/model/Driver.h"

namespace mpc::tools {

/// Gives the driver the root mean square and the largest element of each
/// float32 input that meets low values, as prepared for the model of `info`.
/// Large data are measured in batches spread over all samples. An input with
/// NaN or infinities has no size. Does nothing unless the mode of `options` is
/// mixed.
ExitCode measureInputs(const CompileOptions &options,
                       const runtime::train::TraineeInfo &info,
                       const runtime::train::Dataset &data, Driver &driver);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_MEASUREDINPUTS_H
