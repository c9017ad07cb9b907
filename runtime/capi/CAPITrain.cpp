// Implements the C API's functions for weights in files, training and
// evaluation.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/VariableNames.h"
#include "runtime/capi/CAPIObjects.h"
#include "runtime/train/AveragedWeights.h"
#include "runtime/train/BatchTrainer.h"
#include "runtime/train/StreamedEvaluation.h"
#include "runtime/train/checkpoint/CheckpointFiles.h"
#include "runtime/train/checkpoint/ModelTemplate.h"
#include "runtime/train/checkpoint/SharedState.h"
#include "runtime/train/checkpoint/Weights.h"
#include "runtime/train/data/ArrayFile.h"
#include "runtime/train/data/Column.h"
#include "runtime/train/data/Dataset.h"
#include "runtime/train/evaluate/MetricNames.h"
#include "runtime/train/support/Ranks.h"

#include <cmath>

using namespace mpc::runtime;
using namespace mpc::runtime::train;
using mpc::capi::checkSize;
using mpc::capi::fillResult;
using mpc::capi::guarded;
using mpc::capi::nullArgument;
using mpc::capi::readOptions;

struct mpc_trainer {
  std::shared_ptr<Session> session;
  std::unique_ptr<BatchTrainer> trainer;
  /// The text that mpc_trainer_notes has returned.
  mutable std::string notes = "";
};

struct mpc_evaluation {
  std::shared_ptr<Session> session;
  std::unique_ptr<Trainee> trainee;
  StreamedEvaluation evaluation;
  /// The result of mpc_evaluation_finish; nullopt before.
  std::optional<EvalResult> result = std::nullopt;
};

//===----------------------------------------------------------------------===//
// Arguments and results
//===----------------------------------------------------------------------===//

static std::string textOrEmpty(const char *text) { return text ? text : ""; }

static double valueOrNaN(const std::optional<double> &value) {
  return value.value_or(std::nan(""));
}

/// Copies the names of the caller's arrays. Usage if a pointer is null.
static StatusOr<std::vector<InputBytes>> readInputs(const mpc_array *arrays,
                                                    size_t count) {
  std::vector<InputBytes> inputs;
  if (!arrays && count > 0)
    return nullArgument("arrays");
  for (size_t i = 0; i < count; ++i) {
    if (!arrays[i].name || !arrays[i].bytes)
      return nullArgument("name or bytes of an array");
    inputs.push_back({arrays[i].name, arrays[i].bytes, arrays[i].size});
  }
  return inputs;
}

static Status convertOptions(const mpc_trainer_options &given, uint64_t seed,
                             BatchTrainerOptions &options) {
  Schedule &schedule = options.loop.schedule;
  schedule.learningRate = given.learning_rate;
  schedule.minLearningRate = given.min_lr;
  schedule.warmupSteps = given.warmup_steps;
  if (given.lr_scheduler)
    if (Status status = parseSchedule(given.lr_scheduler, schedule);
        !status.ok())
      return Status(status.getCode(), "--lr-scheduler: " + status.message());
  if (given.best) {
    StatusOr<Monitor> monitor = parseMonitor(given.best);
    if (!monitor.ok())
      return Status(StatusCode::Usage, "--best: " + monitor.status().message());
    options.loop.best = *monitor;
  }
  if (given.early_stopping) {
    StatusOr<EarlyStopping> stopping = parseEarlyStopping(given.early_stopping);
    if (!stopping.ok())
      return Status(StatusCode::Usage,
                    "--early-stopping: " + stopping.status().message());
    options.loop.earlyStopping = *stopping;
  }
  if (given.total_steps < 0 || given.steps_per_epoch < 0)
    return Status(StatusCode::Usage, "total_steps and steps_per_epoch: "
                                     "expected numbers of at least 0");
  if (given.keep_checkpoints < 1)
    return Status(StatusCode::Usage,
                  "--keep-checkpoints: expected a number of at least 1");
  if (given.total_steps > 0)
    options.length.totalSteps = given.total_steps;
  if (given.steps_per_epoch > 0)
    options.length.stepsPerEpoch = given.steps_per_epoch;
  options.loop.seed = seed;
  options.loop.checkpointDir = textOrEmpty(given.checkpoint_dir);
  options.loop.keepCheckpoints = given.keep_checkpoints;
  options.loop.resume = textOrEmpty(given.resume);
  options.data = textOrEmpty(given.data);
  options.allowsNaN = given.allow_nan != 0;
  return Status();
}

static mpc_batch_result describeBatch(const BatchReport &report) {
  mpc_batch_result full = MPC_BATCH_RESULT_INIT;
  full.loss = report.loss;
  const StepReport step = report.step.value_or(StepReport());
  full.is_step = report.step.has_value();
  full.skipped = step.skipped;
  full.learning_rate = valueOrNaN(step.learningRate);
  full.accuracy = valueOrNaN(step.accuracy);
  full.grad_norm = valueOrNaN(step.gradNorm);
  full.loss_scale = valueOrNaN(step.lossScale);
  return full;
}

static mpc_progress describeProgress(const BatchTrainer &trainer) {
  const Progress &progress = trainer.progress();
  mpc_progress full = MPC_PROGRESS_INIT;
  full.step = progress.step;
  const int64_t begun = progress.batchInStep * trainer.rankCount();
  full.batches = progress.microStep + begun;
  full.samples = progress.samples + begun * trainer.batchSize();
  full.skipped = progress.skipped;
  full.epoch = progress.epoch;
  full.step_in_epoch = progress.stepInEpoch;
  full.batch_in_step = progress.batchInStep;
  full.learning_rate = trainer.learningRate();
  return full;
}

//===----------------------------------------------------------------------===//
// Labels
//===----------------------------------------------------------------------===//

Status mpc::capi::checkLabels(mpc_session &session, const char *function,
                              const char *name, const void *bytes,
                              size_t size) {
  const Function *called = session.artifact->plan().findFunction(function);
  if (!called)
    return Status();
  const auto input = std::find_if(
      called->inputs.begin(), called->inputs.end(),
      [&](const FunctionValue &value) { return value.name == name; });
  if (input == called->inputs.end() || input->role != Role::Label)
    return Status();
  const Buffer &buffer = called->buffers[input->buffer];
  if (runtime::isFloat(buffer.type) || size != size_t(buffer.bytes))
    return Status();
  if (!session.labels) {
    StatusOr<TraineeInfo> info = describeArtifact(*session.artifact);
    if (!info.ok())
      return info.status();
    session.labels =
        std::make_shared<const DatasetOptions>(datasetOptionsFor(*info));
  }
  const LabelRange &range = session.labels->rangeOf(name);
  if (!range.classes)
    return Status();
  IndexBox box;
  box.begin.assign(buffer.shape.size(), 0);
  box.end = buffer.shape;
  box.size = *range.classes;
  box.isLabel = true;
  box.ignored = range.ignoreIndex;
  Array labels;
  labels.name = name;
  labels.type = toElementType(buffer.type);
  labels.shape = buffer.shape;
  labels.data = static_cast<const std::byte *>(bytes);
  return checkIndices(
      {name, Role::Label, buffer.type, buffer.shape, {box}, input->batchAxis},
      labels);
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

/// Loads the arrays that have the ONNX name of a parameter or a statistic.
static Status loadNamed(Trainee &model, const std::vector<Array> &arrays) {
  std::vector<Array> weights;
  for (const Port &port : model.info().state) {
    if (!isModelRole(port.role))
      continue;
    const auto find = [&](std::string_view name) {
      return std::find_if(
          arrays.begin(), arrays.end(),
          [&](const Array &array) { return array.name == name; });
    };
    auto found = find(port.name);
    if (found == arrays.end())
      found = find(mpc::onnxNameOf(port.name));
    if (found == arrays.end())
      continue;
    weights.push_back(*found);
    weights.back().name = port.name;
  }
  return loadWeights(model, weights);
}

static Status loadFrom(Trainee &model, const std::string &path) {
  StatusOr<FileKind> kind = kindOf(path);
  if (!kind.ok())
    return kind.status();
  if (*kind == FileKind::Directory) {
    StatusOr<std::string> folder = findCheckpoint(path);
    if (!folder.ok())
      return folder.status();
    StatusOr<CheckpointContents> contents = readCheckpointFiles(*folder);
    if (!contents.ok())
      return contents.status();
    Status status = loadCheckpointWeights(model, *contents);
    return status.ok() ? status
                       : Status(StatusCode::Checkpoint,
                                *folder + ": " + status.message());
  }
  StatusOr<std::vector<Array>> arrays = readArrays(path);
  if (!arrays.ok())
    return arrays.status();
  Status status = loadNamed(model, *arrays);
  return status.ok() ? status
                     : Status(status.getCode(), path + ": " + status.message());
}

static Status writeTo(Trainee &model, const std::string &path) {
  StatusOr<std::vector<Array>> weights = readAveragedWeights(model);
  if (!weights.ok())
    return weights.status();
  std::vector<std::string> names;
  for (Array &array : *weights) {
    array.name = mpc::onnxNameOf(array.name);
    names.push_back(array.name);
  }
  Status status = checkArrayNames(path, names);
  return status.ok() ? writeArrays(path, *weights) : status;
}

/// Calls `use` with the session's model. If several ranks divide the state,
/// only rank 0 calls `use`, and the others take part. Fails on all ranks then.
template <typename Use>
static Status withModel(mpc_session &session, Use &&use) {
  const bool isSharded = session.session->shares().isSharded();
  StatusOr<std::unique_ptr<Trainee>> trainee = makeTrainee(*session.session);
  Ranks ranks(isSharded ? session.communicator : nullptr);
  if (Status status = ranks.settle(trainee.status()); !status.ok())
    return status;
  Trainee &model = **trainee;
  return ranks.settle(
      model.lead([&] { return ranks.isFirst() ? use(model) : Status(); }));
}

/// Gives all ranks the state of rank 0, if several ranks divide the state.
static Status shareLoaded(mpc_session &session) {
  if (!session.session->shares().isSharded())
    return Status();
  StatusOr<std::unique_ptr<Trainee>> trainee = makeTrainee(*session.session);
  Ranks ranks(session.communicator);
  Status status = ranks.settle(trainee.status());
  return status.ok() ? shareState(**trainee, ranks) : status;
}

extern "C" {

mpc_status *mpc_session_load_weights(mpc_session *session,
                                     const char *path) noexcept {
  return guarded([&] {
    if (!session || !path)
      return nullArgument("session or path");
    Status status = withModel(
        *session, [&](Trainee &model) { return loadFrom(model, path); });
    return status.ok() ? shareLoaded(*session) : status;
  });
}

mpc_status *mpc_session_write_weights(mpc_session *session,
                                      const char *path) noexcept {
  return guarded([&] {
    if (!session || !path)
      return nullArgument("session or path");
    return withModel(*session,
                     [&](Trainee &model) { return writeTo(model, path); });
  });
}

mpc_status *mpc_session_write_onnx(mpc_session *session,
                                   const char *path) noexcept {
  return guarded([&] {
    if (!session || !path)
      return nullArgument("session or path");
    return withModel(*session, [&](Trainee &model) {
      StatusOr<std::vector<Array>> weights = readAveragedWeights(model);
      return weights.ok() ? writeModel(*session->artifact, *weights, path)
                          : weights.status();
    });
  });
}

//===----------------------------------------------------------------------===//
// Training
//===----------------------------------------------------------------------===//

mpc_status *mpc_trainer_create(mpc_session *session,
                               const mpc_trainer_options *options,
                               mpc_trainer **trainer) noexcept {
  return guarded([&] {
    if (!session || !trainer)
      return nullArgument("session or trainer");
    mpc_trainer_options given = MPC_TRAINER_OPTIONS_INIT;
    Status status = readOptions(options, "mpc_trainer_options", given);
    BatchTrainerOptions converted;
    if (status.ok())
      status = convertOptions(given, session->seed, converted);
    converted.loop.communicator = session->communicator;
    StatusOr<std::unique_ptr<Trainee>> trainee = makeTrainee(*session->session);
    if (status.ok())
      status = trainee.status();
    if (status = Ranks(session->communicator).settle(status); !status.ok())
      return status;
    auto created =
        BatchTrainer::create(std::move(*trainee), std::move(converted));
    if (!created.ok())
      return created.status();
    *trainer = new mpc_trainer{session->session, std::move(*created)};
    return Status();
  });
}

void mpc_trainer_free(mpc_trainer *trainer) noexcept { delete trainer; }

mpc_status *mpc_trainer_run_batch(mpc_trainer *trainer, const mpc_array *arrays,
                                  size_t count,
                                  mpc_batch_result *result) noexcept {
  return guarded([&] {
    if (!trainer)
      return nullArgument("trainer");
    // Look at the struct first: a batch cannot be taken back.
    if (Status status = checkSize(result, "mpc_batch_result"); !status.ok())
      return status;
    StatusOr<std::vector<InputBytes>> inputs = readInputs(arrays, count);
    if (!inputs.ok())
      return inputs.status();
    StatusOr<BatchReport> report = trainer->trainer->run(*inputs);
    if (!report.ok())
      return report.status();
    return result
               ? fillResult(describeBatch(*report), "mpc_batch_result", result)
               : Status();
  });
}

mpc_status *mpc_trainer_get_progress(const mpc_trainer *trainer,
                                     mpc_progress *progress) noexcept {
  return guarded([&] {
    if (!trainer || !progress)
      return nullArgument("trainer or progress");
    return fillResult(describeProgress(*trainer->trainer), "mpc_progress",
                      progress);
  });
}

mpc_status *mpc_trainer_set_learning_rate(mpc_trainer *trainer,
                                          double learning_rate) noexcept {
  return guarded([&] {
    return trainer ? trainer->trainer->setLearningRate(learning_rate)
                   : nullArgument("trainer");
  });
}

mpc_status *mpc_trainer_save(mpc_trainer *trainer) noexcept {
  return guarded([&] {
    return trainer ? trainer->trainer->save() : nullArgument("trainer");
  });
}

mpc_status *mpc_trainer_check_ranks(mpc_trainer *trainer) noexcept {
  return guarded([&] {
    return trainer ? trainer->trainer->checkRanks() : nullArgument("trainer");
  });
}

mpc_status *mpc_trainer_count_evaluation(mpc_trainer *trainer,
                                         const mpc_evaluation *evaluation,
                                         mpc_verdict *verdict) noexcept {
  return guarded([&] {
    if (!trainer || !evaluation)
      return nullArgument("trainer or evaluation");
    if (Status status = checkSize(verdict, "mpc_verdict"); !status.ok())
      return status;
    if (!evaluation->result)
      return Status(StatusCode::Usage, "the evaluation is not finished");
    StatusOr<Verdict> counted = trainer->trainer->count(*evaluation->result);
    if (!counted.ok())
      return counted.status();
    mpc_verdict full = MPC_VERDICT_INIT;
    full.is_best = counted->isBest;
    full.should_stop = counted->shouldStop;
    return verdict ? fillResult(full, "mpc_verdict", verdict) : Status();
  });
}

mpc_status *mpc_trainer_restore_best(mpc_trainer *trainer,
                                     int64_t *step) noexcept {
  return guarded([&] {
    if (!trainer)
      return nullArgument("trainer");
    StatusOr<int64_t> restored = trainer->trainer->restoreBest();
    if (restored.ok() && step)
      *step = *restored;
    return restored.status();
  });
}

const char *mpc_trainer_notes(const mpc_trainer *trainer) noexcept {
  if (!trainer)
    return "";
  try {
    trainer->notes = trainer->trainer->notes();
    blankControls(trainer->notes, /*keepsLines=*/true);
    return trainer->notes.c_str();
  } catch (const std::bad_alloc &) {
    return "";
  }
}

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

mpc_status *mpc_evaluation_create(mpc_session *session,
                                  const mpc_evaluation_options *options,
                                  mpc_evaluation **evaluation) noexcept {
  return guarded([&] {
    if (!session || !evaluation)
      return nullArgument("session or evaluation");
    mpc_evaluation_options given = MPC_EVALUATION_OPTIONS_INIT;
    if (Status status = readOptions(options, "mpc_evaluation_options", given);
        !status.ok())
      return status;
    std::vector<std::string> texts;
    if (given.metrics)
      texts.push_back(given.metrics);
    StatusOr<std::vector<std::string>> metrics = parseMetricNames(texts);
    StatusOr<std::unique_ptr<Trainee>> trainee = makeTrainee(*session->session);
    if (Status status =
            Ranks(session->communicator)
                .settle(metrics.ok() ? trainee.status() : metrics.status());
        !status.ok())
      return status;
    StatusOr<StreamedEvaluation> created =
        StreamedEvaluation::create(**trainee, std::move(*metrics),
                                   given.allow_nan != 0, session->communicator);
    if (!created.ok())
      return created.status();
    *evaluation = new mpc_evaluation{session->session, std::move(*trainee),
                                     std::move(*created)};
    return Status();
  });
}

void mpc_evaluation_free(mpc_evaluation *evaluation) noexcept {
  delete evaluation;
}

mpc_status *mpc_evaluation_add(mpc_evaluation *evaluation,
                               const mpc_array *arrays, size_t count) noexcept {
  return guarded([&] {
    if (!evaluation)
      return nullArgument("evaluation");
    StatusOr<std::vector<InputBytes>> inputs = readInputs(arrays, count);
    return inputs.ok() ? evaluation->evaluation.add(*inputs) : inputs.status();
  });
}

mpc_status *mpc_evaluation_finish(mpc_evaluation *evaluation,
                                  mpc_evaluation_result *result) noexcept {
  return guarded([&] {
    if (!evaluation || !result)
      return nullArgument("evaluation or result");
    if (Status status = checkSize(result, "mpc_evaluation_result");
        !status.ok())
      return status;
    StatusOr<EvalResult> finished = evaluation->evaluation.finish();
    if (!finished.ok())
      return finished.status();
    mpc_evaluation_result full = MPC_EVALUATION_RESULT_INIT;
    full.loss = finished->loss;
    full.accuracy = valueOrNaN(finished->accuracy);
    full.samples = finished->samples;
    full.left_out = finished->leftOut;
    evaluation->result = std::move(*finished);
    return fillResult(full, "mpc_evaluation_result", result);
  });
}

mpc_status *mpc_evaluation_get(const mpc_evaluation *evaluation,
                               const char *name, double *value) noexcept {
  return guarded([&] {
    if (!evaluation || !name || !value)
      return nullArgument("evaluation, name or value");
    if (!evaluation->result)
      return Status(StatusCode::Usage, "the evaluation is not finished");
    const EvalResult &result = *evaluation->result;
    std::optional<double> found;
    if (std::string_view(name) == "loss")
      found = result.loss;
    else if (std::string_view(name) == "accuracy")
      found = result.accuracy;
    for (const auto &[metric, figure] : result.metrics)
      if (metric == name)
        found = figure;
    if (!found)
      return Status(StatusCode::Usage, "the evaluation has not measured '" +
                                           std::string(name) + "'");
    *value = *found;
    return Status();
  });
}

} // extern "C"
