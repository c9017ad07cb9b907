// Derives compile options from the data before the model is compiled.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_LABELDATA_H
#define MPC_TOOLS_MPC_MODEL_LABELDATA_H

#include "compiler/Support/ExitCode.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/data/Dataset.h"
#include "tools/mpc/flags/DeclaredShapes.h"
#include "tools/mpc/flags/Options.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// Gives `recipe` the shape of one sample of each array. The shape of labels
/// tells on which axis a loss has classes. Only later is it known which arrays
/// are labels.
void findLabelShapes(const std::vector<runtime::train::Array> &arrays,
                     Recipe &recipe);

/// Adds a --shape to `options` for each named, open dimension without a flag,
/// except batches: the extent in the data, like the length of sequences. Prints
/// a note.
void bindDataShapes(const std::vector<DeclaredShape> &inputs,
                    const std::vector<runtime::train::Array> &arrays,
                    ModelOptions &options);

/// Like `bindDataShapes` for open dimensions without a name: adds the shape of
/// the whole input. Call once the batch size is chosen.
void bindNamelessShapes(const std::vector<DeclaredShape> &inputs,
                        const std::vector<runtime::train::Array> &arrays,
                        ModelOptions &options);

/// Chooses the labels of losses: arrays named like the outputs, as in Keras.
/// Does nothing if there is an array "target" or a --target-array. Prints a
/// note.
void chooseTargets(CompileOptions &options,
                   const std::vector<runtime::train::Array> &arrays);

/// Ignores labels of -100, as PyTorch does, unless the user chooses otherwise.
/// Prints a note. Data without such labels keeps the simpler loss.
void chooseIgnoreIndex(CompileOptions &options,
                       const std::vector<runtime::train::Array> &arrays);

/// Warns if the targets of cross_entropy, which are probabilities, do not add
/// up to 1, like targets with a yes or no for each class. `data` is for the
/// model of `info`. Looks at 4096 samples, or at fewer with a million elements
/// in all.
void warnOfProbabilities(const runtime::train::TraineeInfo &info,
                         const runtime::train::Dataset &data,
                         const Recipe &recipe);

/// Splits lists of --metric into names. Reports a Usage error for unknown
/// metrics and for metrics that are given twice.
ExitCode readMetricFlags(std::vector<std::string> &names);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_LABELDATA_H
