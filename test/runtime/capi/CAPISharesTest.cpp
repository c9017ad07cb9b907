// Tests the C API over ranks that divide the optimizer.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/capi/CAPIRanksFixture.h"

#include <tuple>

namespace mpc::runtime::train::capi {
namespace {

/// step: a -= learning_rate * g and b -= learning_rate * g, where g is the mean
/// of x over the ranks. Only the owners hold a and b. All ranks hold the copies
/// a.low and b.low. eval reads b.low.
test::Bytes makeShardedArtifact(bool hasAverages = false) {
  test::ArtifactBuilder builder;
  for (const char *name : {"a", "b"}) {
    builder.filledState(name, DType::F32, {kBatch}, 0);
    builder.filledState(std::string(name) + ".low", DType::F32, {kBatch}, 0,
                        "derived");
  }
  builder.plan["state"][0]["owner"] = 0;
  builder.plan["state"][2]["owner"] = 2;
  if (hasAverages) {
    builder.filledState("b.ema", DType::F32, {kBatch}, 0, "average");
    builder.plan["state"][4]["owner"] = 2;
  }
  test::Json &steps = builder.plan["functions"];
  auto part = [](size_t buffer, size_t owner) {
    return test::Json{{"buffer", buffer}, {"owner", owner}};
  };
  auto copy = [](size_t from, size_t to, size_t owner) {
    return test::Json{
        {"op", "copy"}, {"src", from}, {"dst", to}, {"owner", owner}};
  };

  test::FunctionBuilder step = builder.function("step");
  const size_t x = step.input("x", DType::F32, {kBatch});
  const size_t rate = step.input("learning_rate", DType::F32, {});
  const size_t ga = step.arena(DType::F32, {kBatch});
  const size_t gb = step.arena(DType::F32, {kBatch});
  const size_t a = step.state("a"), aLow = step.state("a.low");
  const size_t b = step.state("b"), bLow = step.state("b.low");
  addLoss(step, steps["step"], x);
  for (size_t to : {ga, gb})
    step.step({{"op", "copy"}, {"src", x}, {"dst", to}});
  step.step({{"op", "reduce_scatter"},
             {"kind", "mean"},
             {"parts", {part(ga, 0), part(gb, 2)}}});
  for (const auto &[w, g, low, owner] : {std::tuple{a, ga, aLow, size_t(0)},
                                         std::tuple{b, gb, bLow, size_t(2)}}) {
    step.launch("sgd", {w, g, rate}, kBatch, kBatch);
    steps["step"]["steps"].back()["owner"] = owner;
    step.step(copy(w, low, owner));
  }
  step.step({{"op", "all_gather"}, {"parts", {part(aLow, 0), part(bLow, 2)}}});
  steps["step"]["inputs"][1]["role"] = "scalar";

  test::FunctionBuilder derive = builder.function("derive");
  const size_t fromA = derive.state("a"), toA = derive.state("a.low");
  const size_t fromB = derive.state("b"), toB = derive.state("b.low");
  derive.step(copy(fromA, toA, 0));
  derive.step(copy(fromB, toB, 2));
  derive.step({{"op", "all_gather"}, {"parts", {part(toA, 0), part(toB, 2)}}});

  test::FunctionBuilder eval = builder.function("eval");
  const size_t sample = eval.input("x", DType::F32, {kBatch});
  const size_t losses = eval.arena(DType::F32, {kBatch});
  eval.launch("add", {sample, eval.state("b.low"), losses}, kBatch, kBatch);
  eval.output("sample_loss", losses);
  steps["eval"]["outputs"][0]["role"] = "sample_loss";
  builder.plan["recipe"] = {{"loss", "mse@y"},
                            {"accumulate", 1},
                            {"data_parallel", true},
                            {"shard_optimizer", true}};
  return builder.build();
}

class CAPIShares : public OnRanks {
protected:
  /// Calls `body(rank)` for trainers of the sharded artifact.
  template <typename Body>
  void trainShares(int count, Body body) {
    onRanks(count, makeShardedArtifact(), [&](Rank &rank) {
      ASSERT_EQ(codeOf(rank.create()), MPC_OK);
      body(rank);
    });
  }
};

mpc_status *getState(Rank &rank, const char *name, float *values) {
  return mpc_session_get_state(rank.session, name, values,
                               kBatch * sizeof(float));
}

/// Evaluates four samples of the value on each rank.
mpc_status *evaluate(Rank &rank, float value, double *loss) {
  mpc_evaluation *evaluation = nullptr;
  if (mpc_status *status =
          mpc_evaluation_create(rank.session, nullptr, &evaluation))
    return status;
  const float x[kBatch] = {value, value, value, value};
  const mpc_array array = {"x", x, sizeof(x)};
  mpc_evaluation_result result = MPC_EVALUATION_RESULT_INIT;
  mpc_status *status = mpc_evaluation_add(evaluation, &array, 1);
  if (!status)
    status = mpc_evaluation_finish(evaluation, &result);
  mpc_evaluation_free(evaluation);
  *loss = result.loss;
  return status;
}

} // namespace

TEST_F(CAPIShares, TrainAndReadTheWhole) {
  trainShares(3, [](Rank &rank) {
    mpc_batch_result result = MPC_BATCH_RESULT_INIT;
    ASSERT_EQ(codeOf(rank.run(float(rank.end.rank), &result)), MPC_OK);
    EXPECT_EQ(result.loss, (0.0 + 4 + 16) / 3);
    for (const char *name : {"a", "b", "a.low", "b.low"})
      EXPECT_EQ(rank.state(name), -1) << name;
    EXPECT_EQ(codeOf(mpc_trainer_check_ranks(rank.trainer)), MPC_OK);
    double loss = 0;
    ASSERT_EQ(codeOf(evaluate(rank, float(rank.end.rank), &loss)), MPC_OK);
    EXPECT_EQ(loss, 0);
  });
}

TEST_F(CAPIShares, SetTheWholeAndDerive) {
  onRanks(2, makeShardedArtifact(), [](Rank &rank) {
    rank.setState("a", 3);
    rank.setState("b", 4);
    // Only mpc_session_derive makes the copies.
    EXPECT_EQ(rank.state("b.low"), 0);
    EXPECT_EQ(codeOf(mpc_session_derive(rank.session)), MPC_OK);
    EXPECT_EQ(rank.state("a"), 3);
    EXPECT_EQ(rank.state("a.low"), 3);
    EXPECT_EQ(rank.state("b.low"), 4);
  });
}

TEST_F(CAPIShares, CallsThatDifferAreRefusedOnAll) {
  onRanks(2, makeShardedArtifact(), [](Rank &rank) {
    const bool isFirst = rank.isFirst();
    float values[kBatch] = {};
    expectStatus(getState(rank, isFirst ? "a" : "b", values), MPC_USAGE,
                 "all ranks must make equal calls: rank 0 calls "
                 "mpc_session_get_state of 'a', rank 1 calls "
                 "mpc_session_get_state of 'b'");
    expectStatus(isFirst ? mpc_session_derive(rank.session)
                         : mpc_session_set_state(rank.session, "b", values,
                                                 sizeof(values)),
                 MPC_USAGE,
                 "rank 0 calls mpc_session_derive, rank 1 calls "
                 "mpc_session_set_state of 'b'");
    values[1] = isFirst ? 0 : 1;
    expectStatus(
        mpc_session_set_state(rank.session, "a", values, sizeof(values)),
        MPC_USAGE, "expected equal values of 'a' on all ranks; rank 1 sets");
    // The ranks are together again.
    EXPECT_EQ(rank.state("a"), 0);
  });
}

TEST_F(CAPIShares, ACallRefusedOnOneFailsOnAll) {
  onRanks(2, makeShardedArtifact(), [](Rank &rank) {
    float values[kBatch] = {};
    const size_t size = rank.isFirst() ? 3 : sizeof(values);
    for (mpc_status *status :
         {mpc_session_get_state(rank.session, "b", values, size),
          mpc_session_set_state(rank.session, "b", values, size)}) {
      if (rank.isFirst())
        expectStatus(status, MPC_INVALID_INPUT, "'b' has 16 bytes, got 3");
      else
        expectStatus(status, MPC_RANK, "rank 0: 'b' has 16 bytes, got 3");
    }
    EXPECT_EQ(rank.state("b"), 0);
  });
}

/// A session that cannot open on one rank opens on none, and no rank waits.
TEST_F(CAPIShares, ASessionRefusedOnOneOpensOnNone) {
  auto ranks = std::make_shared<ThreadRanks>(2);
  const test::Bytes bytes = makeShardedArtifact();
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      End end{ranks, r};
      const mpc_backend backend = backendOf(end);
      mpc_communicator *communicator = nullptr;
      ASSERT_EQ(codeOf(mpc_communicator_create(r, 2, &backend, &communicator)),
                MPC_OK);
      mpc_artifact *artifact = nullptr;
      ASSERT_EQ(codeOf(mpc_artifact_open_bytes(bytes.data(), bytes.size(),
                                               &artifact)),
                MPC_OK);
      mpc_session_options options = MPC_SESSION_OPTIONS_INIT;
      options.threads = 1;
      options.device = r == 0 ? "cpu" : "quantum";
      options.communicator = communicator;
      mpc_session *session = nullptr;
      mpc_status *status = mpc_session_create(artifact, &options, &session);
      if (r == 0)
        expectStatus(status, MPC_RANK, "rank 1: ");
      else
        expectStatus(status, MPC_USAGE, "quantum");
      mpc_artifact_close(artifact);
      mpc_communicator_free(communicator);
    });
  for (std::thread &thread : threads)
    thread.join();
}

TEST_F(CAPIShares, TheFirstWritesAndLoadsTheWhole) {
  const std::string path = directory / "weights.safetensors";
  onRanks(2, makeShardedArtifact(), [&](Rank &rank) {
    rank.setState("a", 3);
    rank.setState("b", 4);
    // Only rank 0 writes: the other path has no folder.
    const std::string own = rank.isFirst() ? path : "/no/such/w.safetensors";
    ASSERT_EQ(codeOf(mpc_session_write_weights(rank.session, own.c_str())),
              MPC_OK);
  });
  // On another number of ranks, and on one.
  for (int count : {1, 3})
    onRanks(count, makeShardedArtifact(), [&](Rank &rank) {
      const std::string own = rank.isFirst() ? path : "/no/such/w.safetensors";
      ASSERT_EQ(codeOf(mpc_session_load_weights(rank.session, own.c_str())),
                MPC_OK);
      EXPECT_EQ(rank.state("a"), 3);
      EXPECT_EQ(rank.state("a.low"), 3);
      EXPECT_EQ(rank.state("b"), 4);
      EXPECT_EQ(rank.state("b.low"), 4);
    });
  onRanks(2, makeShardedArtifact(), [&](Rank &rank) {
    expectStatus(mpc_session_load_weights(rank.session, "/no/such.npz"),
                 rank.isFirst() ? MPC_IO : MPC_RANK, "/no/such.npz");
    expectStatus(mpc_session_write_weights(rank.session, "/no/such/w.npz"),
                 rank.isFirst() ? MPC_IO : MPC_RANK, "/no/such/w.npz");
    EXPECT_EQ(rank.state("b"), 0);
  });
}

TEST_F(CAPIShares, CheckpointsAreWholeAndResumeOnAnyNumber) {
  const std::string folder = directory / "run";
  const auto train = [&](int count, float expected) {
    onRanks(count, makeShardedArtifact(), [&](Rank &rank) {
      rank.options.checkpoint_dir = folder.c_str();
      rank.options.resume = "auto";
      ASSERT_EQ(codeOf(rank.create()), MPC_OK);
      ASSERT_EQ(codeOf(rank.run(1)), MPC_OK);
      ASSERT_EQ(codeOf(mpc_trainer_save(rank.trainer)), MPC_OK);
      EXPECT_EQ(rank.state("a"), expected);
      EXPECT_EQ(rank.state("b"), expected);
      EXPECT_EQ(rank.state("b.low"), expected);
    });
  };
  train(2, -1);
  train(3, -2);
  train(1, -3);
  train(2, -4);
}

TEST_F(CAPIShares, TheBestWeightsComeBack) {
  for (const bool saves : {false, true}) {
    const std::string folder = directory / "best";
    trainShares(2, [&](Rank &rank) {
      rank.options.best = "loss";
      if (saves)
        rank.options.checkpoint_dir = folder.c_str();
      ASSERT_EQ(codeOf(rank.create()), MPC_OK);
      // The first evaluation is the best: b.low is -1, then 2, and x is 5.
      for (int step = 0; step < 2; ++step) {
        ASSERT_EQ(codeOf(rank.run(step == 0 ? 1.f : -3.f)), MPC_OK);
        mpc_evaluation *evaluation = nullptr;
        mpc_evaluation_result result = MPC_EVALUATION_RESULT_INIT;
        const float x[kBatch] = {5, 5, 5, 5};
        const mpc_array array = {"x", x, sizeof(x)};
        ASSERT_EQ(
            codeOf(mpc_evaluation_create(rank.session, nullptr, &evaluation)),
            MPC_OK);
        ASSERT_EQ(codeOf(mpc_evaluation_add(evaluation, &array, 1)), MPC_OK);
        ASSERT_EQ(codeOf(mpc_evaluation_finish(evaluation, &result)), MPC_OK);
        EXPECT_EQ(result.loss, step == 0 ? 4 : 7);
        ASSERT_EQ(codeOf(mpc_trainer_count_evaluation(rank.trainer, evaluation,
                                                      nullptr)),
                  MPC_OK);
        mpc_evaluation_free(evaluation);
      }
      EXPECT_EQ(rank.state("b"), 2);
      int64_t step = 0;
      ASSERT_EQ(codeOf(mpc_trainer_restore_best(rank.trainer, &step)), MPC_OK);
      EXPECT_EQ(step, 1);
      EXPECT_EQ(rank.state("a"), -1);
      EXPECT_EQ(rank.state("b.low"), -1);
    });
  }
}

TEST_F(CAPIShares, AveragesOfOwnersAreNotEvaluated) {
  onRanks(2, makeShardedArtifact(/*hasAverages=*/true), [](Rank &rank) {
    double loss = 0;
    expectStatus(evaluate(rank, 1, &loss), MPC_UNSUPPORTED,
                 "the average 'b.ema' lies on one of several ranks");
  });
}

} // namespace mpc::runtime::train::capi
