// What training and evaluation ask of the data before the model is compiled.
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

/// Gives `recipe` the shape of one sample of each array: what labels are like
/// tells where their loss finds classes. Which arrays are labels is known
/// later.
void findLabelShapes(const std::vector<runtime::train::Array> &arrays,
                     RecipeOptions &recipe);

/// Gives `options` a --shape for each named dimension that the model leaves
/// open, that is no batch's and that no flag gives: the extent which the data
/// has there, such as the length of sequences. A note says it.
void bindDataShapes(const std::vector<DeclaredShape> &inputs,
                    const std::vector<runtime::train::Array> &arrays,
                    ModelOptions &options);

/// The same of dimensions without a name, once the batch is chosen: as the
/// shape of the whole input.
void bindNamelessShapes(const std::vector<DeclaredShape> &inputs,
                        const std::vector<runtime::train::Array> &arrays,
                        ModelOptions &options);

/// Where losses are of outputs that have arrays of their names, and there is no
/// array "target" and no --target-array, these are their labels, as in Keras; a
/// note says it.
void chooseTargets(CompileOptions &options,
                   const std::vector<runtime::train::Array> &arrays);

/// As in PyTorch, labels of -100 count nowhere unless the user says otherwise,
/// which a note says. Where there are none, the loss is the simpler one.
void chooseIgnoreIndex(CompileOptions &options,
                       const std::vector<runtime::train::Array> &arrays);

/// Warns where targets that cross_entropy takes as probabilities add up to
/// something else than one, as those do that say yes or no to every class.
/// `info` is the model's that `data` is for. Looks at the first 4096 samples,
/// or at as many as have a million elements.
void warnOfProbabilities(const runtime::train::TraineeInfo &info,
                         const runtime::train::Dataset &data,
                         const RecipeOptions &recipe);

/// Splits lists of --metric into names. Usage, reported, where one is no
/// metric, or is given twice.
ExitCode readMetricFlags(std::vector<std::string> &names);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_LABELDATA_H
