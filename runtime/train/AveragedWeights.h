// Parameters averaged over the steps (`--ema`): what is evaluated, and what a
// trained model is in the end.
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

/// Gives every parameter that has an average the value of it, for good. Nothing
/// where the model has no averages.
Status useAverages(Trainee &model);

/// What `evaluate` says of the model with its averages in place of the
/// parameters, which are as they were afterwards.
StatusOr<EvalResult>
evaluateAverages(Trainee &model,
                 const std::function<StatusOr<EvalResult>()> &evaluate);

/// Gives each array "P" that has an average "P.ema" of its shape beside it the
/// values of that. An average whose name `isOwn` is an array like any other.
/// Returns the names of the averages that were taken, which stay among the
/// arrays.
std::vector<std::string>
takeAverages(std::vector<Array> &arrays,
             const std::function<bool(const std::string &)> &isOwn);

/// The state of a checkpoint; of a run that averages its weights, with the
/// averages as the parameters.
std::vector<Array> evaluatedState(const CheckpointContents &checkpoint);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_AVERAGEDWEIGHTS_H
