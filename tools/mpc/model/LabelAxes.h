// Finds the axis of the samples in arrays of labels, and moves that axis first.
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

/// The axis of the samples in each array of labels, by name.
using LabelAxes = std::map<std::string, int64_t>;

/// Takes the axes that --batch-axis gives for labels of losses out of
/// `options`. Axes of the model's `inputs` stay.
LabelAxes takeLabelAxes(const std::vector<DeclaredShape> &inputs,
                        const Recipe &recipe, ModelOptions &options);

/// Moves the samples of labels to axis 0: labels of shape [time, samples]
/// become [samples, time]. Inputs with samples on axis 1 tell the axis by their
/// number of samples, or `axes` does, which receives each axis found. Usage
/// error if time and samples are equally many and nothing tells the axis.
ExitCode moveLabelSamples(const std::vector<DeclaredShape> &inputs,
                          const CompileOptions &options,
                          std::vector<runtime::train::Array> &arrays,
                          LabelAxes &axes);

/// Like above, for the labels of an artifact. Labels that could be of either
/// layout are taken as [samples, time], with a warning.
ExitCode moveLabelSamples(const runtime::train::FunctionPorts &function,
                          std::vector<runtime::train::Array> &arrays);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_LABELAXES_H
