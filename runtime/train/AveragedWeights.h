// Uses the parameters that are averaged over the steps (`--ema`) for
// evaluations and for the trained model.
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

/// Returns the result of `evaluate` with averages in place of the parameters,
/// which are restored afterwards.
StatusOr<EvalResult>
evaluateAverages(Trainee &model,
                 const std::function<StatusOr<EvalResult>()> &evaluate);

/// Gives array "P" the values of its average "P.ema" if their shapes are equal.
/// Ignores averages for whose name `isOwn` is true: they are ordinary arrays.
/// Returns the names of the averages that were taken; they stay in `arrays`.
std::vector<std::string>
takeAverages(std::vector<Array> &arrays,
             const std::function<bool(const std::string &)> &isOwn);

/// Returns the state of a checkpoint. In a run with --ema, averages replace the
/// parameters.
std::vector<Array> evaluatedState(const CheckpointContents &checkpoint);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_AVERAGEDWEIGHTS_H
