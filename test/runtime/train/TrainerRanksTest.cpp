// Tests the training loop over several ranks, which are threads here.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/distributed/ThreadCommunicator.h"
#include "test/runtime/train/TrainerFixture.h"

#include "runtime/train/support/Ranks.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <memory>

namespace mpc::runtime::train {
namespace {

/// A toy model that reduces its gradient, and counts its batches as a compiled
/// model does.
class RankModel : public ToyModel {
public:
  explicit RankModel(Communicator *communicator, int64_t accumulate = 1)
      : ToyModel(accumulate) {
    description.recipe = "{\"data_parallel\":true,\"loss\":"
                         "\"softmax_cross_entropy\"}";
    description.state.push_back(
        {kMicroStepVariable, Role::Counter, DType::I64, {}});
    if (communicator)
      reduce = [communicator](float *gradient, size_t count) {
        return communicator->allReduce(gradient, count, DType::F32,
                                       Reduce::Mean);
      };
    disturb = [this](int64_t, double &, bool &finite) {
      const Tensor gradient = *state("gradient");
      for (int64_t i = 0; i < gradient.size(); ++i)
        finite &= std::isfinite(gradient.as<float>()[i]);
    };
  }

  StatusOr<Tensor> state(std::string_view name) override {
    if (name != kMicroStepVariable)
      return ToyModel::state(name);
    Tensor value = Tensor::zeros(DType::I64, {});
    *value.as<int64_t>() = number;
    return value;
  }
  Status setState(std::string_view name, const Tensor &value) override {
    if (name != kMicroStepVariable)
      return ToyModel::setState(name, value);
    number = *value.as<int64_t>();
    return Status();
  }
  Status setInput(std::string_view function, std::string_view name,
                  const void *bytes, size_t size) override {
    if (function == failing && ++inputs > failAfter)
      return Status(StatusCode::InvalidInput, "a broken sample");
    return ToyModel::setInput(function, name, bytes, size);
  }
  Status run(std::string_view function) override {
    if (function == "step" || function == "accumulate")
      numbers.push_back(number++);
    if (stop && int64_t(numbers.size()) == stopAfter)
      *stop = 15;
    return ToyModel::run(function);
  }

  std::vector<int64_t> numbers; ///< of the batches trained on
  /// The function whose inputs fail, after this number of inputs.
  std::string failing;
  int64_t failAfter = 0;
  /// The flag to stop the run, and the batch at which this model raises it.
  std::atomic<int> *stop = nullptr;
  int64_t stopAfter = 0;

private:
  int64_t number = 0, inputs = 0;
};

/// A rank of a run, and what came of it.
struct Rank {
  std::unique_ptr<RankModel> model;
  TrainOptions options;
  Recorder recorder;
  std::atomic<int> stop{0};
  StatusOr<TrainResult> result = Status(StatusCode::Internal, "not run");
};

class TrainerRanks : public Trainer {
protected:
  /// Trains on `count` ranks with the fixture's options. `prepare` may change
  /// one of them.
  std::vector<std::unique_ptr<Rank>>
  trainOn(int count, int64_t samples,
          const std::function<void(int, Rank &)> &prepare = nullptr) {
    std::vector<std::unique_ptr<Rank>> ranks;
    for (int i = 0; i < count; ++i)
      ranks.push_back(std::make_unique<Rank>());
    runRanks(count, [&](Communicator &communicator) {
      Rank &rank = *ranks[size_t(communicator.rank())];
      rank.model = std::make_unique<RankModel>(&communicator);
      rank.options = options;
      rank.options.communicator = &communicator;
      if (prepare)
        prepare(communicator.rank(), rank);
      const Dataset data = toyData(*rank.model, samples);
      const Dataset held = toyData(*rank.model, evalSamples);
      rank.result = train(*rank.model, data, evalSamples ? &held : nullptr,
                          rank.options, &rank.recorder, &rank.stop);
    });
    return ranks;
  }

  int64_t evalSamples = 11;
};

void expectSameState(const std::vector<std::unique_ptr<Rank>> &ranks) {
  for (const auto &rank : ranks)
    EXPECT_EQ(stateOf(*rank->model), stateOf(*ranks[0]->model));
}

void expectNearWeights(ToyModel &a, ToyModel &b) {
  const Tensor first = *a.state("w"), second = *b.state("w");
  for (int64_t i = 0; i < first.size(); ++i)
    EXPECT_NEAR(first.as<float>()[i], second.as<float>()[i], 1e-5);
}

TEST_F(TrainerRanks, TrainLikeOneRankThatAccumulates) {
  options.epochs = 3;
  for (int count : {2, 3}) {
    RankModel one(nullptr, count);
    Recorder recorder;
    const Dataset data = toyData(one, 50), held = toyData(one, evalSamples);
    StatusOr<TrainResult> alone = train(one, data, &held, options, &recorder);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    auto ranks = trainOn(count, 50);
    for (int r = 0; r < count; ++r) {
      ASSERT_TRUE(ranks[r]->result.ok()) << ranks[r]->result.status().message();
      // Each rank has every count-th batch of the single rank, in its order and
      // with its number, which random numbers depend on.
      std::vector<float> features;
      std::vector<int64_t> numbers;
      for (size_t batch = size_t(r); batch < one.numbers.size();
           batch += size_t(count)) {
        const auto begin =
            one.firstFeatures.begin() + std::ptrdiff_t(batch) * one.kBatch;
        features.insert(features.end(), begin, begin + one.kBatch);
        numbers.push_back(one.numbers[batch]);
      }
      EXPECT_EQ(ranks[r]->model->firstFeatures, features);
      EXPECT_EQ(ranks[r]->model->numbers, numbers);
      const TrainResult &result = *ranks[r]->result;
      EXPECT_EQ(result.steps, alone->steps);
      EXPECT_EQ(result.samples, alone->samples);
      EXPECT_NEAR(*result.finalLoss, *alone->finalLoss, 1e-5);
      EXPECT_NEAR(result.evaluation->loss, alone->evaluation->loss, 1e-5);
      EXPECT_EQ(result.evaluation->samples, 11);
      EXPECT_EQ(result.evaluation->accuracy, alone->evaluation->accuracy);
    }
    ASSERT_EQ(ranks[0]->recorder.steps.size(), recorder.steps.size());
    for (size_t i = 0; i < recorder.steps.size(); ++i) {
      EXPECT_NEAR(ranks[0]->recorder.steps[i].loss, recorder.steps[i].loss,
                  1e-5);
      EXPECT_EQ(ranks[0]->recorder.steps[i].microStep,
                recorder.steps[i].microStep);
    }
    expectSameState(ranks);
    expectNearWeights(*ranks[0]->model, one);
    EXPECT_EQ(ranks[0]->recorder.start.ranks, count);
  }
}

TEST_F(TrainerRanks, TwoRunsHaveTheSameBits) {
  options.epochs = 2;
  auto first = trainOn(3, 40), second = trainOn(3, 40);
  EXPECT_EQ(stateOf(*first[0]->model), stateOf(*second[0]->model));
}

TEST_F(TrainerRanks, OnlyTheFirstReportsAndWrites) {
  options.checkpointDir = directory / "run";
  options.metrics = {directory / "metrics.jsonl"};
  auto ranks = trainOn(2, 40);
  EXPECT_FALSE(ranks[0]->recorder.steps.empty());
  EXPECT_FALSE(ranks[0]->recorder.saves.empty());
  EXPECT_TRUE(ranks[1]->recorder.steps.empty());
  EXPECT_TRUE(ranks[1]->recorder.notes.empty());
  EXPECT_GT(ranks[0]->recorder.steps[0].wireBytes.value_or(0), 0);
  const auto lines = readLines(options.metrics[0]);
  EXPECT_EQ(lines.front()["ranks"], 2);
  EXPECT_EQ(lines.back()["event"], "end");
}

TEST_F(TrainerRanks, GoOnWithAnotherNumberOfRanks) {
  options.epochs = 2;
  options.checkpointDir = directory / "run";
  options.resume = "auto";
  std::vector<float> seen;
  const auto trainSome = [&](int count, int64_t steps) {
    options.maxSteps = steps;
    auto ranks = trainOn(count, 48);
    for (const auto &rank : ranks) {
      EXPECT_TRUE(rank->result.ok()) << rank->result.status().message();
      seen.insert(seen.end(), rank->model->firstFeatures.begin(),
                  rank->model->firstFeatures.end());
    }
    expectSameState(ranks);
    return std::move(ranks[0]);
  };
  // Three steps of 8 samples, three of 4, and one of 12: one epoch.
  trainSome(2, 3);
  EXPECT_EQ(trainSome(1, 6)->result->samples, 36);
  std::unique_ptr<Rank> last = trainSome(3, 7);
  EXPECT_EQ(last->result->samples, 48);
  EXPECT_EQ(last->result->epochs, 1);
  bool isNoted = false;
  for (const std::string &note : last->recorder.notes)
    isNoted |= note.find("ranks was 1, now it is 3") != std::string::npos;
  EXPECT_TRUE(isNoted);
  // Every sample of the epoch was seen once.
  ToyModel whole;
  options.maxSteps = 12;
  options.checkpointDir = options.resume = "";
  ASSERT_TRUE(run(whole, 48).ok());
  std::sort(seen.begin(), seen.end());
  std::sort(whole.firstFeatures.begin(), whole.firstFeatures.end());
  EXPECT_EQ(seen, whole.firstFeatures);
  // The second epoch has 4 steps of 12 samples.
  options.checkpointDir = directory / "run";
  options.resume = "auto";
  EXPECT_EQ(trainSome(3, 0)->result->steps, 11);
}

TEST_F(TrainerRanks, ContinueTheStepsOfOneThatAccumulates) {
  options.epochs = 3;
  options.lastBatch = LastBatch::Keep;
  RankModel whole(nullptr, 2);
  const Dataset data = toyData(whole, 50);
  ASSERT_TRUE(train(whole, data, nullptr, options).ok());
  // The first 11 of 21 steps on one rank, the next on two, the last on one.
  options.checkpointDir = directory / "run";
  options.resume = "auto";
  const auto trainAlone = [&](RankModel &model) {
    StatusOr<TrainResult> result =
        train(model, data, nullptr, options, &recorder);
    EXPECT_TRUE(result.ok()) << result.status().message();
  };
  RankModel first(nullptr, 2), last(nullptr, 2);
  options.maxSteps = 11;
  trainAlone(first);
  options.maxSteps = 16;
  auto ranks = trainOn(2, 50);
  ASSERT_TRUE(ranks[0]->result.ok()) << ranks[0]->result.status().message();
  options.maxSteps = 0;
  trainAlone(last);
  EXPECT_EQ(recorder.start.totalEpochs, 3);
  std::vector<float> seen = first.firstFeatures;
  constexpr std::ptrdiff_t kBatch = ToyModel::kBatch;
  for (std::ptrdiff_t batch = 0; batch < 5; ++batch)
    for (const auto &rank : ranks) {
      const auto begin = rank->model->firstFeatures.begin() + batch * kBatch;
      seen.insert(seen.end(), begin, begin + kBatch);
    }
  seen.insert(seen.end(), last.firstFeatures.begin(), last.firstFeatures.end());
  EXPECT_EQ(seen, whole.firstFeatures);
  expectNearWeights(last, whole);
}

TEST_F(TrainerRanks, AStepThatOneHadBegunBeginsAgain) {
  options.checkpointDir = directory / "run";
  options.resume = "auto";
  RankModel one(nullptr, 2);
  one.stopAfter = 5;
  one.stop = &stop;
  const Dataset data = toyData(one, 48);
  StatusOr<TrainResult> part =
      train(one, data, nullptr, options, &recorder, &stop);
  ASSERT_TRUE(part.ok()) << part.status().message();
  EXPECT_EQ(part->steps, 2);
  auto ranks = trainOn(2, 48);
  ASSERT_TRUE(ranks[0]->result.ok()) << ranks[0]->result.status().message();
  EXPECT_EQ(ranks[0]->result->steps, 6);
  // Rank 0 sees the samples of the fifth batch again.
  const std::vector<float> &seen = ranks[0]->model->firstFeatures;
  EXPECT_TRUE(std::equal(one.firstFeatures.begin() + 4 * ToyModel::kBatch,
                         one.firstFeatures.end(), seen.begin()));
  EXPECT_EQ(ranks[0]->model->numbers.front(), 4);
}

TEST_F(TrainerRanks, StepsOfOtherSamplesAreOfAnotherRun) {
  options.checkpointDir = directory / "run";
  options.resume = "auto";
  options.maxSteps = 2;
  RankModel one(nullptr, 3);
  const Dataset data = toyData(one, 48);
  one.description.recipe = R"({"accumulate":3,"data_parallel":true})";
  ASSERT_TRUE(train(one, data, nullptr, options).ok());
  auto ranks = trainOn(2, 48, [](int, Rank &rank) {
    rank.model->description.recipe = R"({"accumulate":1,"data_parallel":true})";
  });
  expectFailure(ranks[0]->result.status(), StatusCode::Checkpoint,
                "accumulate was 3, now it is 1");
}

TEST_F(TrainerRanks, AnOverflowOnOneSkipsTheStepOnAll) {
  auto ranks = trainOn(3, 48, [](int r, Rank &rank) {
    if (r != 1)
      return;
    auto reduce = rank.model->reduce;
    rank.model->reduce = [reduce, step = 0](float *gradient,
                                            size_t count) mutable {
      if (++step == 2)
        gradient[3] = std::numeric_limits<float>::infinity();
      return reduce(gradient, count);
    };
  });
  for (const auto &rank : ranks) {
    ASSERT_TRUE(rank->result.ok()) << rank->result.status().message();
    EXPECT_EQ(rank->result->skipped, 1);
  }
  expectSameState(ranks);
}

TEST_F(TrainerRanks, ASkipThatIsNotOfAllIsAnError) {
  auto ranks = trainOn(2, 48, [](int r, Rank &rank) {
    if (r == 1)
      rank.model->disturb = [](int64_t attempt, double &, bool &finite) {
        finite = attempt != 2;
      };
  });
  for (const auto &rank : ranks)
    expectFailure(rank->result.status(), StatusCode::Rank,
                  "rank 1 skipped a step that rank 0 did not skip");
}

TEST_F(TrainerRanks, AStopOfOneStopsAllAfterTheSameStep) {
  options.checkpointDir = directory / "run";
  options.epochs = 5;
  auto ranks = trainOn(2, 48, [](int r, Rank &rank) {
    if (r == 1)
      rank.model->disturb = [&rank](int64_t attempt, double &, bool &) {
        if (attempt == 3)
          rank.stop = 15;
      };
  });
  for (const auto &rank : ranks) {
    ASSERT_TRUE(rank->result.ok()) << rank->result.status().message();
    EXPECT_EQ(rank->result->steps, 3);
    EXPECT_EQ(rank->result->stopSignal, 15);
  }
  EXPECT_EQ(ranks[0]->recorder.saves, std::vector<int64_t>{3});
}

TEST_F(TrainerRanks, ARequestOfOneSavesACheckpoint) {
  options.checkpointDir = directory / "run";
  options.checkpointEvery = 100;
  std::atomic<bool> asks{false};
  auto ranks = trainOn(2, 48, [&](int r, Rank &rank) {
    if (r != 1)
      return;
    rank.options.saveNow = &asks;
    rank.model->disturb = [&](int64_t attempt, double &, bool &) {
      if (attempt == 2)
        asks = true;
    };
  });
  ASSERT_TRUE(ranks[0]->result.ok());
  EXPECT_EQ(ranks[0]->recorder.saves, (std::vector<int64_t>{2, 6}));
}

TEST_F(TrainerRanks, AFailureWithinAStepEndsAll) {
  auto ranks = trainOn(3, 48, [](int r, Rank &rank) {
    if (r == 2) {
      rank.model->failing = "step";
      rank.model->failAfter = 7;
    }
  });
  expectFailure(ranks[0]->result.status(), StatusCode::Rank,
                "rank 2: a broken sample");
  expectFailure(ranks[1]->result.status(), StatusCode::Rank, "rank 2");
  expectFailure(ranks[2]->result.status(), StatusCode::InvalidInput,
                "a broken sample");
}

TEST_F(TrainerRanks, AFailureInAnEvaluationHasItsCodeOnAll) {
  auto ranks = trainOn(3, 48, [](int r, Rank &rank) {
    if (r == 2)
      rank.model->failing = "eval";
  });
  for (int r : {0, 1, 2})
    expectFailure(ranks[r]->result.status(), StatusCode::InvalidInput,
                  "rank 2: a broken sample");
}

TEST_F(TrainerRanks, AnArtifactForASingleRankIsRefused) {
  auto ranks = trainOn(2, 48, [](int, Rank &rank) {
    rank.model->description.recipe = "{\"loss\":\"softmax_cross_entropy\"}";
  });
  expectFailure(ranks[0]->result.status(), StatusCode::Unsupported,
                "compile the model with --data-parallel");
}

TEST_F(TrainerRanks, OtherFlagsAreAnErrorAtTheStart) {
  auto ranks = trainOn(2, 48, [](int r, Rank &rank) {
    if (r == 1)
      rank.options.seed = 4;
  });
  expectFailure(ranks[0]->result.status(), StatusCode::Usage,
                "rank 1: trains another run than rank 0: seed is 4, rank 0 has "
                "3");
  EXPECT_EQ(ranks[1]->result.status().getCode(), StatusCode::Usage);
  EXPECT_TRUE(ranks[0]->recorder.steps.empty());
}

TEST_F(TrainerRanks, AnotherLearningRateIsAnErrorAtTheStart) {
  auto ranks = trainOn(2, 48, [](int r, Rank &rank) {
    rank.options.schedule.learningRate = r == 1 ? 0.25 : 0.125;
  });
  expectFailure(ranks[0]->result.status(), StatusCode::Usage,
                "rank 1: trains another run than rank 0: learning rate is "
                "0.25, rank 0 has 0.125");
  EXPECT_TRUE(ranks[0]->recorder.steps.empty());
}

TEST_F(TrainerRanks, WeightsThatDriftApartAreAnError) {
  // Without a reduction, each rank trains a model of its own.
  auto ranks =
      trainOn(2, 48, [](int, Rank &rank) { rank.model->reduce = nullptr; });
  for (const auto &rank : ranks)
    expectFailure(rank->result.status(), StatusCode::Rank,
                  "'w' is not the same on rank 1 as on rank 0");
}

TEST_F(TrainerRanks, AreComparedAfterAsManyStepsAsAskedFor) {
  for (const int64_t every : {1, 3, 1000}) {
    options.checkRanksEvery = every;
    auto ranks = trainOn(2, 48, [](int r, Rank &rank) {
      // A reduction that one rank alters.
      if (r == 0)
        return;
      auto reduce = rank.model->reduce;
      rank.model->reduce = [reduce](float *gradient, size_t count) {
        Status status = reduce(gradient, count);
        gradient[0] = std::nextafter(gradient[0], 1e9f);
        return status;
      };
    });
    for (const auto &rank : ranks)
      expectFailure(rank->result.status(), StatusCode::Rank,
                    "is not the same on rank 1 as on rank 0");
    // There are 6 steps, and a check at the end.
    EXPECT_EQ(ranks[0]->recorder.steps.size(),
              size_t(std::min(every, int64_t(6))));
  }
}

TEST_F(TrainerRanks, BestWeightsAndEarlyStoppingAreThoseOfAll) {
  options.best = *parseMonitor("loss");
  options.earlyStopping = *parseEarlyStopping("accuracy:2");
  options.evalEvery = 1;
  for (const bool inFolder : {false, true}) {
    options.checkpointDir = inFolder ? directory / "run" : "";
    options.schedule.learningRate = 3;
    auto ranks = trainOn(2, 48);
    for (const auto &rank : ranks) {
      ASSERT_TRUE(rank->result.ok()) << rank->result.status().message();
      EXPECT_EQ(rank->result->end, RunEnd::EarlyStopping);
      EXPECT_EQ(rank->result->best->step, ranks[0]->result->best->step);
      EXPECT_EQ(rank->model->state("w")->bytes,
                ranks[0]->model->state("w")->bytes);
    }
  }
}

TEST_F(TrainerRanks, ALossThatIsNotFiniteEndsAllAndNamesTheRank) {
  options.maxNonfinite = 2;
  options.epochs = 5;
  auto ranks = trainOn(2, 48, [](int r, Rank &rank) {
    if (r == 1)
      rank.model->disturb = [](int64_t attempt, double &loss, bool &) {
        if (attempt > 3)
          loss = NAN;
      };
  });
  expectFailure(ranks[0]->result.status(), StatusCode::Numeric,
                "step 5: the loss has not been finite for 2 steps");
  expectFailure(ranks[0]->result.status(), StatusCode::Numeric, "on rank 1, ");
  EXPECT_EQ(ranks[1]->result.status().getCode(), StatusCode::Numeric);
}

TEST_F(TrainerRanks, EvaluateEachSampleOnce) {
  ToyModel plain;
  const std::vector<std::string> metrics = {
      "top1", "top2", "f1",  "precision",         "recall",
      "iou",  "mcc",  "auc", "balanced_accuracy", "perplexity"};
  const Tensor weights = [] {
    Tensor value = Tensor::zeros(DType::F32, {4, 3});
    for (int i = 0; i < 12; ++i)
      value.as<float>()[i] = float(i * 7 % 5) / 5 - 0.3f;
    return value;
  }();
  ASSERT_TRUE(plain.setState("w", weights).ok());
  for (int64_t samples : {3, 23, 40}) {
    StatusOr<EvalResult> alone =
        evaluate(plain, toyData(plain, samples), nullptr, metrics);
    ASSERT_TRUE(alone.ok()) << alone.status().message();
    runRanks(3, [&](Communicator &communicator) {
      ToyModel model;
      Ranks ranks(&communicator);
      ASSERT_TRUE(model.setState("w", weights).ok());
      StatusOr<EvalResult> shared =
          evaluate(model, toyData(model, samples), nullptr, metrics, nullptr,
                   false, &ranks);
      ASSERT_TRUE(shared.ok()) << shared.status().message();
      EXPECT_EQ(shared->samples, samples);
      EXPECT_EQ(shared->accuracy, alone->accuracy);
      EXPECT_NEAR(shared->loss, alone->loss, 1e-12);
      ASSERT_EQ(shared->metrics.size(), metrics.size());
      for (size_t i = 0; i < metrics.size(); ++i)
        EXPECT_NEAR(shared->metrics[i].second, alone->metrics[i].second, 1e-12)
            << metrics[i];
    });
  }
}

} // namespace
} // namespace mpc::runtime::train
