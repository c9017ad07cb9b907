// The loop: its arithmetic, its metrics, its ends, and exact resumption.
//
// SPDX-License-Identifier: Apache-2.0
#include "Support.h"

#include "runtime/train/Checkpoint.h"
#include "runtime/train/Trainer.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

namespace mpc::runtime::train {
namespace {

using nlohmann::json;

struct Recorder : TrainObserver {
  void started(const StartReport &report) override { start = report; }
  void stepped(const StepReport &report) override {
    steps.push_back(report);
    if (onStep)
      onStep(report);
  }
  void evaluated(int64_t, int64_t epoch, const EvalResult &) override {
    evaluations.push_back(epoch);
  }
  void checkpointed(int64_t step, const std::string &) override {
    saves.push_back(step);
  }
  void note(std::string_view text) override { notes.emplace_back(text); }

  StartReport start;
  std::vector<StepReport> steps;
  std::vector<int64_t> evaluations, saves;
  std::vector<std::string> notes;
  std::function<void(const StepReport &)> onStep;
};

std::vector<json> readLines(const std::string &path) {
  std::vector<json> lines;
  std::stringstream text(readFile(path));
  for (std::string line; std::getline(text, line);)
    lines.push_back(json::parse(line));
  return lines;
}

/// Everything a run leaves in the model.
std::vector<std::vector<std::byte>> stateOf(ToyModel &model) {
  std::vector<std::vector<std::byte>> state;
  for (const Port &port : model.info().state)
    if (port.role != "derived")
      state.push_back(model.state(port.name)->bytes);
  return state;
}

class Trainer : public testing::Test {
protected:
  Trainer() {
    options.schedule.learningRate = 0.05;
    options.seed = 3;
  }
  ~Trainer() override { setFaultHook(nullptr); }

  StatusOr<TrainResult> run(ToyModel &model, int64_t samples = 20,
                            const Dataset *evalData = nullptr) {
    recorder = Recorder();
    return train(model, toyData(model, samples), evalData, options, &recorder,
                 &stop);
  }

  TemporaryDirectory directory;
  TrainOptions options;
  Recorder recorder;
  std::atomic<int> stop{0};
};

TEST_F(Trainer, LearnsAndReports) {
  ToyModel model;
  options.epochs = 30;
  const Dataset data = toyData(model, 20);
  StatusOr<TrainResult> result = run(model, 20, &data);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->steps, 150);
  EXPECT_EQ(result->epochs, 30);
  EXPECT_EQ(result->samples, 600);
  EXPECT_EQ(result->skipped, 0);
  EXPECT_LT(*result->finalLoss, recorder.steps[0].loss);
  EXPECT_GT(*result->evaluation->accuracy, 0.7);
  EXPECT_GT(result->medianStepMs, 0);
  EXPECT_GT(result->peakMemoryBytes, size_t(1) << 20);
  EXPECT_EQ(recorder.start.totalSteps, 150);
  EXPECT_EQ(recorder.start.memoryBytes, 1234u);
  EXPECT_EQ(recorder.evaluations.size(), 30u);
}

TEST_F(Trainer, EpochsHaveEverySampleOnceInOtherOrders) {
  ToyModel model;
  options.epochs = 2;
  ASSERT_TRUE(run(model).ok());
  const auto &seen = model.firstFeatures;
  ASSERT_EQ(seen.size(), 40u);
  const std::vector<float> first(seen.begin(), seen.begin() + 20);
  const std::vector<float> second(seen.begin() + 20, seen.end());
  EXPECT_NE(first, second);
  EXPECT_EQ(std::set<float>(first.begin(), first.end()).size(), 20u);
  EXPECT_EQ(std::set<float>(second.begin(), second.end()).size(), 20u);
}

TEST_F(Trainer, WithoutShufflingTheOrderIsThatOfTheFile) {
  ToyModel model;
  options.shuffle = false;
  ASSERT_TRUE(run(model).ok());
  EXPECT_TRUE(
      std::is_sorted(model.firstFeatures.begin(), model.firstFeatures.end()));
}

TEST_F(Trainer, DropsTheRestOfAnEpochAndSaysSo) {
  ToyModel model;
  StatusOr<TrainResult> result = run(model, 23);
  EXPECT_EQ(result->steps, 5);
  ASSERT_EQ(recorder.notes.size(), 1u);
  EXPECT_NE(recorder.notes[0].find("leaves out 3 of 23"), std::string::npos);
}

TEST_F(Trainer, KeepsTheRestOfAnEpochFilledUp) {
  ToyModel model;
  options.lastBatch = LastBatch::Keep;
  StatusOr<TrainResult> result = run(model, 23);
  EXPECT_EQ(result->steps, 6);
  const auto &seen = model.firstFeatures;
  EXPECT_EQ(std::set<float>(seen.begin(), seen.end()).size(), 23u);
  EXPECT_EQ(seen[23], seen[0]);
  EXPECT_TRUE(recorder.notes.empty());
}

TEST_F(Trainer, RefusesDataThatFillNoStep) {
  ToyModel model;
  expectFailure(run(model, 3).status(), StatusCode::InvalidInput,
                "the data: has 3 samples, one step takes 4");
}

TEST_F(Trainer, AccumulatingTwoBatchesIsOneOfTwiceTheSize) {
  ToyModel model(/*accumulate=*/2);
  options.shuffle = false;
  StatusOr<TrainResult> result = run(model, 20);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->steps, 2); // of 8 samples each, 4 left out
  EXPECT_EQ(recorder.steps[1].microStep, 4);
  EXPECT_EQ(recorder.steps[1].samples, 16);
  EXPECT_EQ(model.learningRates.size(), 2u);
  // Weights are zero at first: every class is equally likely.
  EXPECT_NEAR(recorder.steps[0].loss, std::log(4.0), 1e-6);
}

TEST_F(Trainer, StopsAtMaxStepsWithinAnEpoch) {
  ToyModel model;
  options.maxSteps = 7;
  const Dataset data = toyData(model, 20);
  StatusOr<TrainResult> result = run(model, 20, &data);
  EXPECT_EQ(result->steps, 7);
  EXPECT_EQ(result->epochs, 1);
  EXPECT_EQ(recorder.evaluations, (std::vector<int64_t>{0, 1}));
}

TEST_F(Trainer, SkippedStepsDoNotCountForTheSchedule) {
  ToyModel model;
  options.maxSteps = 4;
  options.schedule = {ScheduleKind::Linear, 1.0, 0.0, 0};
  model.disturb = [](int64_t attempt, double &, bool &finite) {
    finite = attempt != 2;
  };
  StatusOr<TrainResult> result = run(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->skipped, 1);
  EXPECT_EQ(model.learningRates,
            (std::vector<float>{1.0f, 0.75f, 0.75f, 0.5f}));
  EXPECT_TRUE(recorder.steps[1].skipped);
  EXPECT_EQ(recorder.steps[3].skippedTotal, 1);
  EXPECT_EQ(*model.state("updates")->as<int64_t>(), 3);
}

TEST_F(Trainer, EndsWhenTheLossStaysNotFinite) {
  ToyModel model;
  options.epochs = 100;
  options.maxNonfinite = 3;
  options.metrics = directory / "m.jsonl";
  model.disturb = [](int64_t attempt, double &loss, bool &) {
    if (attempt == 2 || attempt >= 5)
      loss = NAN;
  };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "step 7: the loss has not been finite for 3 steps");
  const std::vector<json> lines = readLines(options.metrics);
  EXPECT_EQ(lines[2]["loss"], "nan");
  EXPECT_EQ(lines.back()["event"], "end");
  EXPECT_EQ(lines.back()["exit_code"], 7);
}

// The loss is unscaled, so no loss scale will make it finite.
TEST_F(Trainer, LossesOfSkippedStepsMustBeFiniteToo) {
  ToyModel model;
  options.maxSteps = 20;
  options.maxNonfinite = 3;
  model.disturb = [](int64_t attempt, double &loss, bool &finite) {
    finite = attempt > 10;
    loss = finite ? loss : NAN;
  };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "step 3: the loss has not been finite for 3 steps");
}

TEST_F(Trainer, ARunThatEndsWithoutALossIsNoSuccess) {
  ToyModel model;
  options.maxSteps = 6;
  options.metrics = directory / "m.jsonl";
  model.disturb = [](int64_t attempt, double &loss, bool &) {
    loss = attempt == 6 ? NAN : loss;
  };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "the run ends with a loss of nan");
  EXPECT_EQ(readLines(options.metrics).back()["exit_code"], 7);
}

TEST_F(Trainer, ARunWhoseEveryStepWasSkippedIsNoSuccess) {
  ToyModel model;
  options.maxSteps = 6;
  model.disturb = [](int64_t, double &, bool &finite) { finite = false; };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "nothing was trained: all 6 steps were skipped");
}

TEST_F(Trainer, EndsWhenADynamicLossScaleStaysAtItsFloor) {
  ToyModel model;
  model.description.dynamicLossScale = true; // the toy's is 65536 for ever
  options.maxSteps = 1000;
  model.disturb = [](int64_t, double &, bool &finite) { finite = false; };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "step 11: gradients are not finite even at the least loss "
                "scale of 65536");
}

// The toy says which row of a batch is to blame.
TEST_F(Trainer, SaysWhereAFailureBeganAndWhatIsLeft) {
  ToyModel model;
  options.epochs = 100;
  options.shuffle = false;
  options.checkpointDir = directory / "c";
  const auto disturb = [](int64_t base) {
    return [base](int64_t attempt, double &loss, bool &) {
      loss = base + attempt >= 12 ? NAN : loss;
    };
  };
  model.disturb = disturb(0);
  const Status status = run(model).status();
  expectFailure(status, StatusCode::Numeric, "step 21: ");
  // Run once more, the toy counts on, so the first step that is traced fails:
  // step 11, whose second sample of the epoch is 0.
  expectFailure(status, StatusCode::Numeric,
                "first, in step 11, node 'toy' gives nan, for sample 2 of the "
                "data");
  expectFailure(status, StatusCode::Numeric,
                "the last good checkpoint is " + (directory / "c/step-10"));
  EXPECT_EQ(recorder.saves, (std::vector<int64_t>{5, 10}));
}

TEST_F(Trainer, WithoutCheckpointsItLooksFromTheBeginning) {
  ToyModel model;
  options.maxSteps = 4;
  options.shuffle = false;
  model.disturb = [](int64_t attempt, double &loss, bool &) {
    // The fourth attempt, and when all is run again the fourth of those.
    loss = attempt % 4 == 0 ? NAN : loss;
  };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "first, in step 4, node 'toy' gives nan, for sample 14 of the "
                "data");
}

TEST_F(Trainer, EndsWhenEveryStepIsSkipped) {
  ToyModel model;
  options.maxSteps = 1000;
  options.maxSkipped = 5;
  model.disturb = [](int64_t, double &, bool &finite) { finite = false; };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "step 5: 5 steps in a row were skipped");
}

TEST_F(Trainer, WritesTheDocumentedMetrics) {
  ToyModel model;
  options.metrics = directory / "m.jsonl";
  options.version = "1.2.3";
  const Dataset data = toyData(model, 20);
  ASSERT_TRUE(run(model, 20, &data).ok());
  const std::string text = readFile(options.metrics);
  const std::vector<json> lines = readLines(options.metrics);
  ASSERT_EQ(lines.size(), 8u);
  EXPECT_EQ(lines[0]["event"], "start");
  EXPECT_EQ(lines[0]["version"], "1.2.3");
  EXPECT_EQ(lines[0]["seed"], 3);
  EXPECT_EQ(lines[0]["model"], "00000000000000aa");
  EXPECT_EQ(lines[0]["state_bytes"], 100);
  EXPECT_EQ(lines[0]["activation_bytes"], 200);
  EXPECT_TRUE(lines[0]["resumed_from"].is_null());
  EXPECT_NE(text.find("{\"event\":\"train\",\"step\":1,\"micro_step\":1,"
                      "\"epoch\":0,\"samples\":4,\"loss\":1.38629436,"
                      "\"lr\":0.05,\"grad_norm\":"),
            std::string::npos)
      << text;
  for (const char *key :
       {"event", "step", "micro_step", "epoch", "samples", "loss", "lr",
        "grad_norm", "loss_scale", "skipped", "skipped_total", "step_ms"})
    EXPECT_TRUE(lines[1].contains(key)) << key;
  EXPECT_EQ(lines[1]["loss_scale"], 65536);
  EXPECT_EQ(lines[6]["event"], "eval");
  EXPECT_TRUE(lines[6]["eval_accuracy"].is_number());
  EXPECT_EQ(lines[7]["event"], "end");
  EXPECT_EQ(lines[7]["exit_code"], 0);
}

TEST_F(Trainer, DoublePrecisionHasSeventeenDigits) {
  ToyModel model;
  model.description.precision = "64-true";
  options.metrics = directory / "m.jsonl";
  ASSERT_TRUE(run(model).ok());
  EXPECT_NE(readFile(options.metrics).find("\"lr\":0.050000000000000003"),
            std::string::npos);
}

TEST_F(Trainer, SavesAtTheEndOfEachEpoch) {
  ToyModel model;
  options.epochs = 3;
  options.checkpointDir = directory / "c";
  ASSERT_TRUE(run(model).ok());
  EXPECT_EQ(recorder.saves, (std::vector<int64_t>{5, 10, 15}));
}

TEST_F(Trainer, SavesEverySoManyStepsAndAtTheEnd) {
  ToyModel model;
  options.maxSteps = 8;
  options.checkpointEvery = 3;
  options.checkpointDir = directory / "c";
  ASSERT_TRUE(run(model).ok());
  EXPECT_EQ(recorder.saves, (std::vector<int64_t>{3, 6, 8}));
}

/// Trains `total` steps in one go and in two runs with a break after
/// `first`, and compares every bit of state and every loss.
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

TEST_F(Trainer, ResumesExactlyFromAnyStep) {
  for (int64_t first : {1, 5, 11, 12, 13, 24, 30}) {
    TemporaryDirectory run;
    expectExactResume(options, 1, first, 36, run / "c");
  }
}

TEST_F(Trainer, ResumesExactlyWithAccumulation) {
  for (int64_t first : {1, 6, 7}) {
    TemporaryDirectory run;
    expectExactResume(options, 2, first, 18, run / "c");
  }
}

/// Trains in a process of its own and kills it after `microseconds`. True where
/// it came to its end before.
bool trainAndKill(const TrainOptions &options, useconds_t microseconds) {
  const pid_t child = fork();
  if (child == 0) {
    ToyModel model;
    StatusOr<TrainResult> result =
        train(model, toyData(model, 50), nullptr, options);
    _exit(result.ok() && result->deferred.ok() ? 0 : 1);
  }
  usleep(microseconds);
  kill(child, SIGKILL);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0);
  return WIFEXITED(status);
}

TEST_F(Trainer, KilledAtAnyTimeItResumesToTheSameBits) {
  options.maxSteps = 120;
  options.checkpointEvery = 2;
  ToyModel reference;
  ASSERT_TRUE(train(reference, toyData(reference, 50), nullptr, options).ok());

  options.checkpointDir = directory / "c";
  options.metrics = directory / "m.jsonl";
  options.resume = "auto";
  int kills = 0;
  // Later and later, so that the run ends however slow the disk is.
  while (!trainAndKill(options, useconds_t(2000 + 1500 * kills)))
    ASSERT_LT(++kills, 1000);
  EXPECT_GT(kills, 0);

  ToyModel resumed;
  StatusOr<TrainResult> result =
      train(resumed, toyData(resumed, 50), nullptr, options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(stateOf(resumed), stateOf(reference));
  // No line is left unfinished in the middle; readLines parses them all.
  EXPECT_GE(readLines(options.metrics).size(), 120u);
}

TEST_F(Trainer, ResumeOfAFinishedRunOnlyEvaluates) {
  options.checkpointDir = directory / "c";
  options.metrics = directory / "m.jsonl";
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

TEST_F(Trainer, DoesNotTouchAnEarlierRunsCheckpointsUnasked) {
  options.checkpointDir = directory / "c";
  ToyModel model;
  ASSERT_TRUE(run(model).ok());
  expectFailure(run(model).status(), StatusCode::Usage,
                "--resume auto or choose another");
}

TEST_F(Trainer, ResumesFromACheckpointByItsPath) {
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
  // Into another run's directory it does not write.
  options.resume = directory / "c/step-4";
  options.checkpointDir = directory / "d";
  ToyModel other;
  ASSERT_TRUE(run(other).ok());
  expectFailure(run(other).status(), StatusCode::Usage, "choose another");
}

TEST_F(Trainer, KeepsNoCheckpointOfALossThatIsNotFinite) {
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

TEST_F(Trainer, ResumeByPathFailsWithTheCheckpointCode) {
  options.resume = directory / "none";
  ToyModel model;
  expectFailure(run(model).status(), StatusCode::Checkpoint,
                "missing or unreadable");
  options.resume = "auto";
  expectFailure(run(model).status(), StatusCode::Usage, "--checkpoint-dir");
}

TEST_F(Trainer, StopsAfterAStepAndSavesOnASignal) {
  ToyModel model;
  options.epochs = 100;
  options.checkpointDir = directory / "c";
  options.metrics = directory / "m.jsonl";
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
  EXPECT_EQ(readLines(options.metrics).back()["exit_code"], 143);
}

TEST_F(Trainer, StopsBetweenTheBatchesOfAStepAndGoesOnThere) {
  options.maxSteps = 6;
  ToyModel reference(/*accumulate=*/4);
  ASSERT_TRUE(train(reference, toyData(reference, 50), nullptr, options).ok());

  // Raised in the third batch of the second step.
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

TEST_F(Trainer, StopsWithinAnEvaluationAndHasSavedBefore) {
  struct Slow : ToyModel {
    explicit Slow(std::atomic<int> &stop) : stop(stop) {}
    Status run(std::string_view function) override {
      if (function == "eval" && ++evaluated == 2)
        stop = 15;
      return ToyModel::run(function);
    }
    std::atomic<int> &stop;
    int evaluated = 0;
  };
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

TEST_F(Trainer, AFailedEvaluationLosesNothing) {
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

TEST_F(Trainer, NotesOtherSettingsOnResume) {
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

TEST_F(Trainer, RefusesToResumeWithOtherFrozenParameters) {
  options.checkpointDir = directory / "c";
  ToyModel model;
  ASSERT_TRUE(run(model).ok());
  options.resume = "auto";
  options.epochs = 2;
  ToyModel frozen;
  frozen.description.state[0].role = "frozen";
  expectFailure(run(frozen).status(), StatusCode::Checkpoint,
                "trained was 1 parameter, digest ");
}

TEST_F(Trainer, DoesNotTouchAnEarlierRunsMetricsUnasked) {
  options.metrics = directory / "m.jsonl";
  ToyModel model;
  ASSERT_TRUE(run(model).ok());
  const std::string before = readFile(options.metrics);
  expectFailure(run(model).status(), StatusCode::Usage,
                "metrics of an earlier run");
  EXPECT_EQ(readFile(options.metrics), before);
  options.overwriteMetrics = true;
  ASSERT_TRUE(run(model).ok());
  EXPECT_EQ(readLines(options.metrics)[0]["event"], "start");
}

TEST_F(Trainer, FindsWrongPathsBeforeAnythingElse) {
  options.resume = directory / "none";
  expectFailure(checkPaths(options), StatusCode::Checkpoint, "missing");
  options.resume = directory.path;
  expectFailure(checkPaths(options), StatusCode::Checkpoint, "train.json");
  options.resume = "";
  options.metrics = directory / "none/m.jsonl";
  expectFailure(checkPaths(options), StatusCode::IO, "cannot write");
  options.metrics = "";
  options.checkpointDir = directory / "c";
  EXPECT_TRUE(checkPaths(options).ok());
  EXPECT_FALSE(std::filesystem::exists(options.checkpointDir));
  ToyModel model;
  ASSERT_TRUE(run(model).ok());
  expectFailure(checkPaths(options), StatusCode::Usage, "choose another");
}

TEST_F(Trainer, AnInterruptionThatIsNotSavedIsAFailure) {
  ToyModel model;
  options.epochs = 100;
  options.checkpointDir = directory / "c";
  options.metrics = directory / "m.jsonl";
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
  EXPECT_EQ(readLines(options.metrics).back()["exit_code"], 5);
}

TEST_F(Trainer, GoesOnWhenACheckpointCannotBeWritten) {
  ToyModel model;
  options.epochs = 2;
  options.checkpointDir = directory / "c";
  options.metrics = directory / "m.jsonl";
  setFaultHook([](std::string_view change, const std::string &) {
    return change == "write" ? ENOSPC : 0;
  });
  StatusOr<TrainResult> result = run(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->steps, 10);
  expectFailure(result->deferred, StatusCode::IO, "No space left");
  EXPECT_TRUE(recorder.saves.empty());
  // After each epoch; the one at the end fails as the one before it.
  EXPECT_EQ(recorder.notes.size(), 2u);
  EXPECT_EQ(readLines(options.metrics).back()["exit_code"], 5);
}

TEST_F(Trainer, RefusesScalarsItDoesNotKnow) {
  ToyModel model;
  model.description.functions["step"].inputs.push_back(
      {"beta", "scalar", DType::F32, {}});
  expectFailure(run(model).status(), StatusCode::Unsupported, "'beta'");
}

TEST_F(Trainer, RefusesAnArtifactWithoutTraining) {
  ToyModel model;
  const Dataset data = toyData(model, 20);
  model.description.functions.erase("step");
  model.description.functions.erase("update");
  expectFailure(train(model, data, nullptr, options).status(),
                StatusCode::Unsupported, "compile it with a loss");
}

} // namespace
} // namespace mpc::runtime::train
