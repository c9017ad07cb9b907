// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/BatchTrainer.h"

#include "runtime/train/RunPaths.h"
#include "runtime/train/StepRunner.h"
#include "runtime/train/checkpoint/SharedState.h"
#include "runtime/train/checkpoint/Weights.h"
#include "runtime/train/support/Text.h"

#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <xxhash.h>

namespace mpc::runtime::train {

//===----------------------------------------------------------------------===//
// Creation
//===----------------------------------------------------------------------===//

/// Describes the data that a program names. Only the program knows their order.
static RunData describeNamed(const std::string &name, int64_t batchSize) {
  char digest[17];
  std::snprintf(
      digest, sizeof(digest), "%016llx",
      static_cast<unsigned long long>(XXH3_64bits(name.data(), name.size())));
  return {digest, name, batchSize, "that of the program",
          "left to the program"};
}

StatusOr<std::unique_ptr<BatchTrainer>>
BatchTrainer::create(std::unique_ptr<Trainee> model,
                     BatchTrainerOptions options) {
  std::unique_ptr<BatchTrainer> trainer(
      new BatchTrainer(std::move(model), std::move(options)));
  if (Status status = trainer->begin(); !status.ok())
    return status;
  return trainer;
}

Status BatchTrainer::begin() {
  if (Status status = ranks.settle(prepare()); !status.ok())
    return status;
  if (Status status = checkSameRun(); !status.ok())
    return status;
  if (Status status =
          ranks.settle(model->lead([this] { return openCheckpoints(); }));
      !status.ok())
    return status;
  return shareStart();
}

/// Checks model and options before a file is opened.
Status BatchTrainer::prepare() {
  const TraineeInfo &info = model->info();
  StatusOr<FunctionPorts> inputs = trainingInputs(info);
  if (!inputs.ok())
    return inputs.status();
  ports = std::move(*inputs);
  if (Status status = checkDataParallel(info, options.loop); !status.ok())
    return status;
  StatusOr<int64_t> batch = findBatchSize(ports);
  if (!batch.ok())
    return batch.status();
  const Schedule &schedule = options.loop.schedule;
  if (Status status = schedule.check(); !status.ok())
    return status;
  if (schedule.hasEnd() && options.length.totalSteps == kUnlimited)
    return Status(StatusCode::Usage,
                  "--lr-scheduler " + schedule.name() +
                      " needs to know the last step; set total_steps");
  data = describeNamed(options.data, *batch);
  data.ranks = ranks.count();
  batchOptions = datasetOptionsFor(info);
  batchOptions.isPart = true;
  batchOptions.preparation.allowsNaN = options.allowsNaN;
  StatusOr<StepRunner> steps = StepRunner::create(*model);
  if (!steps.ok())
    return steps.status();
  runner.emplace(std::move(*steps), *model, options.loop, data.batchSize,
                 options.length, ranks);
  return Status();
}

/// Checks that all ranks have equal models, options and names of data.
Status BatchTrainer::checkSameRun() {
  RunIdentity facts = identity();
  facts.merge(settingsOf(model->info(), options.loop, data.description,
                         options.length.totalSteps));
  facts["recipe"] = model->info().recipe;
  facts["checkpoints"] = saves() ? "saved" : "not saved";
  facts["steps of an epoch"] = std::to_string(options.length.stepsPerEpoch);
  return checkSameFacts(facts, ranks);
}

/// Opens the folder of checkpoints and resumes, on the first rank.
Status BatchTrainer::openCheckpoints() {
  if (!ranks.isFirst())
    return Status();
  TrainOptions &loop = options.loop;
  if (!loop.resume.empty() && loop.resume != "auto") {
    StatusOr<std::string> found = findCheckpoint(loop.resume);
    if (!found.ok())
      return found.status();
    loop.resume = *found;
  }
  if (Status status = checkPaths(loop); !status.ok())
    return status;
  if (saves()) {
    StatusOr<CheckpointStore> store = CheckpointStore::open(loop.checkpointDir);
    if (!store.ok())
      return store.status();
    checkpoints.emplace(std::move(*store));
  }
  return resume();
}

/// Continues from a checkpoint, if the options say so.
Status BatchTrainer::resume() {
  const TrainOptions &loop = options.loop;
  StatusOr<RunStart> start = resumeRun(
      *model, loop, checkpoints ? &*checkpoints : nullptr, identity(),
      [this](const Progress &) {
        return settingsOf(model->info(), options.loop, data.description,
                          options.length.totalSteps);
      },
      [this](const std::string &text) { note(text); });
  if (!start.ok())
    return start.status();
  current = std::move(start->progress);
  if (!ranks.isSingle() && current.batchInStep > 0) {
    note("the checkpoint is from within step " +
         std::to_string(current.step + 1) +
         ", which begins again on several ranks");
    if (Status status = beginStepAgain(*model, current); !status.ok())
      return status;
  }
  // The program may count epochs differently than before.
  current.epoch = current.step / options.length.stepsPerEpoch;
  current.stepInEpoch = current.step % options.length.stepsPerEpoch;
  current.sampleInEpoch = current.stepInEpoch * runner->samplesPerStep();
  if (start->isSaved)
    lastSaved = current.step;
  rules().adopt(current.evaluations);
  if (Status status = findBest(); !status.ok())
    return status;
  if (!checkpoints)
    return Status();
  StatusOr<std::map<std::string, std::string>> broken =
      findNonFiniteWeights(*model);
  if (!broken.ok())
    return broken.status();
  std::set<std::string> names;
  for (const auto &[name, description] : *broken)
    names.insert(name);
  checkpoints->allowNonFinite(std::move(names));
  return Status();
}

/// Finds the best weights of an earlier part of the run.
Status BatchTrainer::findBest() {
  const TrainOptions &loop = options.loop;
  if (!loop.best)
    return Status();
  best.emplace(*model, *loop.best, checkpoints ? &*checkpoints : nullptr,
               loop.keepCheckpoints);
  const std::string resumed = loop.resume == "auto" ? "" : loop.resume;
  return best->find(current.evaluations.best, current.step, resumed, identity(),
                    [this](const std::string &text) { note(text); });
}

/// Gives all ranks the place and the state in which the first rank starts.
Status BatchTrainer::shareStart() {
  if (Status status = shareProgress(current, ranks); !status.ok())
    return status;
  if (Status status = ranks.share(&lastSaved, sizeof(lastSaved)); !status.ok())
    return status;
  return shareState(*model, ranks);
}

void BatchTrainer::note(const std::string &text) {
  noted += (noted.empty() ? "" : "\n") + text;
}

//===----------------------------------------------------------------------===//
// Steps and checkpoints
//===----------------------------------------------------------------------===//

/// Checks that all ranks have the same `values`, described by `what`.
Status BatchTrainer::checkSameValues(const std::vector<double> &values,
                                     const char *what) {
  StatusOr<std::vector<double>> all = ranks.gather(values);
  if (!all.ok())
    return all.status();
  for (size_t i = 0; i < all->size(); ++i) {
    const size_t own = i % values.size();
    // Compare bits: NaN is equal to NaN here.
    if (std::memcmp(&(*all)[i], &(*all)[own], sizeof(double)) != 0)
      return Status(StatusCode::Usage,
                    std::string("expected ") + what +
                        " equal to that of rank 0 on all ranks; rank " +
                        std::to_string(i / values.size()) + " has another");
  }
  return Status();
}

Status BatchTrainer::setLearningRate(double rate) {
  Schedule schedule = options.loop.schedule;
  schedule.learningRate = rate;
  Status status = ranks.settle(schedule.check());
  if (status.ok())
    status = checkSameValues({rate}, "a learning rate");
  if (status.ok())
    options.loop.schedule = schedule;
  return status;
}

StatusOr<BatchReport> BatchTrainer::train(const Dataset &batch) {
  std::vector<int64_t> positions(static_cast<size_t>(data.batchSize));
  std::iota(positions.begin(), positions.end(), int64_t(0));
  // The program may have set the learning rate of the session meanwhile.
  runner->forgetScalars();
  StatusOr<double> loss =
      runner->runBatch(current, batch, positions.data(), [] {
        return BatchSamples(); // the next batch is not known yet
      });
  if (!loss.ok())
    return loss.status();
  BatchReport report;
  report.loss = *loss;
  if (current.batchInStep < runner->batches())
    return report;
  StatusOr<StepReport> step = runner->finish(current);
  if (!step.ok())
    return step.status();
  isLossFinite = std::isfinite(step->loss);
  report.loss = step->loss;
  report.step = std::move(*step);
  return report;
}

/// Checks a batch, and makes a data set of it.
StatusOr<Dataset> BatchTrainer::read(const std::vector<InputBytes> &given) {
  StatusOr<std::vector<Array>> arrays = toArrays(given, ports);
  if (!arrays.ok())
    return arrays.status();
  StatusOr<Dataset> batch =
      Dataset::create(std::move(*arrays), ports, batchOptions);
  if (batch.ok() && batch->size() != data.batchSize)
    return invalid("the artifact trains on batches of " +
                   counted(data.batchSize, "sample") + ", got " +
                   std::to_string(batch->size()));
  return batch;
}

StatusOr<BatchReport> BatchTrainer::run(const std::vector<InputBytes> &given) {
  noted.clear();
  if (!failed.ok())
    return failed;
  StatusOr<Dataset> batch = read(given);
  // Without agreement, the other ranks would wait for this rank's gradients.
  if (Status status = ranks.settle(batch.status()); !status.ok())
    return status;
  // Counts unless `train` returns: an exception, too, leaves state half
  // written.
  failed = Status(StatusCode::IO, "memory was too short for an earlier batch");
  StatusOr<BatchReport> report = train(*batch);
  failed = report.status();
  return report;
}

Status BatchTrainer::save() {
  noted.clear();
  if (!failed.ok())
    return failed;
  if (!saves())
    return Status(StatusCode::Usage, "there is no --checkpoint-dir to save "
                                     "into");
  return write();
}

Status BatchTrainer::checkRanks() {
  noted.clear();
  return failed.ok() ? checkSameState(*model, ranks) : failed;
}

/// Writes a checkpoint of the present place, unless there is one.
Status BatchTrainer::write() {
  if (lastSaved == current.step)
    return Status();
  if (!ranks.isSingle() && current.batchInStep > 0)
    return Status(StatusCode::Usage,
                  "several ranks save only after a whole step: each has a part "
                  "of the gradients");
  // After a non-finite loss, the weights may be non-finite too.
  if (!isLossFinite)
    return Status(StatusCode::Numeric,
                  "checkpoint not saved: the loss is not finite");
  if (Status status = checkSameState(*model, ranks); !status.ok())
    return status;
  current.settings = settingsOf(model->info(), options.loop, data.description,
                                options.length.totalSteps);
  Status status = ranks.settle(model->lead([this] {
    return checkpoints
               ? checkpoints->save(
                     *model, current, identity(), options.loop.keepCheckpoints,
                     [this](const std::string &text) { note(text); })
               : Status();
  }));
  if (status.ok())
    lastSaved = current.step;
  return status;
}

//===----------------------------------------------------------------------===//
// Evaluations
//===----------------------------------------------------------------------===//

/// Keeps the present weights as the best so far.
Status BatchTrainer::keepBest() {
  if (saves())
    if (Status status = write(); !status.ok())
      note("checkpoint not saved: " + status.message());
  if (!saves() || lastSaved != current.step)
    return ranks.settle(
        model->lead([this] { return best ? best->copy() : Status(); }));
  if (best)
    if (Status status = best->mark(current.step); !status.ok())
      note("the best checkpoint is not marked: " + status.message());
  return Status();
}

StatusOr<Verdict> BatchTrainer::count(const EvalResult &evaluation) {
  noted.clear();
  if (!failed.ok())
    return failed;
  if (!rules().any())
    return Status(StatusCode::Usage,
                  "no option depends on evaluations: set --best, "
                  "--early-stopping or the schedule plateau");
  if (current.batchInStep > 0)
    return Status(StatusCode::Usage,
                  "an evaluation counts only after a whole step");
  options.loop.evalMetrics.clear();
  std::vector<double> figures = {evaluation.loss,
                                 evaluation.accuracy.value_or(NAN)};
  for (const auto &[name, value] : evaluation.metrics) {
    options.loop.evalMetrics.push_back(name);
    figures.push_back(value);
  }
  if (Status status =
          ranks.settle(rules().check(model->info(), /*evaluates=*/true));
      !status.ok())
    return status;
  // The exchange of figures needs the same number on all ranks.
  if (Status status =
          checkSameValues({double(figures.size())}, "a number of metrics");
      !status.ok())
    return status;
  if (Status status = checkSameValues(figures, "an evaluation"); !status.ok())
    return status;
  Verdict verdict;
  verdict.isBest =
      rules().count(evaluation, current.step,
                    /*outsideSchedule=*/false, current.evaluations);
  verdict.shouldStop = rules().isOver(current.evaluations);
  // A checkpoint of this step was written before the evaluation.
  if (checkpoints && lastSaved == current.step)
    if (Status status = checkpoints->amend(current); !status.ok())
      note("the checkpoint lacks its evaluation: " + status.message());
  if (verdict.isBest)
    if (Status status = keepBest(); !status.ok())
      return status;
  return verdict;
}

StatusOr<int64_t> BatchTrainer::restoreBest() {
  noted.clear();
  if (!failed.ok())
    return failed;
  if (!options.loop.best)
    return Status(StatusCode::Usage, "there is no --best to restore");
  if (!current.evaluations.best.best)
    return Status(StatusCode::Numeric, "no evaluation had a finite value");
  const std::string last = checkpoints && lastSaved > 0
                               ? checkpoints->pathOf(lastSaved)
                               : options.loop.checkpointDir;
  auto restore = [&] {
    return best ? best->restore(current.evaluations.best, identity(), last,
                                [this](const std::string &text) { note(text); })
                      .status()
                : Status();
  };
  if (Status status = ranks.settle(model->lead(restore)); !status.ok())
    return status;
  if (Status status = shareState(*model, ranks); !status.ok())
    return status;
  failed = Status(StatusCode::Usage, "the best weights are restored; to train "
                                     "on, create another trainer");
  return current.evaluations.best.bestStep;
}

} // namespace mpc::runtime::train
