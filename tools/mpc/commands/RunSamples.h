// Runs a function on a data set whose samples must be prepared first: tables,
// folders of images, arrays in several files, and samples with --normalize or
// --input-layout.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_COMMANDS_RUNSAMPLES_H
#define MPC_TOOLS_MPC_COMMANDS_RUNSAMPLES_H

#include "runtime/Artifact.h"
#include "runtime/Session.h"
#include "runtime/Status.h"
#include "runtime/train/data/Dataset.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace mpc::tools {

/// The name of an output, and its value for all samples.
using NamedTensor = std::pair<std::string, runtime::Tensor>;

/// Runs `function` of the artifact on all samples of `data`. Prepares samples
/// as `mpc train` and `mpc eval` do, and prints notes about the data.
runtime::StatusOr<std::vector<NamedTensor>>
runSamples(std::shared_ptr<const runtime::Artifact> artifact,
           const runtime::Function &function, runtime::train::Dataset data,
           const runtime::SessionOptions &options);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_RUNSAMPLES_H
