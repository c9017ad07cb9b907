// With --ema, the state has the average of each parameter over the steps. Uses
// these averages for evaluations and for the trained model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_AVERAGEDWEIGHTS_H
#define MPC_RUNTIME_TRAIN_AVERAGEDWEIGHTS_H

#include "runtime/Status.h"
#include "runtime/train/checkpoint/CheckpointFiles.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/evaluate/Evaluator.h"
#include "runtime/train/trainee/Trainee.h"

#include <functional>
#include <string>
#include <vector>

namespace mpc::runtime::train {

/// Replaces every parameter that has an average by its average, for good. Does
/// nothing without averages.
Status useAverages(Trainee &model);

/// Calls `body` while the averages replace their parameters. Restores the
/// parameters afterwards. Returns the first failure.
Status withAverages(Trainee &model, const std::function<Status()> &body);

/// Calls `evaluate` while the averages replace their parameters, and returns
/// the result. Restores the parameters afterwards.
StatusOr<EvalResult>
evaluateAverages(Trainee &model,
                 const std::function<StatusOr<EvalResult>()> &evaluate);

/// Gives each array "P" the values of the array "P.ema" if both have the same
/// shape. Ignores "P.ema" if `isOwn("P.ema")`: it is then an array by itself,
/// not an average. Returns the names of all averages used; the averages stay in
/// `arrays`.
std::vector<std::string>
takeAverages(std::vector<Array> &arrays,
             const std::function<bool(const std::string &)> &isOwn);

/// Reads the state of a trained model, like readWeights. Averages replace their
/// parameters.
StatusOr<std::vector<Array>> readAveragedWeights(Trainee &model);

/// Returns the state of a checkpoint. In a run with --ema, averages replace the
/// parameters.
std::vector<Array> evaluatedState(const CheckpointContents &checkpoint);

/// Loads the weights of a checkpoint, or the averages that replace them. Equal
/// names do not prove that the weights fit, so the hash of the model file must
/// match too. For example, a model whose normalizations are folded into
/// convolutions needs no statistics, so none would be missing. InvalidInput or
/// Checkpoint if they do not fit; the model is then unchanged.
Status loadCheckpointWeights(Trainee &model,
                             const CheckpointContents &checkpoint);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_AVERAGEDWEIGHTS_H
