// Running on samples that are prepared on their way: tables, folders of images,
// several files of one array, --normalize and --input-layout.
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

/// An output of all samples.
using NamedTensor = std::pair<std::string, runtime::Tensor>;

/// Runs `function` of the artifact on all of `data`, which is matched to its
/// inputs and prepared as `mpc train` and `mpc eval` do it. What should be
/// known of the data is noted.
runtime::StatusOr<std::vector<NamedTensor>>
runSamples(std::shared_ptr<const runtime::Artifact> artifact,
           const runtime::Function &function, runtime::train::Dataset data,
           const runtime::SessionOptions &options);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_RUNSAMPLES_H
