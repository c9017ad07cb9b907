// The shapes that a model leaves open, of data: how many samples it takes at
// once, and how long they are.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_SAMPLEBATCH_H
#define MPC_TOOLS_MPC_SAMPLEBATCH_H

#include "compiler/Support/ExitCode.h"
#include "runtime/train/Array.h"
#include "tools/mpc/DataFlags.h"
#include "tools/mpc/Driver.h"
#include "tools/mpc/Options.h"

#include <vector>

namespace mpc::tools {

/// Sets the batch size of a model that leaves it open: PyTorch's and Keras's
/// usual 32, or all samples of `arrays` where there are fewer. Other open
/// dimensions are those of the data.
ExitCode chooseShapes(Driver &driver,
                      const std::vector<runtime::train::Array> &arrays,
                      const DataFlags &flags, ModelOptions &model);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_SAMPLEBATCH_H
