// Tests the C API over several ranks, which are threads with a back end of
// their own here.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/capi/CAPIRanksFixture.h"

#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace mpc::runtime::train::capi {
namespace {

//===----------------------------------------------------------------------===//
// Models for several ranks
//===----------------------------------------------------------------------===//

/// step: w -= learning_rate * mean of x over the ranks. The statistic s is x of
/// this rank.
test::Bytes makeRankArtifact(bool reduces = true) {
  test::ArtifactBuilder builder;
  builder.filledState("w", DType::F32, {kBatch}, 0);
  builder.filledState("s", DType::F32, {kBatch}, 0, "statistic");
  builder.filledState(kMicroStepVariable, DType::I64, {}, 0, "counter");
  test::FunctionBuilder step = builder.function("step");
  const size_t x = step.input("x", DType::F32, {kBatch});
  const size_t rate = step.input("learning_rate", DType::F32, {});
  const size_t gradient = step.arena(DType::F32, {kBatch});
  test::Json &json = builder.plan["functions"]["step"];
  addLoss(step, json, x);
  for (size_t to : {step.state("s"), gradient})
    step.step({{"op", "copy"}, {"src", x}, {"dst", to}});
  step.step({{"op", "all_reduce"}, {"buffer", gradient}, {"kind", "mean"}});
  step.launch("sgd", {step.state("w"), gradient, rate}, kBatch, kBatch);
  json["inputs"][1]["role"] = "scalar";
  addEval(builder);
  builder.plan["recipe"] = {{"loss", "mse@y"}, {"accumulate", 1}};
  if (reduces)
    builder.plan["recipe"]["data_parallel"] = true;
  return builder.build();
}

/// accumulate: g += x. update: w -= learning_rate * mean of g over the ranks,
/// and g = 0.
test::Bytes makeAccumulatingRankArtifact() {
  test::ArtifactBuilder builder;
  builder.filledState("w", DType::F32, {kBatch}, 0);
  builder.filledState("g", DType::F32, {kBatch}, 0, "accumulator");
  test::FunctionBuilder accumulate = builder.function("accumulate");
  const size_t x = accumulate.input("x", DType::F32, {kBatch});
  const size_t g = accumulate.state("g");
  accumulate.launch("add", {g, x, g}, kBatch, kBatch);
  addLoss(accumulate, builder.plan["functions"]["accumulate"], x);
  test::FunctionBuilder update = builder.function("update");
  const size_t rate = update.input("learning_rate", DType::F32, {});
  const size_t mean = update.arena(DType::F32, {kBatch});
  update.step({{"op", "copy"}, {"src", update.state("g")}, {"dst", mean}});
  update.step({{"op", "all_reduce"}, {"buffer", mean}, {"kind", "mean"}});
  update.launch("sgd", {update.state("w"), mean, rate}, kBatch, kBatch);
  const size_t zeros = update.constant(test::floats({kBatch}, {0, 0, 0, 0}));
  update.step({{"op", "copy"}, {"src", zeros}, {"dst", update.state("g")}});
  builder.plan["functions"]["update"]["inputs"][0]["role"] = "scalar";
  builder.plan["recipe"] = {
      {"loss", "mse@y"}, {"accumulate", 2}, {"data_parallel", true}};
  return builder.build();
}

class CAPIRanks : public OnRanks {
protected:
  /// Like onRanks, with trainers.
  template <typename Body>
  void trainOnRanks(int count, Body body) {
    onRanks(count, makeRankArtifact(), [&](Rank &rank) {
      ASSERT_EQ(codeOf(rank.create()), MPC_OK);
      body(rank);
    });
  }
};

//===----------------------------------------------------------------------===//
// Communicators
//===----------------------------------------------------------------------===//

TEST_F(CAPIRanks, TellTheirPlace) {
  onRanks(3, makeRankArtifact(), [](Rank &rank) {
    EXPECT_EQ(mpc_communicator_rank(rank.communicator), rank.end.rank);
    EXPECT_EQ(mpc_communicator_size(rank.communicator), 3);
    EXPECT_EQ(mpc_communicator_local_rank(rank.communicator), 0);
    EXPECT_EQ(mpc_communicator_local_size(rank.communicator), 1);
    EXPECT_STREQ(mpc_communicator_backend(rank.communicator), "threads");
    EXPECT_EQ(mpc_communicator_bytes_sent(rank.communicator), 0u);
    EXPECT_EQ(codeOf(mpc_communicator_barrier(rank.communicator)), MPC_OK);
    ASSERT_EQ(codeOf(rank.create()), MPC_OK);
    EXPECT_GT(mpc_communicator_bytes_sent(rank.communicator), 0u);
  });
}

TEST_F(CAPIRanks, ASingleRankHasNoBackend) {
  EXPECT_EQ(mpc_communicator_rank(nullptr), 0);
  EXPECT_EQ(mpc_communicator_size(nullptr), 1);
  EXPECT_EQ(mpc_communicator_local_rank(nullptr), 0);
  EXPECT_EQ(mpc_communicator_local_size(nullptr), 1);
  EXPECT_STREQ(mpc_communicator_backend(nullptr), "");
  EXPECT_EQ(mpc_communicator_bytes_sent(nullptr), 0u);
  mpc_communicator_abort(nullptr, "nothing");
  mpc_communicator_free(nullptr);
  expectStatus(mpc_communicator_barrier(nullptr), MPC_USAGE, "is NULL");

  End end{std::make_shared<ThreadRanks>(1), 0};
  const mpc_backend backend = backendOf(end);
  mpc_communicator *communicator = nullptr;
  ASSERT_EQ(codeOf(mpc_communicator_create(0, 1, &backend, &communicator)),
            MPC_OK);
  EXPECT_EQ(mpc_communicator_size(communicator), 1);
  EXPECT_STREQ(mpc_communicator_backend(communicator), "");
  EXPECT_EQ(codeOf(mpc_communicator_barrier(communicator)), MPC_OK);
  mpc_communicator_abort(communicator, "nothing");
  EXPECT_EQ(end.reason, "");
  mpc_communicator_free(communicator);
}

TEST_F(CAPIRanks, WithoutALauncherThereIsOne) {
  for (const char *name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "RANK",
                           "SLURM_PROCID", "OMPI_COMM_WORLD_SIZE"})
    ASSERT_EQ(std::getenv(name), nullptr) << name;
  mpc_communicator *communicator = nullptr;
  ASSERT_EQ(codeOf(mpc_communicator_connect(nullptr, &communicator)), MPC_OK);
  EXPECT_EQ(mpc_communicator_size(communicator), 1);
  mpc_communicator_free(communicator);
  communicator = nullptr;
  mpc_communicator_options options = MPC_COMMUNICATOR_OPTIONS_INIT;
  options.ranks = 2;
  EXPECT_EQ(codeOf(mpc_communicator_connect(&options, &communicator)),
            MPC_USAGE);
  options.ranks = -1;
  expectStatus(mpc_communicator_connect(&options, &communicator), MPC_USAGE,
               "ranks");
  for (double seconds : {0.0, -1.0, 1e10, double(NAN)}) {
    options = MPC_COMMUNICATOR_OPTIONS_INIT;
    options.rank_timeout = seconds;
    expectStatus(mpc_communicator_connect(&options, &communicator), MPC_USAGE,
                 "rank_timeout");
  }
  options.struct_size = 0;
  expectStatus(mpc_communicator_connect(&options, &communicator), MPC_USAGE,
               "struct_size");
  expectStatus(mpc_communicator_connect(nullptr, nullptr), MPC_USAGE, "NULL");
  EXPECT_EQ(communicator, nullptr);
}

TEST_F(CAPIRanks, WrongBackendsAreRefused) {
  End end{std::make_shared<ThreadRanks>(2), 0};
  mpc_communicator *communicator = nullptr;
  mpc_backend backend = backendOf(end);
  for (const auto &[rank, size] :
       {std::pair{-1, 2}, std::pair{2, 2}, std::pair{0, 0}})
    expectStatus(mpc_communicator_create(rank, size, &backend, &communicator),
                 MPC_USAGE, "expected a rank in [0, size)");
  backend.gather = nullptr;
  expectStatus(mpc_communicator_create(0, 2, &backend, &communicator),
               MPC_USAGE, "gather of mpc_backend is NULL");
  backend.struct_size = 0;
  expectStatus(mpc_communicator_create(0, 2, &backend, &communicator),
               MPC_USAGE, "struct_size");
  expectStatus(mpc_communicator_create(0, 2, nullptr, &communicator), MPC_USAGE,
               "NULL");
  EXPECT_EQ(communicator, nullptr);
}

TEST_F(CAPIRanks, AProgramOfAnOlderHeaderHasNone) {
  End end{std::make_shared<ThreadRanks>(2), 0};
  const mpc_backend backend = backendOf(end);
  mpc_communicator *communicator = nullptr;
  ASSERT_EQ(codeOf(mpc_communicator_create(0, 2, &backend, &communicator)),
            MPC_OK);
  const test::Bytes bytes = makeStepArtifact();
  mpc_artifact *artifact = nullptr;
  ASSERT_EQ(
      codeOf(mpc_artifact_open_bytes(bytes.data(), bytes.size(), &artifact)),
      MPC_OK);
  mpc_session_options options = MPC_SESSION_OPTIONS_INIT;
  options.communicator = communicator;
  mpc_session *session = nullptr;
  expectStatus(mpc_session_create(artifact, &options, &session),
               MPC_UNSUPPORTED, "compile the model with --data-parallel");
  options.struct_size = offsetof(mpc_session_options, communicator);
  EXPECT_EQ(codeOf(mpc_session_create(artifact, &options, &session)), MPC_OK);
  mpc_session_free(session);
  mpc_artifact_close(artifact);
  mpc_communicator_free(communicator);
}

TEST_F(CAPIRanks, AFailedFunctionIsAStatus) {
  trainOnRanks(2, [](Rank &rank) {
    ASSERT_EQ(codeOf(rank.run(1)), MPC_OK);
    if (rank.isFirst())
      rank.end.failing = 42;
    // The other rank waits until the first gives up.
    std::string text;
    mpc_status *status = rank.run(1);
    if (rank.isFirst())
      mpc_communicator_abort(rank.communicator, "out of bits");
    EXPECT_EQ(codeOf(status, &text), MPC_RANK);
    EXPECT_NE(text.find("of the back end 'threads' returned " +
                        std::to_string(rank.isFirst() ? 42 : 1)),
              std::string::npos)
        << text;
    expectStatus(mpc_communicator_barrier(rank.communicator), MPC_RANK,
                 "an earlier call has failed");
    if (rank.isFirst()) {
      EXPECT_EQ(rank.end.reason, "rank 0: out of bits");
    }
  });
}

//===----------------------------------------------------------------------===//
// Training
//===----------------------------------------------------------------------===//

TEST_F(CAPIRanks, TrainOnTheMeanOfTheirGradients) {
  trainOnRanks(3, [](Rank &rank) {
    mpc_batch_result result = MPC_BATCH_RESULT_INIT;
    ASSERT_EQ(codeOf(rank.run(float(rank.end.rank), &result)), MPC_OK);
    EXPECT_EQ(rank.state("w"), -1);
    EXPECT_EQ(result.loss, (0.0 + 4 + 16) / 3);
    EXPECT_EQ(rank.progress().step, 1);
    EXPECT_EQ(rank.progress().batches, 3);
    EXPECT_EQ(rank.progress().samples, 3 * kBatch);
    EXPECT_EQ(rank.number(), 3);
  });
}

TEST_F(CAPIRanks, WithoutATrainerSessionsReduceToo) {
  onRanks(2, makeRankArtifact(), [](Rank &rank) {
    const float x[kBatch] = {rank.isFirst() ? 1.f : 5.f}, rate = 1;
    EXPECT_EQ(
        codeOf(mpc_session_set_input(rank.session, "step", "x", x, sizeof(x))),
        MPC_OK);
    EXPECT_EQ(codeOf(mpc_session_set_input(
                  rank.session, "step", "learning_rate", &rate, sizeof(rate))),
              MPC_OK);
    ASSERT_EQ(codeOf(mpc_session_run(rank.session, "step")), MPC_OK);
    EXPECT_EQ(rank.state("w"), -3);
  });
}

TEST_F(CAPIRanks, StartWithTheStateOfTheFirst) {
  onRanks(2, makeRankArtifact(), [](Rank &rank) {
    rank.setState("w", rank.isFirst() ? 8.f : 9.f);
    ASSERT_EQ(codeOf(rank.create()), MPC_OK);
    EXPECT_EQ(rank.state("w"), 8);
  });
}

TEST_F(CAPIRanks, ABatchRefusedOnOneRunsOnNone) {
  trainOnRanks(2, [](Rank &rank) {
    if (rank.isFirst())
      expectStatus(rank.run(1), MPC_RANK, "rank 1: ");
    else
      EXPECT_EQ(codeOf(rank.run(NAN)), MPC_INVALID_INPUT);
    EXPECT_EQ(rank.progress().step, 0);
    ASSERT_EQ(codeOf(rank.run(1)), MPC_OK);
    EXPECT_EQ(rank.state("w"), -1);
  });
}

TEST_F(CAPIRanks, OptionsMustBeEqual) {
  onRanks(2, makeRankArtifact(), [](Rank &rank) {
    rank.options.learning_rate = rank.isFirst() ? 0.5 : 0.25;
    std::string text;
    EXPECT_EQ(codeOf(rank.create(), &text), MPC_USAGE);
    EXPECT_NE(text.find("learning rate is 0.25, rank 0 has 0.5"),
              std::string::npos)
        << text;
    rank.options.learning_rate = 0.5;
    rank.options.lr_scheduler = rank.isFirst() ? "nope" : "constant";
    EXPECT_EQ(codeOf(rank.create(), &text),
              rank.isFirst() ? MPC_USAGE : MPC_RANK);
    rank.options.lr_scheduler = "constant";
    ASSERT_EQ(codeOf(rank.create()), MPC_OK);
    EXPECT_EQ(codeOf(mpc_trainer_set_learning_rate(rank.trainer,
                                                   rank.isFirst() ? 1 : 2)),
              MPC_USAGE);
    EXPECT_EQ(rank.progress().learning_rate, 0.5);
    EXPECT_EQ(codeOf(mpc_trainer_set_learning_rate(rank.trainer, 2)), MPC_OK);
    EXPECT_EQ(rank.progress().learning_rate, 2);
  });
}

TEST_F(CAPIRanks, OtherStateOnOneIsFound) {
  trainOnRanks(3, [](Rank &rank) {
    ASSERT_EQ(codeOf(rank.run(float(rank.end.rank))), MPC_OK);
    EXPECT_EQ(rank.state("s"), float(rank.end.rank));
    EXPECT_EQ(codeOf(mpc_trainer_check_ranks(rank.trainer)), MPC_OK);
    EXPECT_EQ(rank.state("s"), 1); // the mean
    if (rank.end.rank == 2)
      rank.setState("w", std::nextafter(rank.state("w"), 0.f));
    expectStatus(mpc_trainer_check_ranks(rank.trainer), MPC_RANK,
                 "'w' is not the same on rank 2 as on rank 0");
  });
}

//===----------------------------------------------------------------------===//
// Checkpoints and evaluations
//===----------------------------------------------------------------------===//

TEST_F(CAPIRanks, TheFirstSavesAndAnyNumberResumes) {
  const std::string folder = directory / "run";
  onRanks(2, makeRankArtifact(), [&](Rank &rank) {
    rank.options.checkpoint_dir = folder.c_str();
    ASSERT_EQ(codeOf(rank.create()), MPC_OK);
    for (int i = 0; i < 2; ++i)
      ASSERT_EQ(codeOf(rank.run(float(rank.end.rank))), MPC_OK);
    ASSERT_EQ(codeOf(mpc_trainer_save(rank.trainer)), MPC_OK);
  });
  onRanks(3, makeRankArtifact(), [&](Rank &rank) {
    rank.options.checkpoint_dir = folder.c_str();
    rank.options.resume = "auto";
    ASSERT_EQ(codeOf(rank.create()), MPC_OK);
    EXPECT_EQ(rank.progress().batches, 4);
    EXPECT_EQ(rank.state("w"), -1);
    EXPECT_EQ(rank.state("s"), 0.5);
    const std::string notes = mpc_trainer_notes(rank.trainer);
    EXPECT_EQ(notes.find("ranks was 2, now it is 3") != std::string::npos,
              rank.isFirst())
        << notes;
    ASSERT_EQ(codeOf(rank.run(2)), MPC_OK);
    EXPECT_EQ(rank.progress().batches, 7);
    EXPECT_EQ(rank.number(), 7);
  });
}

TEST_F(CAPIRanks, SaveOnlyAfterAWholeStep) {
  const std::string folder = directory / "run";
  onRanks(2, makeAccumulatingRankArtifact(), [&](Rank &rank) {
    rank.options.checkpoint_dir = folder.c_str();
    ASSERT_EQ(codeOf(rank.create()), MPC_OK);
    mpc_batch_result result = MPC_BATCH_RESULT_INIT;
    ASSERT_EQ(codeOf(rank.run(1, &result)), MPC_OK);
    EXPECT_EQ(result.is_step, 0);
    EXPECT_EQ(rank.progress().batches, 2);
    expectStatus(mpc_trainer_save(rank.trainer), MPC_USAGE,
                 "only after a whole step");
    ASSERT_EQ(codeOf(rank.run(rank.isFirst() ? 1.f : 3.f)), MPC_OK);
    EXPECT_EQ(rank.state("w"), -3);
    EXPECT_EQ(codeOf(mpc_trainer_save(rank.trainer)), MPC_OK);
  });
}

TEST_F(CAPIRanks, ACheckpointThatCannotBeWrittenFailsOnAll) {
  const std::string folder = directory / "run";
  onRanks(2, makeRankArtifact(), [&](Rank &rank) {
    rank.options.checkpoint_dir = folder.c_str();
    ASSERT_EQ(codeOf(rank.create()), MPC_OK);
    ASSERT_EQ(codeOf(rank.run(1)), MPC_OK);
    if (rank.isFirst()) {
      std::filesystem::remove_all(folder);
      std::ofstream(folder) << "no folder";
    }
    std::string text;
    EXPECT_EQ(codeOf(mpc_trainer_save(rank.trainer), &text),
              rank.isFirst() ? MPC_IO : MPC_RANK);
    EXPECT_EQ(text.find("rank 0: ") == 0, !rank.isFirst()) << text;
    EXPECT_EQ(codeOf(rank.run(1)), MPC_OK);
  });
}

/// Evaluates `count` samples of `value`. Returns the status of the end.
mpc_status *evaluate(Rank &rank, int count, float value,
                     mpc_evaluation_result &result, mpc_verdict *verdict) {
  mpc_evaluation *evaluation = nullptr;
  mpc_status *status =
      mpc_evaluation_create(rank.session, nullptr, &evaluation);
  if (!status && count > 0) {
    const std::vector<float> samples(size_t(count), value);
    const mpc_array x = {"x", samples.data(), samples.size() * sizeof(float)};
    status = mpc_evaluation_add(evaluation, &x, 1);
  }
  if (!status)
    status = mpc_evaluation_finish(evaluation, &result);
  if (!status && verdict)
    status = mpc_trainer_count_evaluation(rank.trainer, evaluation, verdict);
  mpc_evaluation_free(evaluation);
  return status;
}

TEST_F(CAPIRanks, EvaluateTheSamplesOfAll) {
  trainOnRanks(2, [](Rank &rank) {
    ASSERT_EQ(codeOf(rank.run(rank.isFirst() ? 1.f : 3.f)), MPC_OK);
    // The loss of sample i is x[i] + w[i], and all weights are -2.
    mpc_evaluation_result result = MPC_EVALUATION_RESULT_INIT;
    ASSERT_EQ(codeOf(evaluate(rank, rank.isFirst() ? 8 : 4,
                              rank.isFirst() ? 3.f : 6.f, result, nullptr)),
              MPC_OK);
    EXPECT_EQ(result.samples, 12);
    EXPECT_EQ(result.loss, (8 * 1 + 4 * 4) / 12.0);
    EXPECT_EQ(rank.state("s"), 2); // averaged before
    std::string text;
    EXPECT_EQ(codeOf(evaluate(rank, rank.isFirst() ? 8 : 0, 1, result, nullptr),
                     &text),
              rank.isFirst() ? MPC_RANK : MPC_USAGE);
    EXPECT_NE(text.find("the evaluation has no samples"), std::string::npos);
  });
}

TEST_F(CAPIRanks, DecideAsOne) {
  for (const bool inFolder : {false, true}) {
    const std::string folder = directory / "best";
    onRanks(2, makeRankArtifact(), [&](Rank &rank) {
      rank.options.best = "loss";
      rank.options.early_stopping = "loss:1";
      if (inFolder)
        rank.options.checkpoint_dir = folder.c_str();
      ASSERT_EQ(codeOf(rank.create()), MPC_OK);
      ASSERT_EQ(codeOf(rank.run(1)), MPC_OK);
      mpc_evaluation_result result = MPC_EVALUATION_RESULT_INIT;
      mpc_verdict verdict = MPC_VERDICT_INIT;
      const float own = rank.isFirst() ? 1.f : 7.f;
      ASSERT_EQ(codeOf(evaluate(rank, 4, own, result, &verdict)), MPC_OK);
      EXPECT_TRUE(verdict.is_best && !verdict.should_stop);
      ASSERT_EQ(codeOf(rank.run(-5)), MPC_OK);
      ASSERT_EQ(codeOf(evaluate(rank, 4, own, result, &verdict)), MPC_OK);
      EXPECT_TRUE(!verdict.is_best && verdict.should_stop);
      EXPECT_EQ(rank.state("w"), 4);
      int64_t step = 0;
      ASSERT_EQ(codeOf(mpc_trainer_restore_best(rank.trainer, &step)), MPC_OK);
      EXPECT_EQ(step, 1);
      EXPECT_EQ(rank.state("w"), -1);
    });
  }
}

} // namespace
} // namespace mpc::runtime::train::capi
