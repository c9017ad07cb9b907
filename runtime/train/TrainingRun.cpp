// Ends a training run: writes checkpoints, keeps the best weights, and explains
// failures. `TrainingRun::run` shows the order of events.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/TrainingRun.h"

#include "runtime/train/AveragedWeights.h"
#include "runtime/train/NonFiniteSearch.h"
#include "runtime/train/RunEvents.h"
#include "runtime/train/checkpoint/SharedState.h"
#include "runtime/train/support/RunRecorder.h"

#include <cmath>
#include <utility>

namespace mpc::runtime::train {

//===----------------------------------------------------------------------===//
// Checkpoints and the end
//===----------------------------------------------------------------------===//

/// Keeps the model's current weights as the best so far.
Status TrainingRun::keepBest() {
  if (Status status = save(); !status.ok())
    return status;
  if (lastSaved == progress.step) {
    if (best)
      keepOn("the best checkpoint is not marked", best->mark(progress.step));
    return Status();
  }
  return ranks.agree(
      model.lead([this] { return best ? best->copy() : Status(); }));
}

/// Gives the model the best weights at the end of the run.
Status TrainingRun::restoreBest() {
  if (!options.best)
    return Status();
  const MonitorState &found = progress.evaluations.best;
  Status status = model.lead([&] {
    return best ? best->restore(found, identity(), goodCheckpoint(), warn)
                      .status()
                : Status();
  });
  status = ranks.agree(status);
  if (!status.ok())
    return status;
  if (found.best)
    result.best =
        BestEvaluation{found.bestStep, options.best->metric, *found.best};
  return shareState(model, ranks);
}

/// Reports a failed write as a warning. The run continues, even on a full disk.
void TrainingRun::keepOn(const std::string &what, const Status &status) {
  if (status.ok())
    return;
  observer.warning(what + ": " + status.message());
  if (result.deferred.ok())
    result.deferred = status;
}

/// Writes a checkpoint, if this is the first rank.
Status TrainingRun::write() {
  if (!checkpoints)
    return Status();
  progress.settings = settingsOf(model.info(), options, data, totalSteps);
  progress.record = options.record;
  PartTimer timer(options.recorder, RunPart::Checkpoint);
  return checkpoints->save(model, progress, identity(), options.keepCheckpoints,
                           note);
}

/// Saves a checkpoint unless this step has one. If a checkpoint was saved
/// within an attempt, later batches of the attempt are not saved: a resumed run
/// repeats them, with the same bits. Fails only if the state of the ranks
/// differs: a failed write does not end the run.
Status TrainingRun::save() {
  const bool isBeginning = progress.step == 0 && progress.batchInStep == 0;
  if (!saves() || lastSaved == progress.step || isBeginning)
    return Status();
  // After a non-finite loss, the weights may be non-finite too. They must not
  // replace good checkpoints.
  if (!guard.isLossFinite()) {
    observer.warning("checkpoint not saved: the loss is not finite");
    return Status();
  }
  if (Status status = checkSameState(model, ranks); !status.ok())
    return status;
  const Status status = model.lead([this] { return write(); });
  double code = double(static_cast<int>(status.getCode()));
  if (Status shared = ranks.share(&code, sizeof(code)); !shared.ok())
    return shared;
  if (code != 0) {
    // Messages about a full disk differ in each step, so compare their kind
    // only.
    const bool isKnown = isForWantOfSpace(status)
                             ? isForWantOfSpace(lastSaveFailure)
                             : status.message() == lastSaveFailure.message();
    if (!isKnown)
      observer.warning("checkpoint not saved: " + status.message());
    lastSaveFailure = status;
    // Numeric means non-finite weights, which end the run. Other failures are
    // reported at its end.
    if (result.deferred.ok() && status.getCode() != StatusCode::Numeric)
      result.deferred = status;
    return Status();
  }
  lastSaveFailure = Status();
  lastSaved = progress.step;
  if (!checkpoints)
    return Status();
  const std::string path = checkpoints->pathOf(progress.step);
  record(MetricsLine("checkpoint", digits)
             .add("step", progress.step)
             .add("path", path));
  observer.checkpointed(progress.step, path);
  return Status();
}

void TrainingRun::record(const MetricsLine &line) {
  Status status = metrics.write(line);
  if (status.ok()) {
    lacksMetrics = false;
    return;
  }
  // Report the problem once while it lasts.
  if (!std::exchange(lacksMetrics, true))
    observer.warning((isForWantOfSpace(status) ? "metrics have a gap here: "
                                               : "metrics end here: ") +
                     status.message());
  if (result.deferred.ok())
    result.deferred = status;
}

/// Reports a last evaluation whose loss is not finite at the end of the run, as
/// a failure: the weights are written, but are of no use. Weights of a better
/// evaluation are.
void TrainingRun::deferNonFinite() {
  if (!result.evaluation || std::isfinite(result.evaluation->loss) ||
      result.best || !result.deferred.ok())
    return;
  result.deferred =
      Status(StatusCode::Numeric,
             "the loss of the last evaluation is not finite, found " +
                 std::string(std::isnan(result.evaluation->loss) ? "nan"
                             : result.evaluation->loss > 0       ? "inf"
                                                                 : "-inf"));
}

/// Completes the result and writes the "end" event.
void TrainingRun::finish(const Status &status) {
  result.steps = progress.step;
  result.skipped = progress.skipped;
  result.epochs = progress.epoch;
  result.samples = progress.samples;
  result.medianStepMs = stepTimes.median();
  result.peakMemoryBytes = memory.bytes();
  // A stop after the last evaluation interrupted nothing.
  if (interrupted)
    result.stopSignal = ranks.isSingle() ? stop->load() : requests.stop;
  result.exitCode = result.stopSignal                 ? 128 + result.stopSignal
                    : result.end == RunEnd::TimeLimit ? options.unfinishedCode
                                                      : 0;
  // The exit code of a failed write takes precedence over that of the signal.
  const int failure =
      int(status.ok() ? result.deferred.getCode() : status.getCode());
  record(endLine(result, status, failure ? failure : result.exitCode, digits));
}

//===----------------------------------------------------------------------===//
// Failed runs: origin of the failure and weights to keep
//===----------------------------------------------------------------------===//

/// Returns the path of the checkpoint with the last good weights; empty if
/// there is none.
std::string TrainingRun::goodCheckpoint() const {
  if (checkpoints && lastSaved > 0)
    return lastSaved == firstStep && options.resume != "auto"
               ? options.resume
               : checkpoints->pathOf(lastSaved);
  return options.resume == "auto" ? "" : options.resume;
}

/// Restores the last good checkpoint or, if there is none, the initial state.
StatusOr<Progress> TrainingRun::restoreGood() {
  StatusOr<Progress> restored = Progress();
  Status status = model.lead([&] {
    if (!ranks.isFirst())
      return Status();
    const std::string path = goodCheckpoint();
    if (path.empty())
      return model.reset();
    restored = restoreCheckpoint(path, model, identity());
    return restored.ok() ? adopt(*restored) : restored.status();
  });
  status = ranks.agree(status);
  if (status.ok())
    status = shareProgress(*restored, ranks);
  if (status.ok())
    status = shareState(model, ranks);
  return status.ok() ? restored : status;
}

/// Adds to the message of `failure` the origin of the non-finite values and the
/// last good checkpoint.
Status TrainingRun::explain(const Status &failure) {
  if (guard.firstOfRow() == 0)
    return failure;
  FailedRun failed;
  failed.end = progress;
  failed.firstBad = guard.firstOfRow();
  failed.wasSkipped = guard.wasSkipped();
  failed.medianStepMs = stepTimes.median();
  // All ranks must repeat equally many attempts.
  if (Status status =
          ranks.share(&failed.medianStepMs, sizeof(failed.medianStepMs));
      !status.ok())
    return failure;
  failed.lastBegin = lastBegin;
  failed.restore = [this] { return restoreGood(); };
  failed.findBrokenWeights = [this] { return guard.findBrokenWeights(model); };
  std::string message = failure.message();
  // A user who stops a run does not want to wait for a search.
  if (!stopped())
    message += "; " + explainNonFinite(*attempts, failed);
  if (const std::string path = goodCheckpoint(); !path.empty())
    message += "; the last good checkpoint is " + path;
  else if (checkpoints)
    message += "; there is no checkpoint from before";
  return Status(failure.getCode(), message);
}

/// Gives the model of a failed run the weights of the best earlier evaluation.
/// True if there are such weights and they could be read.
bool TrainingRun::saveBest() {
  return options.best && progress.evaluations.best.best && restoreBest().ok() &&
         useAverages(model).ok();
}

StatusOr<TrainResult> TrainingRun::run() {
  if (Status status = prepare(); !status.ok())
    return status;
  Status status = train();
  if (status.getCode() == StatusCode::Numeric)
    status = explain(status);
  const bool isSaved = status.getCode() == StatusCode::Numeric && saveBest();
  if (status.ok() || isSaved)
    if (Status kept = model.keepWeights(); !kept.ok())
      status = kept;
  if (status.ok())
    deferNonFinite();
  finish(status);
  if (isSaved)
    result.deferred = status;
  return status.ok() || isSaved ? StatusOr<TrainResult>(result) : status;
}

} // namespace mpc::runtime::train
