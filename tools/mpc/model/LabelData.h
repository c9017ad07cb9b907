// Derives compile options from the data, before the model is compiled.
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

/// Stores the shape of one sample of every array in `recipe`: the shape of
/// labels determines on which axis a loss has classes. Stores all arrays,
/// because the labels among them are not known yet.
void findLabelShapes(const std::vector<runtime::train::Array> &arrays,
                     Recipe &recipe);

/// For each open dimension with a name, like the length of sequences, adds a
/// --shape with the extent in the data to `options`. Skips batches, and
/// dimensions that a flag fixes. Prints a note.
void bindDataShapes(const std::vector<DeclaredShape> &inputs,
                    const std::vector<runtime::train::Array> &arrays,
                    ModelOptions &options);

/// Like bindDataShapes, for open dimensions without a name: adds a --shape with
/// all extents of the input. Call after the batch size is chosen.
void bindNamelessShapes(const std::vector<DeclaredShape> &inputs,
                        const std::vector<runtime::train::Array> &arrays,
                        ModelOptions &options);

/// Chooses the labels of losses by name, as Keras does: the labels of a loss of
/// output "y" are the array "y". Does nothing if there is an array "target" or
/// a --target-array. Prints a note.
void chooseTargets(CompileOptions &options,
                   const std::vector<runtime::train::Array> &arrays);

/// Makes losses ignore the label -100, as PyTorch does, unless a flag says
/// otherwise. Does nothing if no label is -100, to keep losses simple. Prints a
/// note.
void chooseIgnoreIndex(CompileOptions &options,
                       const std::vector<runtime::train::Array> &arrays);

/// Replaces --class-weights balanced by a weight of each class: samples /
/// (classes * samples of the class), as scikit-learn does. Counts the labels in
/// `arrays`, but not ignored ones, and prints a note of the weights. Prints an
/// error and returns another code than Done if the labels cannot be counted.
ExitCode balanceClasses(CompileOptions &options,
                        const std::vector<runtime::train::Array> &arrays);

/// Warns if targets of cross_entropy are floats and do not add up to 1 over the
/// classes, for example because each class has a separate yes or no. `info`
/// describes the model. Looks at 4096 samples at most, and at a million
/// elements at most.
void warnOfProbabilities(const runtime::train::TraineeInfo &info,
                         const runtime::train::Dataset &data,
                         const Recipe &recipe);

/// Splits values of --metric like "top5,f1" into names. Prints an error and
/// returns Usage if a metric is unknown or given twice.
ExitCode readMetricFlags(std::vector<std::string> &names);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_LABELDATA_H
