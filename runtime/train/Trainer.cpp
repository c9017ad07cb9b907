// Implements the training loop. `TrainingRun` holds everything that lives from
// the first step to the last; `run` shows the order of events.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Trainer.h"

#include "runtime/train/Attempts.h"
#include "runtime/train/AveragedWeights.h"
#include "runtime/train/BestModel.h"
#include "runtime/train/Divergence.h"
#include "runtime/train/EvaluationRules.h"
#include "runtime/train/MetricsLog.h"
#include "runtime/train/NonFiniteSearch.h"
#include "runtime/train/RunEvents.h"
#include "runtime/train/RunIdentity.h"
#include "runtime/train/RunPaths.h"
#include "runtime/train/RunStatistics.h"
#include "runtime/train/checkpoint/Checkpoint.h"
#include "runtime/train/evaluate/EvalMetrics.h"
#include "runtime/train/support/RunRecorder.h"
#include "runtime/train/support/Text.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

namespace mpc::runtime::train {

namespace {

class TrainingRun {
public:
  TrainingRun(Trainee &model, const Dataset &data, const Dataset *evalData,
              const TrainOptions &options, TrainObserver &observer,
              const std::atomic<int> *stop)
      : model(model), data(data), evalData(evalData), options(options),
        observer(observer), stop(stop),
        digits(model.info().precision == "64-true" ? Digits::Double
                                                   : Digits::Single),
        guard(options, model.info()), rules(options, note) {}

  StatusOr<TrainResult> run();

private:
  Status prepare();
  Status planSteps();
  Status resume();
  Status openMetrics();
  StartReport describeStart() const;
  Status train();
  Status attempt();
  bool isDue(int64_t every) const;
  Status evaluateNow();
  Status heed(const EvalResult &evaluation);
  Status keepBest();
  Status restoreBest();
  bool saveBest();
  void keepOn(const std::string &what, const Status &status);
  void save();
  void record(const MetricsLine &line);
  void deferNonFinite();
  void finish(const Status &status);
  Status explain(const Status &failure);
  StatusOr<Progress> restoreGood();
  std::string goodCheckpoint() const;
  RunIdentity identity() const {
    return identityOf(model.info(), data, options);
  }
  bool stopped() const { return stop && stop->load() != 0; }
  /// True after the deadline, but never before the first step of this process:
  /// otherwise a run whose compilation takes as long as the limit would never
  /// advance.
  bool isTimeOver() const {
    return options.deadline && progress.step > firstStep &&
           std::chrono::steady_clock::now() >= *options.deadline;
  }
  bool done() const {
    return progress.step >= totalSteps || stopped() ||
           rules.isOver(progress.evaluations) || isTimeOver();
  }
  void noteEnd();

  Trainee &model;
  const Dataset &data;
  const Dataset *evalData;
  const TrainOptions &options;
  TrainObserver &observer;
  const std::atomic<int> *stop;
  const Digits digits;

  const EvaluationRules::Note note = [this](auto &s) { observer.note(s); };
  const EvaluationRules::Note warn = [this](auto &s) { observer.warning(s); };
  DivergenceGuard guard;
  const EvaluationRules rules;
  std::optional<Attempts> attempts;
  int64_t batchesPerStep = 1;
  bool measuresAccuracy = false;   ///< true if steps report an accuracy
  std::vector<std::string> losses; ///< names of several losses of a step
  int64_t stepsPerEpoch = 0;
  int64_t totalSteps = 0;
  Progress progress;
  int64_t firstStep = 0;
  int64_t lastSaved = -1;
  int64_t lastEvaluated = -1; ///< step of the last evaluation in this process
  bool interrupted = false;   ///< true if a stop left something undone
  StepTimes stepTimes;
  PeakMemory memory;
  /// The last failure to save a checkpoint. A repeated failure is reported
  /// once.
  Status lastSaveFailure;
  bool lacksMetrics = false; ///< true if the last metrics line was not written
  std::optional<CheckpointStore> checkpoints;
  std::optional<BestModel> best;
  MetricsLog metrics;
  TrainResult result;
};

} // namespace

//===----------------------------------------------------------------------===//
// Before the first step
//===----------------------------------------------------------------------===//

Status TrainingRun::planSteps() {
  const int64_t perStep = data.batchSize() * batchesPerStep;
  StatusOr<int64_t> steps = countStepsOfEpoch(data, perStep, options.lastBatch);
  if (!steps.ok())
    return steps.status();
  stepsPerEpoch = *steps;
  // Samples that fill no step are left out unless --last-batch keeps them.
  const int64_t rest = data.size() % perStep;
  if (rest != 0 && options.lastBatch == LastBatch::Drop)
    observer.note("each epoch leaves out " + std::to_string(rest) + " of " +
                  counted(data.size(), "sample") +
                  ", which fill no step; --last-batch keep uses them");
  if (const std::string places = findMovedPlaces(model.info(), data, options);
      !places.empty())
    observer.warning(places);
  totalSteps = countSteps(options, stepsPerEpoch);
  if (options.schedule.warmupSteps > totalSteps)
    observer.warning("the run ends after " + counted(totalSteps, "step") +
                     ", before its warm-up of " +
                     std::to_string(options.schedule.warmupSteps) +
                     " ends, and never reaches the full learning rate");
  return Status();
}

Status TrainingRun::resume() {
  StatusOr<RunStart> start = resumeRun(
      model, options, checkpoints ? &*checkpoints : nullptr, identity(),
      settingsOf(model.info(), options, data, totalSteps), note);
  if (!start.ok())
    return start.status();
  progress = std::move(start->progress);
  // The position of the checkpoint may not exist in this run.
  if (Status status = checkPosition(progress, stepsPerEpoch, batchesPerStep);
      !status.ok())
    return status;
  firstStep = progress.step;
  if (start->isSaved)
    lastSaved = firstStep;
  // The best evaluation and early stopping continue from the checkpoint.
  rules.adopt(progress.evaluations);
  if (!options.best)
    return Status();
  best.emplace(model, *options.best, checkpoints ? &*checkpoints : nullptr,
               options.keepCheckpoints);
  return best->find(progress.evaluations.best, firstStep,
                    options.resume == "auto" ? "" : options.resume, identity(),
                    warn);
}

Status TrainingRun::openMetrics() {
  auto log = MetricsLog::open(options, firstStep, measuresAccuracy, losses);
  if (!log.ok())
    return log.status();
  metrics = std::move(*log);
  return metrics.write(startLine(model.info(), options, describeStart(),
                                 data.fingerprint(), digits));
}

StartReport TrainingRun::describeStart() const {
  StartReport report;
  report.samples = data.size();
  report.evalSamples = evalData ? evalData->size() : 0;
  report.batchSize = data.batchSize();
  report.accumulate = batchesPerStep;
  report.stepsPerEpoch = stepsPerEpoch;
  report.totalSteps = totalSteps;
  report.firstStep = firstStep;
  report.memoryBytes = model.memoryBytes();
  return report;
}

Status TrainingRun::prepare() {
  // Report everything that cannot work before anything is written.
  if (Status status = checkEvalMetrics(model.info(), options.evalMetrics);
      !status.ok())
    return status;
  if (Status status = rules.check(model.info(), evalData != nullptr);
      !status.ok())
    return status;
  if (options.resume == "auto" && options.checkpointDir.empty())
    return Status(StatusCode::Usage,
                  "--resume auto needs --checkpoint-dir to look in");
  // The number of batches in a step decides how many steps there are.
  StatusOr<StepRunner> runner = StepRunner::create(model);
  if (!runner.ok())
    return runner.status();
  batchesPerStep = runner->batches();
  measuresAccuracy = runner->measuresAccuracy();
  losses = runner->lossNames();
  if (Status status = planSteps(); !status.ok())
    return status;
  runner->setRecorder(options.recorder);
  attempts.emplace(std::move(*runner), data, options,
                   RunLength{stepsPerEpoch, totalSteps});
  if (!options.checkpointDir.empty()) {
    StatusOr<CheckpointStore> store =
        CheckpointStore::open(options.checkpointDir);
    if (!store.ok())
      return store.status();
    checkpoints.emplace(std::move(*store));
  }
  if (Status status = resume(); !status.ok())
    return status;
  if (Status status = openMetrics(); !status.ok())
    return status;
  if (Status status = guard.begin(model); !status.ok())
    return status;
  if (checkpoints)
    checkpoints->allowNonFinite(guard.brokenAtFirst());
  // Tell observers of the run only once it is certain to start.
  observer.started(describeStart());
  return Status();
}

//===----------------------------------------------------------------------===//
// Steps, evaluation, checkpoints
//===----------------------------------------------------------------------===//

/// Runs one attempt and reports it. An attempt that a signal interrupts between
/// two batches is not reported.
Status TrainingRun::attempt() {
  StatusOr<std::optional<StepReport>> ran = [&] {
    PartTimer timer(options.recorder, RunPart::Step);
    return attempts->run(progress, stop);
  }();
  if (!ran.ok())
    return ran.status();
  if (!*ran)
    return Status();
  const StepReport &report = **ran;
  stepTimes.add(report.stepMs);
  memory.sample();
  result.finalLoss = report.loss;
  record(stepLine(report, measuresAccuracy, digits));
  observer.stepped(report);
  if (const std::string warning = guard.findWarning(report); !warning.empty())
    observer.warning(warning);
  return guard.check(report);
}

/// True if the number of attempts so far is a multiple of `every`. If `every`
/// is 0, true at the end of an epoch. False before the first attempt and within
/// an attempt.
bool TrainingRun::isDue(int64_t every) const {
  if (progress.step == 0 || progress.batchInStep > 0)
    return false;
  return every > 0 ? progress.step % every == 0 : progress.stepInEpoch == 0;
}

/// Reports the reason if the run ends before its last step.
void TrainingRun::noteEnd() {
  if (rules.isOver(progress.evaluations)) {
    result.end = RunEnd::EarlyStopping;
    observer.note(
        options.earlyStopping->describe(progress.evaluations.earlyStopping));
  } else if (stopped()) {
    interrupted = progress.step < totalSteps;
  } else if (progress.step < totalSteps) {
    result.end = RunEnd::TimeLimit;
    observer.note("--max-time is over after step " +
                  std::to_string(progress.step));
  }
}

/// Trains to the end. Saves before each evaluation, so that an evaluation that
/// fails or is killed loses nothing.
Status TrainingRun::train() {
  // If a run is resumed where an evaluation is due, evaluate first: the
  // checkpoint was written before the evaluation, and early stopping may end
  // the run here.
  if (rules.any() && isDue(options.evalEvery) && !done() &&
      progress.evaluations.step != progress.step)
    if (Status status = evaluateNow(); !status.ok())
      return status;
  while (!done()) {
    if (Status status = attempt(); !status.ok())
      return status;
    const bool isAsked = options.saveNow && options.saveNow->exchange(false);
    if (isAsked && !checkpoints)
      observer.warning("there is no --checkpoint-dir to save into");
    if (isAsked || isDue(options.checkpointEvery))
      save();
    if (isDue(options.evalEvery) && !done())
      if (Status status = evaluateNow(); !status.ok())
        return status;
  }
  noteEnd();
  save();
  if (Status status = guard.checkEnd(model, progress, stopped()); !status.ok())
    return status;
  // After a stop, skip the last evaluation. The run then counts as interrupted,
  // as if the stop had come during the evaluation.
  if (stopped())
    interrupted |= evalData && lastEvaluated != progress.step;
  else if (lastEvaluated != progress.step)
    if (Status status = evaluateNow(); !status.ok())
      return status;
  if (stopped() && !checkpoints)
    observer.warning("stopped without a checkpoint: there is no "
                     "--checkpoint-dir");
  Status status = restoreBest();
  return status.ok() ? useAverages(model) : status;
}

Status TrainingRun::evaluateNow() {
  if (!evalData)
    return Status();
  StatusOr<EvalResult> evaluation = evaluateAverages(model, [&] {
    PartTimer timer(options.recorder, RunPart::Evaluation);
    return evaluate(model, *evalData, stop, options.evalMetrics);
  });
  if (!evaluation.ok())
    return evaluation.status();
  if (evaluation->stopped) {
    observer.warning("stopped during the evaluation, whose result is dropped");
    interrupted = true;
    return Status();
  }
  lastEvaluated = progress.step;
  // Report the evaluation with the epoch that was trained before.
  const int64_t epoch =
      std::max<int64_t>(0, progress.epoch - (progress.stepInEpoch == 0));
  result.evaluation = *evaluation;
  MetricsLine line("eval", digits);
  line.add("step", progress.step).add("epoch", epoch);
  addEvaluation(line, *evaluation);
  record(line);
  observer.evaluated(progress.step, epoch, *evaluation);
  if (evaluation->leftOut > 0)
    observer.note("the evaluation leaves out " +
                  counted(evaluation->leftOut, "sample") + ": " +
                  whyLeftOut(*evaluation));
  if (!std::isfinite(evaluation->loss))
    observer.warning("the loss of the evaluation is not finite");
  return heed(*evaluation);
}

/// Decides by an evaluation about best weights, early stopping and learning
/// rate. Adds the decisions to the checkpoint of this step, so that a resumed
/// run knows them.
Status TrainingRun::heed(const EvalResult &evaluation) {
  if (!rules.any())
    return Status();
  const bool isBest =
      rules.count(evaluation, progress.step, !isDue(options.evalEvery),
                  progress.evaluations);
  // The checkpoint was written before the evaluation, so it lacks the
  // decisions.
  const bool isSaved = checkpoints && lastSaved == progress.step;
  if (isSaved)
    keepOn("the checkpoint lacks its evaluation", checkpoints->amend(progress));
  return isBest ? keepBest() : Status();
}

/// Keeps the model's current weights as the best so far.
Status TrainingRun::keepBest() {
  save();
  if (!checkpoints || lastSaved != progress.step)
    return best->copy();
  keepOn("the best checkpoint is not marked", best->mark(progress.step));
  return Status();
}

/// Gives the model the best weights at the end of the run.
Status TrainingRun::restoreBest() {
  if (!best)
    return Status();
  StatusOr<std::optional<BestEvaluation>> restored = best->restore(
      progress.evaluations.best, identity(), goodCheckpoint(), warn);
  if (restored.ok())
    result.best = *restored;
  return restored.status();
}

/// Reports a failed write as a warning. The run continues, even on a full disk.
void TrainingRun::keepOn(const std::string &what, const Status &status) {
  if (status.ok())
    return;
  observer.warning(what + ": " + status.message());
  if (result.deferred.ok())
    result.deferred = status;
}

/// Saves a checkpoint unless this step has one. If a checkpoint was saved
/// within an attempt, later batches of the attempt are not saved: a resumed run
/// repeats them, with the same bits. A failure does not end the run.
void TrainingRun::save() {
  const bool isBeginning = progress.step == 0 && progress.batchInStep == 0;
  if (!checkpoints || lastSaved == progress.step || isBeginning)
    return;
  // After a non-finite loss, the weights may be non-finite too. They must not
  // replace good checkpoints.
  if (!guard.isLossFinite()) {
    observer.warning("checkpoint not saved: the loss is not finite");
    return;
  }
  progress.settings = settingsOf(model.info(), options, data, totalSteps);
  progress.record = options.record;
  Status status = [&] {
    PartTimer timer(options.recorder, RunPart::Checkpoint);
    return checkpoints->save(model, progress, identity(),
                             options.keepCheckpoints, note);
  }();
  if (!status.ok()) {
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
    return;
  }
  lastSaveFailure = Status();
  lastSaved = progress.step;
  const std::string path = checkpoints->pathOf(progress.step);
  record(MetricsLine("checkpoint", digits)
             .add("step", progress.step)
             .add("path", path));
  observer.checkpointed(progress.step, path);
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
    result.stopSignal = stop->load();
  int exitCode =
      int(status.ok() ? result.deferred.getCode() : status.getCode());
  // The exit code of a failed write takes precedence over that of the signal.
  if (exitCode == 0 && result.stopSignal)
    exitCode = 128 + result.stopSignal;
  record(endLine(result, status, exitCode, digits));
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
  const std::string path = goodCheckpoint();
  if (!path.empty())
    return restoreCheckpoint(path, model, identity());
  Status status = model.reset();
  return status.ok() ? StatusOr<Progress>(Progress()) : status;
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
  failed.stepsPerEpoch = stepsPerEpoch;
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
  return best && progress.evaluations.best.best && restoreBest().ok() &&
         useAverages(model).ok();
}

StatusOr<TrainResult> TrainingRun::run() {
  if (Status status = prepare(); !status.ok())
    return status;
  Status status = train();
  if (status.getCode() == StatusCode::Numeric)
    status = explain(status);
  const bool isSaved = status.getCode() == StatusCode::Numeric && saveBest();
  if (status.ok())
    deferNonFinite();
  finish(status);
  if (isSaved)
    result.deferred = status;
  return status.ok() || isSaved ? StatusOr<TrainResult>(result) : status;
}

StatusOr<TrainResult> train(Trainee &model, const Dataset &data,
                            const Dataset *evalData,
                            const TrainOptions &options,
                            TrainObserver *observer,
                            const std::atomic<int> *stop) {
  TrainObserver silent;
  try {
    return TrainingRun(model, data, evalData, options,
                       observer ? *observer : silent, stop)
        .run();
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::IO, "out of memory; try a smaller --batch-size");
  }
}

} // namespace mpc::runtime::train
