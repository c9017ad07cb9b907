// Tests the training loop: arithmetic, metrics, and ends.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/TrainerFixture.h"

#include "runtime/train/RunStatistics.h"

#include <cmath>
#include <cstring>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

namespace mpc::runtime::train {
namespace {

using nlohmann::json;

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

// `mpc train` resets the peak after compiling.
TEST_F(Trainer, PeakMemoryIsThatSinceItWasReset) {
  if (access("/proc/self/clear_refs", W_OK) != 0)
    GTEST_SKIP() << "this system does not let processes reset it";
  constexpr size_t kBytes = size_t(64) << 20;
  // The memory returns to the system at once. Allocators keep some memory, and
  // sanitizers all.
  auto touch = [](size_t bytes) {
    void *memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    std::memset(memory, 1, bytes);
    munmap(memory, bytes);
  };
  // Earlier tests may have used more memory.
  resetPeakMemory();
  touch(kBytes);
  const size_t before = PeakMemory().bytes();
  resetPeakMemory();
  EXPECT_LE(PeakMemory().bytes() + kBytes / 2, before);
  touch(2 * kBytes);
  EXPECT_GE(PeakMemory().bytes() + kBytes / 2, before + kBytes);
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
  EXPECT_EQ(result->steps, 2); // of 8 samples each; 4 samples are left out
  EXPECT_EQ(recorder.steps[1].microStep, 4);
  EXPECT_EQ(recorder.steps[1].samples, 16);
  EXPECT_EQ(model.learningRates.size(), 2u);
  // Weights start at zero: every class is equally likely.
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
  options.metrics = {directory / "m.jsonl"};
  model.disturb = [](int64_t attempt, double &loss, bool &) {
    if (attempt == 2 || attempt >= 5)
      loss = NAN;
  };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "step 7: the loss has not been finite for 3 steps");
  const std::vector<json> lines = readLines(options.metrics.front());
  EXPECT_EQ(lines[2]["loss"], "nan");
  EXPECT_EQ(lines.back()["event"], "end");
  EXPECT_EQ(lines.back()["exit_code"], 7);
}

// The loss is unscaled, so no loss scale makes it finite.
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
  options.metrics = {directory / "m.jsonl"};
  model.disturb = [](int64_t attempt, double &loss, bool &) {
    loss = attempt == 6 ? NAN : loss;
  };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "the run ends with a loss of nan");
  EXPECT_EQ(readLines(options.metrics.front()).back()["exit_code"], 7);
}

/// Makes the weight at [1, 2] infinite in that attempt, without a change of the
/// loss.
static void breakWeights(ToyModel &model, int64_t broken) {
  model.disturb = [&model, broken](int64_t attempt, double &, bool &) {
    if (attempt != broken)
      return;
    Tensor w = *model.state("w");
    w.as<float>()[5] = INFINITY;
    ASSERT_TRUE(model.setState("w", w).ok());
  };
}

// The loss of the last step precedes its update.
TEST_F(Trainer, ARunWhoseLastUpdateMakesWeightsInfiniteIsNoSuccess) {
  ToyModel model;
  options.maxSteps = 6;
  options.metrics = {directory / "m.jsonl"};
  options.checkpointDir = directory / "c";
  breakWeights(model, 6);
  const Status status = run(model).status();
  expectFailure(status, StatusCode::Numeric,
                "the run ends with weights that are not finite: parameter 'w' "
                "is inf at [1, 2]; try a smaller --lr");
  expectFailure(status, StatusCode::Numeric,
                "the last good checkpoint is " + (directory / "c/step-5"));
  EXPECT_EQ(recorder.saves, (std::vector<int64_t>{5}));
  EXPECT_EQ(readLines(options.metrics.front()).back()["exit_code"], 7);
}

TEST_F(Trainer, SaysWhichUpdateMadeWeightsInfinite) {
  ToyModel model;
  options.maxSteps = 2;
  // The toy counts repeated steps too: the second attempt, and the fourth when
  // both are repeated.
  model.disturb = [&model](int64_t attempt, double &, bool &) {
    Tensor w = *model.state("w");
    w.as<float>()[5] = attempt % 2 == 0 ? INFINITY : 0.0f;
    ASSERT_TRUE(model.setState("w", w).ok());
  };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "first non-finite value: in step 2, after the update parameter "
                "'w' is inf at "
                "[1, 2]");
}

TEST_F(Trainer, ARunThatIsStoppedWithInfiniteWeightsIsNoSuccess) {
  ToyModel model;
  options.maxSteps = 6;
  breakWeights(model, 2);
  std::atomic<int> stop = 0;
  recorder.onStep = [&](const StepReport &report) {
    stop = report.step == 2 ? SIGINT : 0;
  };
  const Dataset data = toyData(model, 20);
  expectFailure(train(model, data, nullptr, options, &recorder, &stop).status(),
                StatusCode::Numeric,
                "the run ends with weights that are not finite");
}

// A trained mask of scores may start infinite.
TEST_F(Trainer, WeightsThatAreInfiniteToBeginWithEndNoRun) {
  ToyModel model;
  Tensor w = *model.state("w");
  w.as<float>()[0] = -INFINITY;
  ASSERT_TRUE(model.setState("w", w).ok());
  // The toy's own loss would be NaN.
  model.disturb = [](int64_t attempt, double &loss, bool &finite) {
    loss = 1;
    finite = false;
  };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "nothing was trained");
}

TEST_F(Trainer, WeightsThatAreInfiniteToBeginWithAreInCheckpoints) {
  struct Masked : ToyModel {
    Masked() { EXPECT_TRUE(set(-INFINITY).ok()); }
    Status set(float value) {
      Tensor w = *state("w");
      w.as<float>()[5] = value;
      return setState("w", w);
    }
    // The toy's computation supports no masks.
    Status run(std::string_view function) override {
      EXPECT_TRUE(set(0).ok());
      EXPECT_TRUE(ToyModel::run(function).ok());
      return set(-INFINITY);
    }
  };
  Masked model;
  options.maxSteps = 2;
  options.checkpointDir = directory / "c";
  const StatusOr<TrainResult> result = run(model);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(recorder.saves, (std::vector<int64_t>{2}));
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
  model.description.dynamicLossScale = true; // the toy's scale is always 65536
  options.maxSteps = 1000;
  model.disturb = [](int64_t, double &, bool &finite) { finite = false; };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "step 11: gradients are not finite even at the smallest loss "
                "scale of 65536");
}

// The toy reports the row of a batch that is to blame.
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
  // The toy continues its count in the repetition. The first traced step fails:
  // step 11, whose second sample of the epoch is 0.
  expectFailure(status, StatusCode::Numeric,
                "first non-finite value: in step 11, node "
                "'toy' gives nan, for sample 2 of the data");
  expectFailure(status, StatusCode::Numeric,
                "the last good checkpoint is " + (directory / "c/step-10"));
  EXPECT_EQ(recorder.saves, (std::vector<int64_t>{5, 10}));
}

TEST_F(Trainer, WithoutCheckpointsItLooksFromTheBeginning) {
  ToyModel model;
  options.maxSteps = 4;
  options.shuffle = false;
  model.disturb = [](int64_t attempt, double &loss, bool &) {
    // The fourth attempt, and in the repetition the fourth again.
    loss = attempt % 4 == 0 ? NAN : loss;
  };
  expectFailure(run(model).status(), StatusCode::Numeric,
                "first non-finite value: in step 4, node 'toy' gives nan, for "
                "sample 14 of the data");
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
  options.metrics = {directory / "m.jsonl"};
  options.version = "1.2.3";
  const Dataset data = toyData(model, 20);
  ASSERT_TRUE(run(model, 20, &data).ok());
  const std::string text = readFile(options.metrics.front());
  const std::vector<json> lines = readLines(options.metrics.front());
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
  options.metrics = {directory / "m.jsonl"};
  ASSERT_TRUE(run(model).ok());
  EXPECT_NE(
      readFile(options.metrics.front()).find("\"lr\":0.050000000000000003"),
      std::string::npos);
}

TEST_F(Trainer, RefusesScalarsItDoesNotKnow) {
  ToyModel model;
  model.description.functions["step"].inputs.push_back(
      {"beta", Role::Scalar, DType::F32, {}});
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

TEST(StepTimes, HaveAMedianInBoundedMemory) {
  StepTimes few;
  EXPECT_EQ(few.median(), 0);
  for (double value : {3., 1., 2., 10.})
    few.add(value);
  EXPECT_EQ(few.median(), 2.5);
  StepTimes many;
  for (int i = 0; i < 1000000; ++i)
    many.add(i);
  EXPECT_NEAR(many.median(), 500000, 500);
  static_assert(sizeof(StepTimes) < 100);
}

} // namespace
} // namespace mpc::runtime::train
