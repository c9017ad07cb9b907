// Writes the events of a run as lines of the metrics: start, train, end.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_RUNEVENTS_H
#define MPC_RUNTIME_TRAIN_RUNEVENTS_H

#include "runtime/Status.h"
#include "runtime/train/Trainer.h"
#include "runtime/train/record/Metrics.h"

#include <string>

namespace mpc::runtime::train {

/// Returns the "start" event, the first of a run: the model, the data and the
/// step at which the run begins. `fingerprint` is that of the training data.
MetricsLine startLine(const TraineeInfo &info, const TrainOptions &options,
                      const StartReport &report, const std::string &fingerprint,
                      Digits digits);

/// Returns the "train" event of an attempt. A table has fixed columns, so each
/// event of a run has an accuracy (null if unknown), or no event has one.
MetricsLine stepLine(const StepReport &report, bool measuresAccuracy,
                     Digits digits);

/// Returns the "end" event of a run that ended with `status`: totals of the
/// run, and the reason for its end.
MetricsLine endLine(const TrainResult &result, const Status &status,
                    int exitCode, Digits digits);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_RUNEVENTS_H
