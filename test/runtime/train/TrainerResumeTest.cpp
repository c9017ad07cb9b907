// Tests saving and exact resumption.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/TrainerFixture.h"

#include "runtime/train/checkpoint/Checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <filesystem>

namespace mpc::runtime::train {
namespace {

using nlohmann::json;

class TrainerResume : public Trainer {};

TEST_F(TrainerResume, SavesAtTheEndOfEachEpoch) {
  ToyModel model;
  options.epochs = 3;
  options.checkpointDir = directory / "c";
  ASSERT_TRUE(run(model).ok());
  EXPECT_EQ(recorder.saves, (std::vector<int64_t>{5, 10, 15}));
}

TEST_F(TrainerResume, SavesEverySoManyStepsAndAtTheEnd) {
  ToyModel model;
  options.maxSteps = 8;
  options.checkpointEvery = 3;
  options.checkpointDir = directory / "c";
  ASSERT_TRUE(run(model).ok());
  EXPECT_EQ(recorder.saves, (std::vector<int64_t>{3, 6, 8}));
}

/// Trains `total` steps in one run and in two runs with a break after `first`.
/// Compares every bit of state and every loss.
void expectExactResume(TrainOptions options, int64_t accumulate, int64_t first,
                       int64_t total, const std::string &directory) {
  const auto disturb = [](int64_t base) {
    return [base](int64_t attempt, double &, bool &finite) {
      finite = (base + attempt) % 5 != 0;
    };
  };
  Recorder whole, before, after;
  options.maxSteps = total;
  ToyModel reference(accumulate);
  reference.disturb = disturb(0);
  ASSERT_TRUE(
      train(reference, toyData(reference, 50), nullptr, options, &whole).ok());

  options.checkpointDir = directory;
  options.maxSteps = first;
  ToyModel halfway(accumulate);
  halfway.disturb = disturb(0);
  ASSERT_TRUE(
      train(halfway, toyData(halfway, 50), nullptr, options, &before).ok());

  options.maxSteps = total;
  options.resume = "auto";
  ToyModel resumed(accumulate);
  resumed.disturb = disturb(first);
  StatusOr<TrainResult> result =
      train(resumed, toyData(resumed, 50), nullptr, options, &after);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(after.start.firstStep, first);
  EXPECT_EQ(stateOf(resumed), stateOf(reference)) << first;
  ASSERT_EQ(int64_t(after.steps.size()), total - first);
  for (size_t i = 0; i < after.steps.size(); ++i) {
    const StepReport &a = after.steps[i];
    const StepReport &b = whole.steps[size_t(first) + i];
    EXPECT_EQ(a.loss, b.loss);
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.samples, b.samples);
    EXPECT_EQ(a.epoch, b.epoch);
    EXPECT_EQ(a.skippedTotal, b.skippedTotal);
  }
}

TEST_F(TrainerResume, ResumesExactlyFromAnyStep) {
  for (int64_t first : {1, 5, 11, 12, 13, 24, 30}) {
    TemporaryDirectory run;
    expectExactResume(options, 1, first, 36, run / "c");
  }
}

TEST_F(TrainerResume, ResumesExactlyWithAccumulation) {
  for (int64_t first : {1, 6, 7}) {
    TemporaryDirectory run;
    expectExactResume(options, 2, first, 18, run / "c");
  }
}

TEST_F(TrainerResume, KilledAtAnyTimeItResumesToTheSameBits) {
  options.maxSteps = 120;
  options.checkpointEvery = 2;
  ToyModel reference;
  ASSERT_TRUE(train(reference, toyData(reference, 50), nullptr, options).ok());

  options.checkpointDir = directory / "c";
  options.metrics = {directory / "m.jsonl"};
  options.resume = "auto";
  int kills = 0;
  const auto run = [&] {
    ToyModel model;
    return train(model, toyData(model, 50), nullptr, options);
  };
  // Each kill comes later, so that the run ends on a slow disk too.
  while (!trainAndKill(run, useconds_t(2000 + 1500 * kills)))
    ASSERT_LT(++kills, 1000);
  EXPECT_GT(kills, 0);

  ToyModel resumed;
  StatusOr<TrainResult> result =
      train(resumed, toyData(resumed, 50), nullptr, options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(stateOf(resumed), stateOf(reference));
  // readLines parses every line, so no line is incomplete.
  EXPECT_GE(readLines(options.metrics.front()).size(), 120u);
}

TEST_F(TrainerResume, ResumeOfAFinishedRunOnlyEvaluates) {
  options.checkpointDir = directory / "c";
  options.metrics = {directory / "m.jsonl"};
  ToyModel model;
  ASSERT_TRUE(run(model).ok());
  options.resume = "auto";
  const Dataset data = toyData(model, 20);
  StatusOr<TrainResult> result = run(model, 20, &data);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->steps, 5);
  EXPECT_TRUE(recorder.steps.empty());
  EXPECT_TRUE(result->evaluation.has_value());
  EXPECT_FALSE(result->finalLoss.has_value());
}

TEST_F(TrainerResume, TimeThatWasOverBeforeLeavesOneStep) {
  options.deadline = std::chrono::steady_clock::now();
  options.checkpointDir = directory / "c";
  options.resume = "auto";
  for (int64_t steps : {1, 2}) {
    ToyModel model;
    StatusOr<TrainResult> result = run(model);
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->steps, steps);
    EXPECT_EQ(result->end, RunEnd::TimeLimit);
  }
}

TEST_F(TrainerResume, DoesNotTouchAnEarlierRunsCheckpointsUnasked) {
  options.checkpointDir = directory / "c";
  ToyModel model;
  ASSERT_TRUE(run(model).ok());
  expectFailure(run(model).status(), StatusCode::Usage,
                "--resume auto or choose another");
}

TEST_F(TrainerResume, ResumesFromACheckpointByItsPath) {
  options.checkpointDir = directory / "c";
  options.checkpointEvery = 2;
  ToyModel model;
  ASSERT_TRUE(run(model).ok());
  const auto end = stateOf(model);
  options.resume = directory / "c/step-2";
  ToyModel again;
  ASSERT_TRUE(run(again).ok());
  EXPECT_EQ(recorder.start.firstStep, 2);
  EXPECT_EQ(stateOf(again), end);
  ASSERT_EQ(recorder.notes.size(), 1u);
  EXPECT_NE(recorder.notes[0].find("is later than"), std::string::npos);
  // The run must not write into another run's directory.
  options.resume = directory / "c/step-4";
  options.checkpointDir = directory / "d";
  ToyModel other;
  ASSERT_TRUE(run(other).ok());
  expectFailure(run(other).status(), StatusCode::Usage, "choose another");
}

TEST_F(TrainerResume, KeepsNoCheckpointOfALossThatIsNotFinite) {
  options.epochs = 4;
  options.checkpointDir = directory / "c";
  ToyModel model;
  model.disturb = [](int64_t attempt, double &loss, bool &) {
    if (attempt > 12)
      loss = NAN;
  };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "the last good checkpoint is " + (directory / "c/step-10"));
  EXPECT_EQ(recorder.saves, (std::vector<int64_t>{5, 10}));
}

TEST_F(TrainerResume, ResumeByPathFailsWithTheCheckpointCode) {
  options.resume = directory / "none";
  ToyModel model;
  expectFailure(run(model).status(), StatusCode::Checkpoint, "missing");
  options.resume = "auto";
  expectFailure(run(model).status(), StatusCode::Usage, "--checkpoint-dir");
}

TEST_F(TrainerResume, StopsAfterAStepAndSavesOnASignal) {
  ToyModel model;
  options.epochs = 100;
  options.checkpointDir = directory / "c";
  options.metrics = {directory / "m.jsonl"};
  recorder = Recorder();
  recorder.onStep = [&](const StepReport &report) {
    if (report.step == 7)
      stop = 15;
  };
  StatusOr<TrainResult> result =
      train(model, toyData(model, 20), nullptr, options, &recorder, &stop);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->stopSignal, 15);
  EXPECT_EQ(result->steps, 7);
  EXPECT_EQ(recorder.saves.back(), 7);
  EXPECT_EQ(readLines(options.metrics.front()).back()["exit_code"], 143);
  EXPECT_EQ(result->exitCode, 143);
}

TEST_F(TrainerResume, StopsBetweenTheBatchesOfAStepAndGoesOnThere) {
  options.maxSteps = 6;
  ToyModel reference(/*accumulate=*/4);
  ASSERT_TRUE(train(reference, toyData(reference, 50), nullptr, options).ok());

  // Raises the interrupt in the third batch of the second step.
  struct Interrupted : ToyModel {
    explicit Interrupted(std::atomic<int> &stop) : ToyModel(4), stop(stop) {}
    Status run(std::string_view function) override {
      batches += function == "accumulate";
      if (batches == 7)
        stop = 15;
      return ToyModel::run(function);
    }
    std::atomic<int> &stop;
    int batches = 0;
  };
  options.checkpointDir = directory / "c";
  Interrupted first(stop);
  StatusOr<TrainResult> result =
      train(first, toyData(first, 50), nullptr, options, &recorder, &stop);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->stopSignal, 15);
  EXPECT_EQ(result->steps, 1);
  EXPECT_EQ(first.batches, 7);
  EXPECT_EQ(recorder.saves, (std::vector<int64_t>{1}));

  options.resume = "auto";
  ToyModel second(4);
  ASSERT_TRUE(train(second, toyData(second, 50), nullptr, options).ok());
  EXPECT_EQ(second.firstFeatures.size(), size_t(6 * 16 - 7 * 4));
  EXPECT_EQ(stateOf(second), stateOf(reference));
}

/// Requests a stop in one of the evaluation's batches.
struct Slow : ToyModel {
  explicit Slow(std::atomic<int> &stop, int batch = 2)
      : stop(stop), batch(batch) {}
  Status run(std::string_view function) override {
    if (function == "eval" && ++evaluated == batch)
      stop = 15;
    return ToyModel::run(function);
  }
  std::atomic<int> &stop;
  const int batch;
  int evaluated = 0;
};

TEST_F(TrainerResume, StopsWithinAnEvaluationAndHasSavedBefore) {
  options.epochs = 10;
  options.checkpointDir = directory / "c";
  Slow model(stop);
  const Dataset data = toyData(model, 20);
  recorder = Recorder();
  StatusOr<TrainResult> result =
      train(model, data, &data, options, &recorder, &stop);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(model.evaluated, 2);
  EXPECT_EQ(result->stopSignal, 15);
  EXPECT_EQ(recorder.saves, (std::vector<int64_t>{5}));
  EXPECT_TRUE(recorder.evaluations.empty());
}

// All steps are done, but the last evaluation is not.
TEST_F(TrainerResume, StopsWithinTheLastEvaluation) {
  options.epochs = 1;
  options.checkpointDir = directory / "c";
  options.metrics = {directory / "m.jsonl"};
  Slow model(stop);
  const Dataset data = toyData(model, 20);
  recorder = Recorder();
  StatusOr<TrainResult> result =
      train(model, data, &data, options, &recorder, &stop);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(model.evaluated, 2);
  EXPECT_EQ(result->stopSignal, 15);
  EXPECT_FALSE(result->evaluation);
  ASSERT_EQ(recorder.notes.size(), 1u);
  EXPECT_NE(recorder.notes[0].find("stopped during the evaluation"),
            std::string::npos);
  EXPECT_EQ(readLines(options.metrics.front()).back()["ended_by"], "signal");
  EXPECT_EQ(readLines(options.metrics.front()).back()["exit_code"], 143);
  // The resumed run does the rest.
  stop = 0;
  options.resume = "auto";
  ToyModel second;
  result = train(second, data, &data, options, &recorder, &stop);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->steps, 5);
  EXPECT_TRUE(result->evaluation);
  EXPECT_EQ(result->stopSignal, 0);
}

// The stop comes between the last step and the last evaluation.
TEST_F(TrainerResume, StopsBeforeTheLastEvaluation) {
  options.epochs = 1;
  ToyModel model;
  const Dataset data = toyData(model, 20);
  recorder.onStep = [&](const StepReport &report) {
    if (report.step == 5)
      stop = 15;
  };
  StatusOr<TrainResult> result =
      train(model, data, &data, options, &recorder, &stop);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->stopSignal, 15);
  EXPECT_FALSE(result->evaluation);
  // Without an evaluation, nothing remains.
  ToyModel other;
  stop = 0;
  result = train(other, data, nullptr, options, &recorder, &stop);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->steps, 5);
  EXPECT_EQ(result->stopSignal, 0);
}

// In the last batch of the last evaluation, nothing is left to stop.
TEST_F(TrainerResume, AStopAfterAllIsDoneInterruptsNothing) {
  options.epochs = 1;
  Slow model(stop, 5);
  const Dataset data = toyData(model, 20);
  StatusOr<TrainResult> result =
      train(model, data, &data, options, nullptr, &stop);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->stopSignal, 0);
  EXPECT_TRUE(result->evaluation);
  stop = 0;
  options.epochs = 0;
  options.deadline = std::chrono::steady_clock::now();
  Slow other(stop, 5);
  result = train(other, data, &data, options, nullptr, &stop);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->stopSignal, 0);
  EXPECT_EQ(int(result->end), int(RunEnd::TimeLimit));
}

TEST_F(TrainerResume, AFailedEvaluationLosesNothing) {
  struct Broken : ToyModel {
    Status run(std::string_view function) override {
      return function == "eval" ? Status(StatusCode::Device, "gone")
                                : ToyModel::run(function);
    }
  };
  options.epochs = 10;
  options.checkpointDir = directory / "c";
  Broken model;
  const Dataset data = toyData(model, 20);
  recorder = Recorder();
  expectFailure(train(model, data, &data, options, &recorder, &stop).status(),
                StatusCode::Device, "gone");
  EXPECT_EQ(recorder.saves, (std::vector<int64_t>{5}));
}

TEST_F(TrainerResume, NotesOtherSettingsOnResume) {
  options.checkpointDir = directory / "c";
  ToyModel model;
  ASSERT_TRUE(run(model).ok());
  options.resume = "auto";
  ASSERT_TRUE(run(model).ok());
  EXPECT_TRUE(recorder.notes.empty());
  options.epochs = 2;
  options.schedule = {ScheduleKind::Cosine, 0.5, 0, 0};
  ASSERT_TRUE(run(model).ok());
  ASSERT_EQ(recorder.notes.size(), 1u);
  EXPECT_EQ(recorder.notes[0],
            "resumed with other settings: learning rate was 0.05, now it is "
            "0.5; schedule was constant, now it is cosine; steps was 5, now "
            "it is 10");
}

TEST_F(TrainerResume, NotesAnotherTargetOnResume) {
  options.checkpointDir = directory / "c";
  ToyModel model;
  model.description.target = "x86-64-v3";
  ASSERT_TRUE(run(model).ok());
  options.resume = "auto";
  model.description.target = "x86-64-v4";
  ASSERT_TRUE(run(model).ok());
  ASSERT_EQ(recorder.notes.size(), 1u);
  EXPECT_EQ(recorder.notes[0],
            "resumed with other settings: target was x86-64-v3, now it is "
            "x86-64-v4, which may round differently");
}

TEST_F(TrainerResume, DataMayBeInAFileWhoseNameIsNoUTF8) {
  options.checkpointDir = directory / "c";
  ToyModel model;
  std::vector<Array> arrays = toyArrays(20);
  for (Array &array : arrays)
    array.source = "train\xff.npz";
  StatusOr<Dataset> data = Dataset::create(
      arrays, *trainingInputs(model.info()), datasetOptionsFor(model.info()));
  ASSERT_TRUE(data.ok());
  for (const char *resume : {"", "auto"}) {
    options.resume = resume;
    const auto ran = train(model, *data, nullptr, options, &recorder, &stop);
    ASSERT_TRUE(ran.ok()) << ran.status().message();
    EXPECT_TRUE(ran->deferred.ok()) << ran->deferred.message();
  }
  EXPECT_TRUE(recorder.notes.empty());
}

TEST_F(TrainerResume, RefusesToResumeWithOtherFrozenParameters) {
  options.checkpointDir = directory / "c";
  ToyModel model;
  ASSERT_TRUE(run(model).ok());
  options.resume = "auto";
  options.epochs = 2;
  ToyModel frozen;
  frozen.description.state[0].role = Role::Frozen;
  expectFailure(run(frozen).status(), StatusCode::Checkpoint,
                "trained was 1 parameter, digest ");
}

TEST_F(TrainerResume, DoesNotTouchAnEarlierRunsMetricsUnasked) {
  options.metrics = {directory / "m.jsonl"};
  ToyModel model;
  ASSERT_TRUE(run(model).ok());
  const std::string before = readFile(options.metrics.front());
  expectFailure(run(model).status(), StatusCode::Usage,
                "metrics of an earlier run");
  EXPECT_EQ(readFile(options.metrics.front()), before);
  options.overwriteMetrics = true;
  ASSERT_TRUE(run(model).ok());
  EXPECT_EQ(readLines(options.metrics.front())[0]["event"], "start");
}

TEST_F(TrainerResume, FindsWrongPathsBeforeAnythingElse) {
  options.resume = directory / "none";
  expectFailure(checkPaths(options), StatusCode::Checkpoint, "missing");
  options.resume = directory.path;
  expectFailure(checkPaths(options), StatusCode::Checkpoint, "train.json");
  options.resume = "";
  options.metrics = {directory / "none/m.jsonl"};
  expectFailure(checkPaths(options), StatusCode::IO, "cannot write");
  options.metrics.clear();
  options.checkpointDir = "/dev/null/c";
  expectFailure(checkPaths(options), StatusCode::IO,
                "/dev/null: is a file, expected a folder");
  options.checkpointDir = directory / "c";
  EXPECT_TRUE(checkPaths(options).ok());
  EXPECT_FALSE(std::filesystem::exists(options.checkpointDir));
  ToyModel model;
  ASSERT_TRUE(run(model).ok());
  expectFailure(checkPaths(options), StatusCode::Usage, "choose another");
}

TEST_F(TrainerResume, AnInterruptionThatIsNotSavedIsAFailure) {
  ToyModel model;
  options.epochs = 100;
  options.checkpointDir = directory / "c";
  options.metrics = {directory / "m.jsonl"};
  setFaultHook([](std::string_view change, const std::string &) {
    return change == "write" ? ENOSPC : 0;
  });
  recorder = Recorder();
  recorder.onStep = [&](const StepReport &) { stop = 15; };
  StatusOr<TrainResult> result =
      train(model, toyData(model, 20), nullptr, options, &recorder, &stop);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->stopSignal, 15);
  expectFailure(result->deferred, StatusCode::IO, "No space left");
  EXPECT_EQ(readLines(options.metrics.front()).back()["exit_code"], 5);
}

TEST_F(TrainerResume, GoesOnWhenACheckpointCannotBeWritten) {
  ToyModel model;
  options.epochs = 2;
  options.checkpointDir = directory / "c";
  options.metrics = {directory / "m.jsonl"};
  setFaultHook([](std::string_view change, const std::string &) {
    return change == "write" ? ENOSPC : 0;
  });
  StatusOr<TrainResult> result = run(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->steps, 10);
  expectFailure(result->deferred, StatusCode::IO, "No space left");
  EXPECT_TRUE(recorder.saves.empty());
  // The note appears once: the next saves fail on the same disk.
  EXPECT_EQ(recorder.notes.size(), 1u);
  EXPECT_EQ(readLines(options.metrics.front()).back()["exit_code"], 5);
}

} // namespace
} // namespace mpc::runtime::train
