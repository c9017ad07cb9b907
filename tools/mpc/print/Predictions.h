// Turns scores of classes into names and probabilities, for mpc run on a model
// that records its classes.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_PRINT_PREDICTIONS_H
#define MPC_TOOLS_MPC_PRINT_PREDICTIONS_H

#include "runtime/Tensor.h"
#include "tools/mpc/model/ModelRecord.h"

#include "llvm/Support/raw_ostream.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mpc::tools {

/// The most probable class of each sample.
struct Predictions {
  std::string output;               ///< the output with the scores
  std::vector<std::string> classes; ///< a name per sample
  std::vector<float> probabilities; ///< in [0, 1]; NaN for scores of NaN
};

/// Reads the scores in the output that the model's loss read in training.
/// Scores [N, K] become probabilities as the loss reads them: by softmax, exp
/// (for nll), or sigmoid (for bce_with_logits on one score). nullopt if the
/// model records no classes or no loss of classes, or if the shape does not
/// fit.
std::optional<Predictions> predictClasses(
    const std::vector<std::pair<std::string, runtime::Tensor>> &outputs,
    const ModelRecord &record);

/// Prints a line per sample: "a.png: cat 98.31%". A sample without a name in
/// `samples` gets its number, from 0.
void printPredictions(llvm::raw_ostream &os, const Predictions &predictions,
                      const std::vector<std::string> &samples);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_PRINT_PREDICTIONS_H
