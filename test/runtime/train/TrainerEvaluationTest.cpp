// Tests decisions from evaluations: the best weights, the end of a run, and a
// plateau's learning rate, in uninterrupted and in resumed runs.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/TrainerFixture.h"

#include "runtime/train/checkpoint/Checkpoint.h"

#include <cerrno>
#include <cmath>
#include <filesystem>
#include <set>

namespace mpc::runtime::train {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<int64_t>;

/// A model whose evaluation gives a set loss after each number of updates.
struct Judged : ToyModel {
  explicit Judged(std::function<double(int64_t updates)> lossAfter)
      : lossAfter(std::move(lossAfter)) {}
  StatusOr<Tensor> output(std::string_view function,
                          std::string_view name) override {
    StatusOr<Tensor> value = ToyModel::output(function, name);
    if (value.ok() && name == "losses")
      for (int64_t i = 0; i < kBatch; ++i)
        value->as<float>()[i] =
            float(lossAfter(*state("updates")->as<int64_t>()));
    return value;
  }
  std::function<double(int64_t)> lossAfter;
};

/// Falls to its minimum at step 5, then rises.
double valley(int64_t step) { return 1 + std::abs(double(step) - 5) / 16; }

class TrainerEvaluation : public Trainer {
protected:
  TrainerEvaluation() {
    options.evalEvery = 1;
    options.maxSteps = 12;
  }

  StatusOr<TrainResult> judge(ToyModel &model) {
    recorder = Recorder();
    const Dataset held = toyData(model, 4);
    return train(model, toyData(model, 20), &held, options, &recorder, &stop);
  }

  /// The weights after `steps` steps, of a run with no more steps.
  std::vector<std::byte> weightsAfter(int64_t steps) {
    TrainOptions plain;
    plain.schedule = options.schedule;
    plain.seed = options.seed;
    plain.maxSteps = steps;
    ToyModel model;
    EXPECT_TRUE(train(model, toyData(model, 20), nullptr, plain).ok());
    return model.state("w")->bytes;
  }

  std::set<std::string> checkpoints() {
    std::set<std::string> names;
    for (const auto &entry : fs::directory_iterator(options.checkpointDir))
      names.insert(entry.path().filename());
    return names;
  }

  std::string bestLink() {
    return fs::read_symlink(options.checkpointDir + "/best").string();
  }

  bool isNoted(const std::string &text) {
    return std::any_of(recorder.notes.begin(), recorder.notes.end(),
                       [&](const std::string &note) {
                         return note.find(text) != std::string::npos;
                       });
  }
};

//===----------------------------------------------------------------------===//
// When
//===----------------------------------------------------------------------===//

TEST_F(TrainerEvaluation, EverySoManyStepsAndAtTheEnd) {
  Judged model(valley);
  options.evalEvery = 5;
  ASSERT_TRUE(judge(model).ok());
  // After steps 5, 10 and 12, in epochs 0, 1 and 2 of 5 steps.
  EXPECT_EQ(recorder.evaluations, (Steps{0, 1, 2}));
}

TEST_F(TrainerEvaluation, NoMoreThanOnceAtTheEnd) {
  Judged model(valley);
  options.evalEvery = 4;
  ASSERT_TRUE(judge(model).ok());
  EXPECT_EQ(recorder.evaluations.size(), 3u);
}

//===----------------------------------------------------------------------===//
// The best
//===----------------------------------------------------------------------===//

TEST_F(TrainerEvaluation, TheModelHasTheBestWeightsInTheEnd) {
  Judged model(valley);
  options.best = Monitor();
  options.metrics = {directory / "m.jsonl"};
  StatusOr<TrainResult> result = judge(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->steps, 12);
  ASSERT_TRUE(result->best.has_value());
  EXPECT_EQ(result->best->step, 5);
  EXPECT_EQ(result->best->metric, "loss");
  EXPECT_EQ(result->best->value, 1);
  EXPECT_EQ(model.state("w")->bytes, weightsAfter(5));
  StatusOr<Tensor> low = convert(*model.state("w"), DType::BF16);
  EXPECT_EQ(model.state("w.bf16")->bytes, low->bytes);
  const nlohmann::json end = readLines(options.metrics.front()).back();
  EXPECT_EQ(end["best_step"], 5);
  EXPECT_EQ(end["best_value"], 1);
  EXPECT_EQ(end["ended_by"], "steps");
}

TEST_F(TrainerEvaluation, TheBestMayBeTheGreatest) {
  Judged model(valley);
  options.best = Monitor{"loss", /*isMaximum=*/true};
  StatusOr<TrainResult> result = judge(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->best->step, 12);
  EXPECT_EQ(model.state("w")->bytes, weightsAfter(12));
}

TEST_F(TrainerEvaluation, TheBestCheckpointStaysBesideTheNewest) {
  Judged model(valley);
  options.best = Monitor();
  options.checkpointDir = directory / "c";
  options.checkpointEvery = 1;
  options.keepCheckpoints = 2;
  StatusOr<TrainResult> result = judge(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(checkpoints(),
            (std::set<std::string>{"best", "step-5", "step-11", "step-12"}));
  EXPECT_EQ(bestLink(), "step-5");
  EXPECT_EQ(model.state("w")->bytes, weightsAfter(5));
}

TEST_F(TrainerEvaluation, TheBestIsSavedWhereNoCheckpointIsDue) {
  Judged model(valley);
  options.best = Monitor();
  options.checkpointDir = directory / "c";
  options.checkpointEvery = 100;
  options.keepCheckpoints = 1;
  ASSERT_TRUE(judge(model).ok());
  EXPECT_EQ(recorder.saves, (Steps{1, 2, 3, 4, 5, 12}));
  EXPECT_EQ(checkpoints(),
            (std::set<std::string>{"best", "step-5", "step-12"}));
}

TEST_F(TrainerEvaluation, WithoutAFiniteFigureTheWeightsAreTheLast) {
  Judged model([](int64_t) { return std::nan(""); });
  options.best = Monitor();
  StatusOr<TrainResult> result = judge(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_FALSE(result->best.has_value());
  EXPECT_TRUE(isNoted("no evaluation had a finite loss"));
  EXPECT_EQ(model.state("w")->bytes, weightsAfter(12));
}

TEST_F(TrainerEvaluation, OnAFullDiskTheBestStaysInMemory) {
  Judged model(valley);
  options.best = Monitor();
  options.checkpointDir = directory / "c";
  options.checkpointEvery = 100;
  setFaultHook([](std::string_view change, const std::string &path) {
    return change == "open" && path.find("step-5.") != std::string::npos
               ? ENOSPC
               : 0;
  });
  StatusOr<TrainResult> result = judge(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->best->step, 5);
  EXPECT_EQ(model.state("w")->bytes, weightsAfter(5));
  expectFailure(result->deferred, StatusCode::IO, "No space left");
  EXPECT_EQ(bestLink(), "step-4");
}

TEST_F(TrainerEvaluation, ABestCheckpointThatIsDamagedIsAFailure) {
  options.best = Monitor();
  options.checkpointDir = directory / "c";
  Judged model([&](int64_t step) {
    if (step == 12)
      writeFile(directory / "c/step-5/state.safetensors", "damaged");
    return valley(step);
  });
  const Status status = judge(model).status();
  expectFailure(status, StatusCode::Checkpoint, "step-5");
  expectFailure(status, StatusCode::Checkpoint, "the last ones are in ");
}

TEST_F(TrainerEvaluation, TheBestOfAnEarlierPartIsFoundByItsPath) {
  Judged first(valley);
  options.best = Monitor();
  options.checkpointDir = directory / "c";
  options.maxSteps = 8;
  ASSERT_TRUE(judge(first).ok());
  // The new folder does not have that checkpoint.
  options.resume = directory / "c/step-8";
  options.checkpointDir = directory / "d";
  options.maxSteps = 12;
  Judged second(valley);
  StatusOr<TrainResult> result = judge(second);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->best->step, 5);
  EXPECT_EQ(second.state("w")->bytes, weightsAfter(5));
}

TEST_F(TrainerEvaluation, ABestThatIsGoneIsNotedAndForgotten) {
  Judged first(valley);
  options.best = Monitor();
  options.checkpointDir = directory / "c";
  options.maxSteps = 8;
  ASSERT_TRUE(judge(first).ok());
  fs::remove_all(directory / "c/step-5");
  options.resume = "auto";
  options.maxSteps = 12;
  Judged second(valley);
  StatusOr<TrainResult> result = judge(second);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_TRUE(isNoted("those of step 5, are gone"));
  EXPECT_EQ(result->best->step, 9);
}

TEST_F(TrainerEvaluation, AForeignLinkProtectsNothing) {
  options.checkpointDir = directory / "c";
  options.checkpointEvery = 1;
  options.keepCheckpoints = 1;
  fs::create_directories(options.checkpointDir);
  fs::create_symlink("../step-5", options.checkpointDir + "/best");
  Judged model(valley);
  ASSERT_TRUE(judge(model).ok());
  EXPECT_EQ(checkpoints(), (std::set<std::string>{"best", "step-12"}));
}

//===----------------------------------------------------------------------===//
// Early stopping and time
//===----------------------------------------------------------------------===//

TEST_F(TrainerEvaluation, EarlyStoppingEndsTheRunAfterItsPatience) {
  Judged model(valley);
  options.maxSteps = 0;
  options.earlyStopping = EarlyStopping{Monitor(), 3};
  options.metrics = {directory / "m.jsonl"};
  StatusOr<TrainResult> result = judge(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->steps, 8);
  EXPECT_EQ(int(result->end), int(RunEnd::EarlyStopping));
  EXPECT_EQ(recorder.start.totalSteps, kUnlimited);
  EXPECT_EQ(recorder.evaluations.size(), 8u);
  EXPECT_TRUE(isNoted("early stopping: loss did not improve in 3 evaluations; "
                      "the best was loss 1 at step 5"));
  const auto lines = readLines(options.metrics.front());
  EXPECT_TRUE(lines.front()["steps"].is_null());
  EXPECT_EQ(lines.back()["ended_by"], "early_stopping");
  EXPECT_EQ(lines.back()["exit_code"], 0);
}

TEST_F(TrainerEvaluation, ARunThatStoppedEarlyStaysOver) {
  options.earlyStopping = EarlyStopping{Monitor(), 3};
  options.checkpointDir = directory / "c";
  Judged first(valley);
  ASSERT_TRUE(judge(first).ok());
  options.resume = "auto";
  Judged second(valley);
  StatusOr<TrainResult> result = judge(second);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_TRUE(recorder.steps.empty());
  EXPECT_EQ(int(result->end), int(RunEnd::EarlyStopping));
  // More patience continues the run.
  options.earlyStopping->patience = 5;
  Judged third(valley);
  ASSERT_TRUE(judge(third).ok());
  EXPECT_EQ(recorder.steps.size(), 2u);
}

TEST_F(TrainerEvaluation, AnEvaluationOutsideTheScheduleIsNotOfItsPatience) {
  options.evalEvery = 5;
  options.checkpointDir = directory / "c";
  options.earlyStopping = EarlyStopping{Monitor(), 1};
  options.maxSteps = 7;
  Judged first(valley); // best after step 5; step 7 is worse
  ASSERT_TRUE(judge(first).ok());
  EXPECT_EQ(recorder.evaluations.size(), 2u);
  options.resume = "auto";
  options.maxSteps = 9;
  Judged second(valley);
  StatusOr<TrainResult> result = judge(second);
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->steps, 9);
}

TEST_F(TrainerEvaluation, ARunWhoseTimeIsOverSavesAndEvaluates) {
  Judged model(valley);
  options.maxSteps = 0;
  options.checkpointDir = directory / "c";
  options.checkpointEvery = 1000;
  options.evalEvery = 1000;
  options.metrics = {directory / "m.jsonl"};
  options.deadline =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(30);
  options.unfinishedCode = 75;
  StatusOr<TrainResult> result = judge(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->exitCode, 75);
  EXPECT_EQ(readLines(options.metrics.front()).back()["exit_code"], 75);
  EXPECT_GT(result->steps, 0);
  EXPECT_EQ(int(result->end), int(RunEnd::TimeLimit));
  EXPECT_EQ(recorder.saves.back(), result->steps);
  EXPECT_FALSE(recorder.evaluations.empty());
  EXPECT_TRUE(isNoted("--max-time is over after step "));
  EXPECT_EQ(readLines(options.metrics.front()).back()["ended_by"], "max_time");
}

TEST_F(TrainerEvaluation, WithTimeForOneStepItsWeightsAreTheBest) {
  Judged model(valley);
  options.best = Monitor();
  options.checkpointDir = directory / "c";
  options.deadline = std::chrono::steady_clock::now();
  StatusOr<TrainResult> result = judge(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->steps, 1);
  EXPECT_EQ(result->best->step, 1);
  EXPECT_EQ(recorder.evaluations.size(), 1u);
}

//===----------------------------------------------------------------------===//
// A plateau
//===----------------------------------------------------------------------===//

TEST_F(TrainerEvaluation, APlateauLowersTheRate) {
  Judged model(valley);
  ASSERT_TRUE(parseSchedule("plateau:0.5:2", options.schedule).ok());
  options.schedule.learningRate = 1;
  ASSERT_TRUE(judge(model).ok());
  std::vector<double> rates;
  for (const StepReport &step : recorder.steps)
    rates.push_back(step.learningRate.value());
  // No improvement after steps 6, 7 and 8, and after 9, 10 and 11.
  EXPECT_EQ(rates,
            (std::vector<double>{1, 1, 1, 1, 1, 1, 1, 1, 0.5, 0.5, 0.5, 0.25}));
  EXPECT_TRUE(isNoted("plateau: loss did not improve in 3 evaluations; the "
                      "learning rate is 0.5 from here"));
}

//===----------------------------------------------------------------------===//
// Refused
//===----------------------------------------------------------------------===//

TEST_F(TrainerEvaluation, NeedsDataAndFigures) {
  ToyModel model;
  options.best = Monitor();
  expectFailure(run(model).status(), StatusCode::Usage,
                "--best: needs data to evaluate on");
  options.best = *parseMonitor("f1");
  expectFailure(judge(model).status(), StatusCode::Usage,
                "--best: evaluations do not measure f1");
  options.best.reset();
  options.earlyStopping = EarlyStopping{*parseMonitor("accuracy"), 1};
  model.description.loss = LossKind::MSE;
  model.description.functions["eval"].outputs.pop_back();
  expectFailure(judge(model).status(), StatusCode::Usage,
                "--early-stopping: the evaluation of this model has no "
                "accuracy");
}

//===----------------------------------------------------------------------===//
// In parts
//===----------------------------------------------------------------------===//

/// A loss with several minima, and plateaus between them.
double rugged(int64_t step) {
  return 2 - double(step / 6) / 8 + double(step * 7 % 5) / 16;
}

class TrainerEvaluationInParts : public TrainerEvaluation {
protected:
  TrainerEvaluationInParts() {
    EXPECT_TRUE(parseSchedule("plateau:0.5:1", options.schedule).ok());
    options.schedule.learningRate = 0.05;
    options.maxSteps = 60;
    options.evalEvery = 2;
    options.checkpointEvery = 3;
    options.keepCheckpoints = 1;
    options.best = Monitor();
    options.earlyStopping = EarlyStopping{Monitor(), 9};
  }

  void expectSame(const TrainResult &result, const Judged &model,
                  const TrainResult &whole, const Judged &reference) {
    EXPECT_EQ(result.steps, whole.steps);
    EXPECT_EQ(int(result.end), int(whole.end));
    EXPECT_EQ(result.best->step, whole.best->step);
    EXPECT_EQ(result.best->value, whole.best->value);
    EXPECT_EQ(const_cast<Judged &>(model).state("w")->bytes,
              const_cast<Judged &>(reference).state("w")->bytes);
    EXPECT_EQ(bestLink(), "step-" + std::to_string(whole.best->step));
  }
};

TEST_F(TrainerEvaluationInParts, TheRunIsTheOneInOne) {
  Judged reference(rugged);
  StatusOr<TrainResult> whole = judge(reference);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  ASSERT_GT(whole->best->step, 20);
  const std::vector<StepReport> steps = recorder.steps;
  ASSERT_LT(steps.back().learningRate, 0.01);
  options.resume = "auto";
  for (int64_t part : {4, 7}) {
    SCOPED_TRACE(part);
    options.checkpointDir = directory / ("c" + std::to_string(part));
    size_t done = 0;
    for (options.maxSteps = part;; options.maxSteps += part) {
      options.maxSteps = std::min<int64_t>(options.maxSteps, 60);
      Judged model(rugged);
      StatusOr<TrainResult> result = judge(model);
      ASSERT_TRUE(result.ok()) << result.status().message();
      for (const StepReport &step : recorder.steps) {
        EXPECT_EQ(step.learningRate, steps[done].learningRate) << step.step;
        EXPECT_EQ(step.loss, steps[done++].loss) << step.step;
      }
      if (options.maxSteps < 60 && result->end != RunEnd::EarlyStopping)
        continue;
      // With 7, evaluations at the ends are extra.
      if (part % 2 == 0)
        expectSame(*result, model, *whole, reference);
      EXPECT_EQ(result->steps, whole->steps);
      break;
    }
  }
}

TEST_F(TrainerEvaluationInParts, KilledAtAnyTimeItIsTheOneInOne) {
  Judged reference(rugged);
  StatusOr<TrainResult> whole = judge(reference);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  options.checkpointDir = directory / "c";
  options.resume = "auto";
  int kills = 0;
  const auto run = [&] {
    Judged model(rugged);
    return judge(model);
  };
  while (!trainAndKill(run, useconds_t(2000 + 1500 * kills)))
    ASSERT_LT(++kills, 1000);
  EXPECT_GT(kills, 0);
  Judged model(rugged);
  StatusOr<TrainResult> result = judge(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  expectSame(*result, model, *whole, reference);
}

TEST_F(TrainerEvaluationInParts, ABreakAtEveryChangeOfTheDiskLosesNothing) {
  options.maxSteps = 4;
  Judged reference(rugged);
  StatusOr<TrainResult> whole = judge(reference);
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  options.resume = "auto";
  bool isWhole = false;
  for (int changes = 0; !isWhole; ++changes) {
    SCOPED_TRACE(changes);
    options.checkpointDir = directory / ("c" + std::to_string(changes));
    int left = changes;
    setFaultHook([&](std::string_view, const std::string &) {
      if (left-- == 0)
        throw Killed();
      return 0;
    });
    try {
      Judged model(rugged);
      ASSERT_TRUE(judge(model).ok());
      isWhole = true;
    } catch (const Killed &) {
    }
    setFaultHook(nullptr);
    Judged model(rugged);
    StatusOr<TrainResult> result = judge(model);
    ASSERT_TRUE(result.ok()) << result.status().message();
    expectSame(*result, model, *whole, reference);
    // The newest, the best and its link. One unremoved checkpoint may remain.
    EXPECT_LE(checkpoints().size(), 4u);
  }
}

} // namespace
} // namespace mpc::runtime::train
