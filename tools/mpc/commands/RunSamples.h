// Runs functions on samples that must be prepared: tables, folders of images,
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

/// An output of all samples, with its name.
using NamedTensor = std::pair<std::string, runtime::Tensor>;

/// Runs `function` of the artifact on all samples of `data`, prepared as in
/// `mpc train` and `mpc eval`. Prints the notes of the data.
runtime::StatusOr<std::vector<NamedTensor>>
runSamples(std::shared_ptr<const runtime::Artifact> artifact,
           const runtime::Function &function, runtime::train::Dataset data,
           const runtime::SessionOptions &options);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_COMMANDS_RUNSAMPLES_H
