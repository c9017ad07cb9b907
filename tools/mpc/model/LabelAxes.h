// Finds the axis along which samples lie in arrays of labels, and moves the
// samples to axis 0.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_LABELAXES_H
#define MPC_TOOLS_MPC_MODEL_LABELAXES_H

#include "compiler/Support/ExitCode.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/trainee/Trainee.h"
#include "tools/mpc/flags/DeclaredShapes.h"
#include "tools/mpc/flags/Options.h"

#include <map>
#include <string>
#include <vector>

namespace mpc::tools {

/// Maps the name of a label array to the axis of the samples.
using LabelAxes = std::map<std::string, int64_t>;

/// Removes from `options` each value of --batch-axis that is for labels of a
/// loss, and returns them. Values for `inputs` of the model stay.
LabelAxes takeLabelAxes(const std::vector<DeclaredShape> &inputs,
                        const Recipe &recipe, ModelOptions &options);

/// Moves the samples of label arrays to axis 0: labels of [time, samples]
/// become [samples, time]. The axis comes from `axes`, or follows from the
/// number of samples if the inputs have samples on axis 1; `axes` then receives
/// the axis. A usage error if there are as many time steps as samples and
/// `axes` has no entry.
ExitCode moveLabelSamples(const std::vector<DeclaredShape> &inputs,
                          const CompileOptions &options,
                          std::vector<runtime::train::Array> &arrays,
                          LabelAxes &axes);

/// Like the function above, for the inputs of an artifact. If both layouts are
/// possible, takes the labels as [samples, time] and prints a warning.
ExitCode moveLabelSamples(const runtime::train::FunctionPorts &function,
                          std::vector<runtime::train::Array> &arrays);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_LABELAXES_H
