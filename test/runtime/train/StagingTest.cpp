// Tests staging: batches move to the device while the previous step runs. The
// order of calls is as specified, and the results are the same.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/TrainerFixture.h"

#include <algorithm>
#include <cmath>

namespace mpc::runtime::train {
namespace {

/// A model that accepts inputs while it runs, and records its calls. As in a
/// session, each function has inputs of its own.
class StagingModel : public ToyModel {
public:
  using ToyModel::ToyModel;

  Status setInput(std::string_view function, std::string_view name,
                  const void *bytes, size_t size) override {
    if (name == "x")
      calls.push_back("set");
    if (name == "learning_rate" || name == "seed")
      scalars.emplace_back(name);
    give(function, name, bytes, size);
    return Status();
  }
  StatusOr<std::byte *> stagingMemory(std::string_view function,
                                      std::string_view name) override {
    if (!room && name != "x")
      return Status(StatusCode::Device, "no room");
    std::vector<std::byte> &memory = staged[keyOf(function, name)];
    memory.resize(name == "x" ? kBatch * kFeatures * sizeof(float)
                              : kBatch * sizeof(int64_t));
    return memory.data();
  }
  Status stage(std::string_view function, std::string_view name) override {
    if (name == "x")
      calls.push_back("stage");
    const std::vector<std::byte> &memory = staged.at(keyOf(function, name));
    give(function, name, memory.data(), memory.size());
    if (++stages % failing)
      return Status();
    // A failed copy may have written half of the value.
    std::vector<std::byte> &half = given[keyOf(function, name)];
    std::fill_n(half.begin(), half.size() / 2, std::byte(0));
    return Status(StatusCode::Device, "cannot copy");
  }
  void endStaging(std::string_view) override { staged.clear(); }
  Status run(std::string_view function) override {
    calls.push_back("run");
    for (const Port &port : info().function(function)->inputs) {
      const std::vector<std::byte> &value = given[keyOf(function, port.name)];
      EXPECT_TRUE(
          ToyModel::setInput(function, port.name, value.data(), value.size())
              .ok());
    }
    return ToyModel::run(function);
  }
  StatusOr<Tensor> output(std::string_view function,
                          std::string_view name) override {
    if (name == "loss")
      calls.push_back("loss");
    return ToyModel::output(function, name);
  }

  bool hasStages() const { return !staged.empty(); }

  bool room = true;          ///< applies to labels too
  int64_t failing = 1 << 20; ///< every so many calls of `stage` fail
  int64_t stages = 0;
  std::vector<std::string> calls, scalars;

private:
  using Values = std::map<std::string, std::vector<std::byte>>;

  static std::string keyOf(std::string_view function, std::string_view name) {
    return std::string(function) + " " + std::string(name);
  }
  void give(std::string_view function, std::string_view name, const void *bytes,
            size_t size) {
    const auto *first = static_cast<const std::byte *>(bytes);
    given[keyOf(function, name)].assign(first, first + size);
  }

  Values staged; ///< memory given to the caller
  Values given;  ///< to the inputs
};

using Staging = Trainer;

using Calls = std::vector<std::string>;

TEST_F(Staging, TheNextBatchIsStagedBeforeTheLossIsWaitedFor) {
  options.maxSteps = 3;
  StagingModel model;
  ASSERT_TRUE(run(model).ok());
  EXPECT_EQ(model.calls, (Calls{"set", "run", "stage", "loss", "run", "stage",
                                "loss", "run", "loss"}));
}

TEST_F(Staging, AnEpochsFirstBatchIsStagedInTheEpochBefore) {
  options.epochs = 2;
  StagingModel model;
  ASSERT_TRUE(run(model).ok());
  EXPECT_EQ(std::count(model.calls.begin(), model.calls.end(), "set"), 1);
  EXPECT_EQ(std::count(model.calls.begin(), model.calls.end(), "stage"), 9);
}

/// Compares the effects of `train` in a model that stages and in one that does
/// not.
void expectSame(StagingModel &model, ToyModel &other) {
  EXPECT_EQ(stateOf(model), stateOf(other));
  EXPECT_EQ(model.firstFeatures, other.firstFeatures);
  EXPECT_GT(std::count(model.calls.begin(), model.calls.end(), "stage"), 3);
}

TEST_F(Staging, ChangesNothing) {
  options.epochs = 3;
  for (LastBatch last : {LastBatch::Drop, LastBatch::Keep})
    for (int64_t accumulate : {1, 2})
      for (bool shuffle : {false, true}) {
        options.lastBatch = last;
        options.shuffle = shuffle;
        ToyModel plain(accumulate);
        StagingModel model(accumulate);
        const Dataset evalData = toyData(plain, 6);
        ASSERT_TRUE(run(plain, 22, &evalData).ok());
        ASSERT_TRUE(run(model, 22, &evalData).ok());
        expectSame(model, plain);
      }
}

TEST_F(Staging, AResumedRunBindsItsFirstBatch) {
  for (int64_t accumulate : {1, 2}) {
    options = TrainOptions();
    options.schedule.learningRate = 0.05;
    options.epochs = 4;
    ToyModel plain(accumulate);
    ASSERT_TRUE(run(plain).ok());
    // The stopped run has staged its next batch in vain.
    options.checkpointDir = directory / std::to_string(accumulate);
    stop = 0;
    StagingModel first(accumulate);
    recorder = Recorder();
    recorder.onStep = [&](const StepReport &report) {
      stop = report.step == 3 ? 15 : 0;
    };
    ASSERT_TRUE(
        train(first, toyData(first, 20), nullptr, options, &recorder, &stop)
            .ok());
    stop = 0;
    options.resume = "auto";
    StagingModel second(accumulate);
    ASSERT_TRUE(run(second).ok());
    EXPECT_EQ(second.calls.front(), "set");
    EXPECT_EQ(stateOf(second), stateOf(plain));
  }
}

TEST_F(Staging, WhatCannotBeStagedIsBound) {
  options.epochs = 2;
  ToyModel plain;
  ASSERT_TRUE(run(plain).ok());
  StagingModel model;
  model.failing = 3;
  ASSERT_TRUE(run(model).ok());
  expectSame(model, plain);
  EXPECT_GT(std::count(model.calls.begin(), model.calls.end(), "set"), 3);
}

TEST_F(Staging, WithoutRoomEachBatchIsBound) {
  options.epochs = 2;
  ToyModel plain;
  ASSERT_TRUE(run(plain).ok());
  StagingModel model;
  model.room = false;
  ASSERT_TRUE(run(model).ok());
  EXPECT_EQ(stateOf(model), stateOf(plain));
  EXPECT_FALSE(model.hasStages());
  EXPECT_EQ(std::count(model.calls.begin(), model.calls.end(), "set"), 10);
  EXPECT_EQ(std::count(model.calls.begin(), model.calls.end(), "stage"), 0);
}

TEST_F(Staging, EvaluationsStageTheirBatches) {
  StagingModel model;
  ToyModel plain;
  const Dataset data = toyData(plain, 14);
  const StatusOr<EvalResult> staged = evaluate(model, data),
                             bound = evaluate(plain, data);
  ASSERT_TRUE(staged.ok() && bound.ok());
  EXPECT_EQ(staged->loss, bound->loss);
  EXPECT_EQ(staged->accuracy, bound->accuracy);
  EXPECT_EQ(staged->samples, 14);
  // The samples that fill no batch run beside two other sets of samples.
  EXPECT_EQ(model.calls, (Calls{"set", "run", "stage", "run", "stage", "run",
                                "set", "run", "set", "run"}));
}

/// A launch waits for each value that is uploaded.
TEST_F(Staging, ScalarsAreSentWhenTheyChange) {
  options.maxSteps = 5;
  options.epochs = 2;
  StagingModel model;
  ASSERT_TRUE(run(model).ok());
  EXPECT_EQ(model.scalars, (Calls{"learning_rate", "seed"}));
  options.schedule.warmupSteps = 3;
  StagingModel warmed;
  ASSERT_TRUE(run(warmed).ok());
  EXPECT_EQ(warmed.scalars,
            (Calls{"learning_rate", "seed", "learning_rate", "learning_rate"}));
}

/// The search for the first non-finite value repeats other steps than the last
/// staged one.
TEST_F(Staging, ASearchForNonFiniteValuesBindsWhatItRuns) {
  options.epochs = 5;
  options.maxNonfinite = 3;
  std::string messages[2];
  StagingModel model;
  ToyModel plain;
  const auto fail = [&](ToyModel &trained) {
    trained.disturb = [](int64_t attempt, double &loss, bool &) {
      if (attempt >= 7)
        loss = std::nan("");
    };
    return run(trained).status();
  };
  const Status status = fail(model);
  EXPECT_EQ(status.getCode(), StatusCode::Numeric);
  EXPECT_EQ(status.message(), fail(plain).message());
  EXPECT_EQ(model.firstFeatures, plain.firstFeatures);
}

} // namespace
} // namespace mpc::runtime::train
