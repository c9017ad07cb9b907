// The loop itself. `TrainingRun` holds what lives from the first step to the
// last; its `run` reads as the order of events.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/Trainer.h"

#include "runtime/train/Checkpoint.h"
#include "runtime/train/Metrics.h"
#include "runtime/train/Permutation.h"
#include "runtime/train/StepRunner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <new>
#include <numeric>
#include <sys/resource.h>

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
                                                   : Digits::Single) {}

  StatusOr<TrainResult> run();

private:
  Status prepare();
  Status planSteps();
  Status checkDirectory() const;
  Status noteLaterCheckpoints() const;
  Status resume();
  Status openMetrics();
  Status train();
  std::vector<int64_t> epochOrder() const;
  Status trainEpoch();
  Status attempt(const std::vector<int64_t> &order);
  StatusOr<StepReport> runStep(const std::vector<int64_t> &order);
  Status guard(const StepReport &report);
  Status evaluateNow();
  void save();
  void record(const MetricsLine &line);
  void finish(const Status &status);
  RunIdentity identity() const;
  bool stopped() const { return stop && stop->load() != 0; }
  bool done() const { return progress.step >= totalSteps || stopped(); }

  Trainee &model;
  const Dataset &data;
  const Dataset *evalData;
  const TrainOptions &options;
  TrainObserver &observer;
  const std::atomic<int> *stop;
  const Digits digits;

  std::optional<StepRunner> runner;
  int64_t stepsPerEpoch = 0;
  int64_t totalSteps = 0;
  Progress progress;
  int64_t firstStep = 0;
  int64_t lastSaved = -1;
  int64_t nonfiniteInARow = 0;
  int64_t skippedInARow = 0;
  std::vector<double> stepTimes;
  std::optional<CheckpointStore> checkpoints;
  std::unique_ptr<MetricsFile> metrics;
  TrainResult result;
};

} // namespace

//===----------------------------------------------------------------------===//
// Before the first step
//===----------------------------------------------------------------------===//

Status TrainingRun::planSteps() {
  const int64_t perStep = data.batchSize() * runner->batches();
  const int64_t rest = data.size() % perStep;
  stepsPerEpoch = data.size() / perStep;
  if (rest != 0 && options.lastBatch == LastBatch::Keep)
    ++stepsPerEpoch;
  else if (rest != 0 && stepsPerEpoch > 0)
    observer.note("each epoch leaves out " + std::to_string(rest) + " of " +
                  std::to_string(data.size()) +
                  " samples, which fill no step; --last-batch keep uses them");
  if (stepsPerEpoch == 0)
    return Status(StatusCode::InvalidInput,
                  data.source() + ": has " + std::to_string(data.size()) +
                      " samples, one step takes " + std::to_string(perStep) +
                      "; use a smaller --batch-size or --last-batch keep");
  const int64_t unlimited = std::numeric_limits<int64_t>::max();
  const int64_t epochs =
      options.epochs ? options.epochs : (options.maxSteps ? 0 : 1);
  totalSteps = options.maxSteps ? options.maxSteps : unlimited;
  int64_t inEpochs;
  if (epochs == 0 || __builtin_mul_overflow(epochs, stepsPerEpoch, &inEpochs))
    inEpochs = unlimited;
  totalSteps = std::min(totalSteps, inEpochs);
  return Status();
}

/// Two runs with the same identity and number of steps end in the same bits.
RunIdentity TrainingRun::identity() const {
  const TraineeInfo &info = model.info();
  return {{"model", info.modelHash},
          {"precision", info.precision},
          {"recipe", info.recipe},
          {"data", data.fingerprint()},
          {"batch size", std::to_string(data.batchSize())},
          {"seed", std::to_string(options.seed)},
          {"order", options.shuffle ? "shuffled" : "that of the file"},
          {"last batch",
           options.lastBatch == LastBatch::Keep ? "kept" : "dropped"}};
}

/// A run prunes its directory, so it takes none that has another's checkpoints.
Status TrainingRun::checkDirectory() const {
  if (!checkpoints || options.resume == "auto")
    return Status();
  const std::filesystem::path resumed(options.resume);
  std::error_code ignored;
  if (!resumed.empty() && std::filesystem::equivalent(
                              resumed / "..", options.checkpointDir, ignored))
    return Status();
  StatusOr<std::vector<int64_t>> steps = checkpoints->list();
  if (!steps.ok())
    return steps.status();
  if (steps->empty())
    return Status();
  return Status(StatusCode::Usage,
                options.checkpointDir +
                    ": has checkpoints of an earlier run; continue it with "
                    "--resume auto or choose another directory");
}

/// Later checkpoints than the one that is continued stay until this run makes
/// its own of their names.
Status TrainingRun::noteLaterCheckpoints() const {
  if (!checkpoints)
    return Status();
  StatusOr<std::vector<int64_t>> steps = checkpoints->list();
  if (!steps.ok())
    return steps.status();
  if (!steps->empty() && steps->back() > progress.step)
    observer.note(checkpoints->pathOf(steps->back()) + " is later than " +
                  options.resume +
                  "; until this run is past it, --resume auto takes it");
  return Status();
}

Status TrainingRun::resume() {
  const bool automatic = options.resume == "auto";
  if (automatic && !checkpoints)
    return Status(StatusCode::Usage,
                  "--resume auto needs --checkpoint-dir to look in");
  if (Status status = checkDirectory(); !status.ok())
    return status;
  if (!options.resume.empty() && !automatic) {
    StatusOr<Progress> restored =
        restoreCheckpoint(options.resume, model, identity());
    if (!restored.ok())
      return restored.status();
    progress = *restored;
    if (Status status = noteLaterCheckpoints(); !status.ok())
      return status;
  } else if (automatic) {
    StatusOr<std::optional<Progress>> restored = checkpoints->restoreNewest(
        model, identity(),
        [&](const std::string &text) { observer.note(text); });
    if (!restored.ok())
      return restored.status();
    if (!*restored)
      observer.note("no checkpoint to resume from in " + options.checkpointDir +
                    "; starting anew");
    progress = restored->value_or(Progress());
  }
  if (progress.step / stepsPerEpoch != progress.epoch ||
      progress.step % stepsPerEpoch != progress.stepInEpoch)
    return Status(StatusCode::Checkpoint,
                  "the checkpoint's position, step " +
                      std::to_string(progress.stepInEpoch) + " of epoch " +
                      std::to_string(progress.epoch) +
                      ", does not exist in this run");
  firstStep = progress.step;
  if (firstStep > 0)
    lastSaved = firstStep;
  return Status();
}

Status TrainingRun::openMetrics() {
  if (options.metrics.empty())
    return Status();
  StatusOr<std::unique_ptr<MetricsFile>> file =
      MetricsFile::open(options.metrics, /*append=*/firstStep > 0);
  if (!file.ok())
    return file.status();
  metrics = std::move(*file);
  const TraineeInfo &info = model.info();
  MetricsLine line("start", digits);
  line.add("version", options.version)
      .add("producer", info.producer)
      .add("target", info.target)
      .add("precision", info.precision)
      .add("seed", options.seed)
      .add("model", info.modelHash)
      .add("plan", info.planHash)
      .add("data", data.fingerprint())
      .add("samples", data.size())
      .add("eval_samples", evalData ? evalData->size() : int64_t(0))
      .add("batch_size", data.batchSize())
      .add("accumulate", runner->batches())
      .add("steps", totalSteps)
      .add("state_bytes", info.stateBytes)
      .add("activation_bytes", info.activationBytes)
      .add("resumed_from",
           firstStep > 0 ? std::optional<int64_t>(firstStep) : std::nullopt);
  return metrics->write(line);
}

Status TrainingRun::prepare() {
  StatusOr<StepRunner> found = StepRunner::create(model);
  if (!found.ok())
    return found.status();
  runner = *found;
  if (Status status = planSteps(); !status.ok())
    return status;
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
  StartReport report;
  report.samples = data.size();
  report.evalSamples = evalData ? evalData->size() : 0;
  report.batchSize = data.batchSize();
  report.accumulate = runner->batches();
  report.stepsPerEpoch = stepsPerEpoch;
  report.totalSteps = totalSteps;
  report.firstStep = firstStep;
  report.memoryBytes = model.memoryBytes();
  observer.started(report);
  return Status();
}

//===----------------------------------------------------------------------===//
// One step
//===----------------------------------------------------------------------===//

/// Runs one attempt; `order` is the epoch's.
StatusOr<StepReport> TrainingRun::runStep(const std::vector<int64_t> &order) {
  const auto start = std::chrono::steady_clock::now();
  StepReport report;
  // A skipped attempt is no step of the schedule.
  report.learningRate =
      options.schedule.at(progress.step - progress.skipped, totalSteps);
  const int64_t count = data.batchSize() * runner->batches();
  std::vector<int64_t> positions(static_cast<size_t>(count));
  int64_t next = progress.stepInEpoch * count;
  for (int64_t &position : positions)
    position = order[size_t(next++ % data.size())];
  StatusOr<StepOutcome> outcome =
      runner->run(data, positions, report.learningRate, options.seed);
  if (!outcome.ok())
    return outcome.status();
  report.loss = outcome->loss;
  report.gradNorm = outcome->gradNorm;
  report.lossScale = outcome->lossScale;
  report.skipped = outcome->skipped;
  report.stepMs = std::chrono::duration<double, std::milli>(
                      std::chrono::steady_clock::now() - start)
                      .count();
  return report;
}

/// Ends a run that no longer learns.
Status TrainingRun::guard(const StepReport &report) {
  skippedInARow = report.skipped ? skippedInARow + 1 : 0;
  const bool broken = !report.skipped && !std::isfinite(report.loss);
  nonfiniteInARow = broken ? nonfiniteInARow + 1 : 0;
  const std::string at = "step " + std::to_string(report.step) + ": ";
  if (options.maxNonfinite > 0 && nonfiniteInARow >= options.maxNonfinite)
    return Status(StatusCode::Numeric,
                  at + "the loss has not been finite for " +
                      std::to_string(nonfiniteInARow) +
                      " steps; try a smaller --lr, --gradient-clip-val, or "
                      "another --precision");
  if (options.maxSkipped > 0 && skippedInARow >= options.maxSkipped)
    return Status(StatusCode::Numeric,
                  at + std::to_string(skippedInARow) +
                      " steps in a row were skipped for gradients that are "
                      "not finite" +
                      (report.lossScale ? ", at a loss scale of " +
                                              std::to_string(*report.lossScale)
                                        : "") +
                      "; try a smaller --lr, --loss-scale dynamic, or "
                      "bf16-mixed");
  return Status();
}

Status TrainingRun::attempt(const std::vector<int64_t> &order) {
  StatusOr<StepReport> ran = runStep(order);
  if (!ran.ok())
    return ran.status();
  StepReport &report = *ran;
  ++progress.step;
  ++progress.stepInEpoch;
  progress.microStep += runner->batches();
  progress.samples += runner->batches() * data.batchSize();
  progress.skipped += report.skipped;
  report.step = progress.step;
  report.microStep = progress.microStep;
  report.epoch = progress.epoch;
  report.samples = progress.samples;
  report.skippedTotal = progress.skipped;
  stepTimes.push_back(report.stepMs);
  result.finalLoss = report.loss;
  record(MetricsLine("train", digits)
             .add("step", report.step)
             .add("micro_step", report.microStep)
             .add("epoch", report.epoch)
             .add("samples", report.samples)
             .add("loss", report.loss)
             .add("lr", report.learningRate)
             .add("grad_norm", report.gradNorm)
             .add("loss_scale", report.lossScale)
             .add("skipped", report.skipped)
             .add("skipped_total", report.skippedTotal)
             .add("step_ms", report.stepMs));
  observer.stepped(report);
  return guard(report);
}

//===----------------------------------------------------------------------===//
// Epochs, evaluation, checkpoints
//===----------------------------------------------------------------------===//

/// The samples of the present epoch, the same whenever it is asked for.
std::vector<int64_t> TrainingRun::epochOrder() const {
  if (options.shuffle)
    return permutation(data.size(), options.seed, Stream::Epoch,
                       uint64_t(progress.epoch));
  std::vector<int64_t> order(static_cast<size_t>(data.size()));
  std::iota(order.begin(), order.end(), int64_t(0));
  return order;
}

Status TrainingRun::trainEpoch() {
  const std::vector<int64_t> order = epochOrder();
  while (progress.stepInEpoch < stepsPerEpoch && !done()) {
    if (Status status = attempt(order); !status.ok())
      return status;
    if (options.checkpointEvery > 0 &&
        progress.step % options.checkpointEvery == 0 &&
        progress.stepInEpoch < stepsPerEpoch)
      save();
  }
  return Status();
}

Status TrainingRun::train() {
  while (!done()) {
    if (Status status = trainEpoch(); !status.ok())
      return status;
    if (progress.stepInEpoch == stepsPerEpoch) {
      ++progress.epoch;
      progress.stepInEpoch = 0;
      if (!stopped())
        if (Status status = evaluateNow(); !status.ok())
          return status;
      if (options.checkpointEvery == 0 ||
          progress.step % options.checkpointEvery == 0)
        save();
    }
  }
  const bool midEpoch = progress.stepInEpoch > 0;
  if (!stopped() && (midEpoch || !result.evaluation))
    if (Status status = evaluateNow(); !status.ok())
      return status;
  save();
  if (stopped() && !checkpoints)
    observer.note("stopped without a checkpoint: there is no "
                  "--checkpoint-dir");
  return Status();
}

Status TrainingRun::evaluateNow() {
  if (!evalData)
    return Status();
  StatusOr<EvalResult> evaluation = evaluate(model, *evalData);
  if (!evaluation.ok())
    return evaluation.status();
  // Evaluations are reported by the epoch whose training they follow.
  const int64_t epoch =
      progress.stepInEpoch > 0 ? progress.epoch : progress.epoch - 1;
  result.evaluation = *evaluation;
  record(MetricsLine("eval", digits)
             .add("step", progress.step)
             .add("epoch", epoch)
             .add("eval_loss", evaluation->loss)
             .add("eval_accuracy", evaluation->accuracy)
             .add("eval_samples", evaluation->samples));
  observer.evaluated(progress.step, epoch, *evaluation);
  if (evaluation->leftOut > 0)
    observer.note("the evaluation leaves out " +
                  std::to_string(evaluation->leftOut) +
                  " samples: the model has no loss per sample");
  return Status();
}

/// Saves unless that step has been saved. A run outlives a full disk.
void TrainingRun::save() {
  if (!checkpoints || lastSaved == progress.step || progress.step == 0)
    return;
  // Weights that a non-finite update may have reached replace no good ones.
  if (nonfiniteInARow > 0) {
    observer.note("checkpoint not saved: the loss is not finite");
    return;
  }
  Status status =
      checkpoints->save(model, progress, identity(), options.keepCheckpoints);
  if (!status.ok()) {
    observer.note("checkpoint not saved: " + status.message());
    if (result.deferred.ok())
      result.deferred = status;
    return;
  }
  lastSaved = progress.step;
  const std::string path = checkpoints->pathOf(progress.step);
  record(MetricsLine("checkpoint", digits)
             .add("step", progress.step)
             .add("path", path));
  observer.checkpointed(progress.step, path);
}

void TrainingRun::record(const MetricsLine &line) {
  if (!metrics)
    return;
  Status status = metrics->write(line);
  if (status.ok())
    return;
  observer.note("metrics end here: " + status.message());
  if (result.deferred.ok())
    result.deferred = status;
  metrics.reset();
}

static size_t peakMemory() {
  struct rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? size_t(usage.ru_maxrss) * 1024
                                             : 0;
}

static double medianOf(std::vector<double> values) {
  if (values.empty())
    return 0;
  const auto middle = values.begin() + std::ptrdiff_t(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2)
    return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

/// Fills in the result and writes the "end" event.
void TrainingRun::finish(const Status &status) {
  result.steps = progress.step;
  result.skipped = progress.skipped;
  result.epochs = progress.epoch;
  result.samples = progress.samples;
  result.medianStepMs = medianOf(stepTimes);
  result.peakMemoryBytes = peakMemory();
  // A flag raised after the last step interrupted nothing.
  if (stopped() && progress.step < totalSteps)
    result.stopSignal = stop->load();
  int exitCode =
      int(status.ok() ? result.deferred.getCode() : status.getCode());
  // An interruption that was saved, which a failed write is not.
  if (exitCode == 0 && result.stopSignal)
    exitCode = 128 + result.stopSignal;
  MetricsLine line("end", digits);
  line.add("exit_code", int64_t(exitCode))
      .add("steps", result.steps)
      .add("skipped_total", result.skipped)
      .add("epochs", result.epochs)
      .add("samples", result.samples)
      .add("median_step_ms", result.medianStepMs)
      .add("peak_memory_bytes", int64_t(result.peakMemoryBytes));
  if (!status.ok())
    line.add("message", status.message());
  record(line);
}

StatusOr<TrainResult> TrainingRun::run() {
  if (Status status = prepare(); !status.ok())
    return status;
  const Status status = train();
  finish(status);
  if (!status.ok())
    return status;
  return result;
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
