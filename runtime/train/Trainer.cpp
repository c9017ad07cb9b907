// Prepares a training run, and runs its steps and evaluations.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Trainer.h"

#include "runtime/train/AveragedWeights.h"
#include "runtime/train/RunEvents.h"
#include "runtime/train/RunPaths.h"
#include "runtime/train/TrainingRun.h"
#include "runtime/train/checkpoint/SharedState.h"
#include "runtime/train/evaluate/EvalMetrics.h"
#include "runtime/train/support/RunRecorder.h"
#include "runtime/train/support/Text.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

namespace mpc::runtime::train {

//===----------------------------------------------------------------------===//
// Before the first step
//===----------------------------------------------------------------------===//

Status TrainingRun::planSteps() {
  StatusOr<EpochSteps> planned = planEpoch(data, batchesPerStep, options);
  if (!planned.ok())
    return planned.status();
  epoch = *planned;
  // Samples that fill no step are left out unless --last-batch keeps them.
  const int64_t rest = data.size() % epoch.perStep;
  if (rest != 0 && options.lastBatch == LastBatch::Drop)
    observer.note("each epoch leaves out " + std::to_string(rest) + " of " +
                  counted(data.size(), "sample") +
                  ", which fill no step; --last-batch keep uses them");
  if (const std::string places = findMovedPlaces(model.info(), data, options);
      !places.empty())
    observer.warning(places);
  totalSteps = countSteps(options, epoch);
  if (options.schedule.warmupSteps > totalSteps)
    observer.warning("the run ends after " + counted(totalSteps, "step") +
                     ", before its warm-up of " +
                     std::to_string(options.schedule.warmupSteps) +
                     " ends, and never reaches the full learning rate");
  return Status();
}

/// Adapts the place of a checkpoint to the steps of this run. Checkpoint if
/// the place does not exist in this run.
Status TrainingRun::adopt(Progress &place) {
  if (!ranks.isSingle() && place.batchInStep > 0)
    if (Status status = beginStepAgain(model, place); !status.ok())
      return status;
  if (Status status = checkPosition(place, epoch, batchesPerStep); !status.ok())
    return status;
  // With another number of ranks, the rest of the epoch may fill no step.
  if (place.sampleInEpoch > epoch.lastBegin()) {
    ++place.epoch;
    place.stepInEpoch = 0;
    place.sampleInEpoch = 0;
  }
  return Status();
}

/// Continues from a checkpoint, if the options say so. Call on the first rank.
Status TrainingRun::resume() {
  StatusOr<RunStart> start = resumeRun(
      model, options, checkpoints ? &*checkpoints : nullptr, identity(),
      [this](const Progress &from) {
        return settingsOf(model.info(), options, data,
                          countSteps(options, epoch, from));
      },
      note);
  if (!start.ok())
    return start.status();
  progress = std::move(start->progress);
  if (!ranks.isSingle() && progress.batchInStep > 0)
    observer.note("the checkpoint is from within step " +
                  std::to_string(progress.step + 1) +
                  ", which begins again on several ranks");
  if (Status status = adopt(progress); !status.ok())
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

/// Gives all ranks the place and the state in which the first rank starts.
Status TrainingRun::shareStart() {
  if (Status status = shareProgress(progress, ranks); !status.ok())
    return status;
  firstStep = progress.step;
  totalSteps = countSteps(options, epoch, progress);
  if (Status status = ranks.share(&lastSaved, sizeof(lastSaved)); !status.ok())
    return status;
  return shareState(model, ranks);
}

/// Checks that all ranks train equal models on equal data.
Status TrainingRun::checkRanks() {
  if (ranks.isSingle())
    return Status();
  RunIdentity facts = identity();
  // Facts about the run take precedence: "data" is then the hash.
  facts.merge(settingsOf(model.info(), options, data, totalSteps));
  // A run may resume with or without --shard-optimizer, so the identity has
  // only a part of the recipe.
  facts["recipe"] = model.info().recipe;
  facts["evaluated samples"] = std::to_string(evalData ? evalData->size() : 0);
  facts["metrics"] = joined(options.evalMetrics);
  facts["checkpoints"] =
      options.checkpointDir.empty() ? "none"
      : options.checkpointEvery == 0
          ? "every epoch"
          : "every " + std::to_string(options.checkpointEvery) + " steps";
  facts["comparisons of ranks"] =
      "every " + std::to_string(options.checkRanksEvery) + " steps";
  facts["allowed non-finite steps"] = std::to_string(options.maxNonfinite);
  facts["allowed skipped steps"] = std::to_string(options.maxSkipped);
  return checkSameFacts(facts, ranks);
}

Status TrainingRun::openMetrics() {
  if (!ranks.isFirst())
    return Status();
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
  report.ranks = ranks.count();
  report.stepsPerEpoch = epoch.stepsFrom(0);
  report.totalSteps = totalSteps;
  report.totalEpochs = countEpochs(epoch, progress, totalSteps);
  report.firstStep = firstStep;
  report.memoryBytes = model.memoryBytes();
  return report;
}

/// Checks model, data and options before anything is written.
Status TrainingRun::check() {
  if (Status status = checkEvalMetrics(model.info(), options.evalMetrics);
      !status.ok())
    return status;
  if (Status status = checkDataParallel(model.info(), options); !status.ok())
    return status;
  if (Status status = rules.check(model.info(), evalData != nullptr);
      !status.ok())
    return status;
  if (options.resume == "auto" && options.checkpointDir.empty())
    return Status(StatusCode::Usage,
                  "--resume auto needs --checkpoint-dir to look in");
  // The number of batches in a step decides how many steps there are.
  StatusOr<StepRunner> created = StepRunner::create(model);
  if (!created.ok())
    return created.status();
  runner.emplace(std::move(*created));
  batchesPerStep = runner->batches();
  measuresAccuracy = runner->measuresAccuracy();
  losses = runner->lossNames();
  return planSteps();
}

/// Opens the folder of checkpoints and resumes, on the first rank.
Status TrainingRun::openCheckpoints() {
  if (!ranks.isFirst())
    return Status();
  if (saves()) {
    StatusOr<CheckpointStore> store =
        CheckpointStore::open(options.checkpointDir);
    if (!store.ok())
      return store.status();
    checkpoints.emplace(std::move(*store));
  }
  return resume();
}

/// Records the weights that are not finite before the first step.
Status TrainingRun::beginGuard() {
  if (Status status = guard.begin(model); !status.ok())
    return status;
  if (checkpoints)
    checkpoints->allowNonFinite(guard.brokenAtFirst());
  return Status();
}

Status TrainingRun::prepare() {
  if (Status status = ranks.agree(check()); !status.ok())
    return status;
  if (Status status = checkRanks(); !status.ok())
    return status;
  if (Status status =
          ranks.agree(model.lead([this] { return openCheckpoints(); }));
      !status.ok())
    return status;
  if (Status status = shareStart(); !status.ok())
    return status;
  runner->setRecorder(options.recorder);
  attempts.emplace(std::move(*runner), model, data, options,
                   RunLength{epoch.stepsFrom(0), totalSteps, epoch.lastBegin()},
                   ranks);
  attempts->setRequests([this] { return pollRequests(); });
  if (Status status = ranks.agree(openMetrics()); !status.ok())
    return status;
  if (Status status = ranks.agree(beginGuard()); !status.ok())
    return status;
  // Tell observers of the run only once it is certain to start.
  observer.started(describeStart());
  return Status();
}

//===----------------------------------------------------------------------===//
// Steps, evaluation, checkpoints
//===----------------------------------------------------------------------===//

/// Returns the requests to this rank. Clears the request for a checkpoint.
Requests TrainingRun::pollRequests() const {
  Requests own;
  own.stop = stop ? stop->load() : 0;
  own.save = options.saveNow && options.saveNow->exchange(false);
  own.isTimeOver = isPastDeadline();
  return own;
}

/// Agrees about a stop outside of attempts.
Status TrainingRun::agreeRequests() {
  StatusOr<std::vector<double>> stops =
      ranks.gather({double(stop ? stop->load() : 0)});
  if (stops.ok())
    requests.stop = int(*std::max_element(stops->begin(), stops->end()));
  return stops.status();
}

/// The counts of `progress`.
static Progress placeOf(const Progress &progress) {
  Progress place;
  place.step = progress.step;
  place.microStep = progress.microStep;
  place.samples = progress.samples;
  place.skipped = progress.skipped;
  place.epoch = progress.epoch;
  place.stepInEpoch = progress.stepInEpoch;
  place.sampleInEpoch = progress.sampleInEpoch;
  return place;
}

/// Runs one attempt and reports it. An attempt that a signal interrupts between
/// two batches is not reported.
Status TrainingRun::attempt() {
  lastBegin = placeOf(progress);
  StatusOr<std::optional<StepReport>> ran = [&] {
    PartTimer timer(options.recorder, RunPart::Step);
    return attempts->run(progress, stop);
  }();
  if (!ran.ok())
    return ran.status();
  requests = ranks.isSingle() ? pollRequests() : attempts->requests();
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
  return every > 0 ? progress.step % every == 0 : progress.sampleInEpoch == 0;
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
  if (Status status = agreeRequests(); !status.ok())
    return status;
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
    const bool isAsked = std::exchange(requests.save, false);
    if (isAsked && !saves())
      observer.warning("there is no --checkpoint-dir to save into");
    if (progress.step % options.checkRanksEvery == 0 &&
        progress.batchInStep == 0)
      if (Status status = checkSameState(model, ranks); !status.ok())
        return status;
    if (isAsked || isDue(options.checkpointEvery))
      if (Status status = save(); !status.ok())
        return status;
    if (isDue(options.evalEvery) && !done())
      if (Status status = evaluateNow(); !status.ok())
        return status;
  }
  noteEnd();
  if (Status status = save(); !status.ok())
    return status;
  if (Status status = checkSameState(model, ranks); !status.ok())
    return status;
  if (Status status = guard.checkEnd(model, progress, stopped()); !status.ok())
    return status;
  // After a stop, skip the last evaluation. The run then counts as interrupted,
  // as if the stop had come during the evaluation.
  if (stopped())
    interrupted |= evalData && lastEvaluated != progress.step;
  else if (lastEvaluated != progress.step)
    if (Status status = evaluateNow(); !status.ok())
      return status;
  if (stopped() && !saves())
    observer.warning("stopped without a checkpoint: there is no "
                     "--checkpoint-dir");
  Status status = restoreBest();
  return status.ok() ? useAverages(model) : status;
}

Status TrainingRun::evaluateNow() {
  if (!evalData)
    return Status();
  if (Status status = averageStatistics(model, ranks); !status.ok())
    return status;
  StatusOr<EvalResult> evaluation = evaluateAverages(model, [&] {
    PartTimer timer(options.recorder, RunPart::Evaluation);
    return evaluate(model, *evalData, stop, options.evalMetrics, nullptr,
                    /*reportsClasses=*/false, &ranks);
  });
  if (!evaluation.ok())
    return evaluation.status();
  if (Status status = agreeRequests(); !status.ok())
    return status;
  if (evaluation->stopped) {
    observer.warning("stopped during the evaluation, whose result is dropped");
    interrupted = true;
    return Status();
  }
  lastEvaluated = progress.step;
  // Report the evaluation with the epoch that was trained before.
  const int64_t trained =
      std::max<int64_t>(0, progress.epoch - (progress.sampleInEpoch == 0));
  result.evaluation = *evaluation;
  MetricsLine line("eval", digits);
  line.add("step", progress.step).add("epoch", trained);
  addEvaluation(line, *evaluation);
  record(line);
  observer.evaluated(progress.step, trained, *evaluation);
  if (evaluation->leftOut > 0)
    observer.note("the evaluation leaves out " +
                  counted(evaluation->leftOut, "sample") + ": " +
                  whyLeftOut(*evaluation));
  if (!std::isfinite(evaluation->loss))
    observer.warning("the loss of the evaluation is not finite");
  return heed(*evaluation);
}

/// Decides by an evaluation about best weights, early stopping and learning
/// rate. Adds the decisions to the checkpoint of this step, for a resumed run.
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

StatusOr<TrainResult> train(Trainee &model, const Dataset &data,
                            const Dataset *evalData,
                            const TrainOptions &options,
                            TrainObserver *observer,
                            const std::atomic<int> *stop) {
  TrainObserver silent;
  Ranks ranks(options.communicator, options.reportFailure);
  try {
    return TrainingRun(model, data, evalData, options,
                       observer && ranks.isFirst() ? *observer : silent, stop)
        .run();
  } catch (const std::bad_alloc &) {
    return ranks.fail(
        Status(StatusCode::IO, "out of memory; try a smaller --batch-size"));
  }
}

} // namespace mpc::runtime::train
