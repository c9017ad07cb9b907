// Tests the C API's evaluation, and the trainer's decisions by evaluations.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/capi/CAPITrainFixture.h"

#include <cmath>

namespace mpc::runtime::train::capi {
namespace {

//===----------------------------------------------------------------------===//
// Evaluation
//===----------------------------------------------------------------------===//

TEST_F(CAPITrain, EvaluatesSamplesHoweverTheyAreDivided) {
  const float w[kBatch] = {0.5, 0.5, 0.5, 0.5};
  ASSERT_EQ(codeOf(mpc_session_set_state(session, "w", w, sizeof(w))), MPC_OK);
  float x[11], sum = 0;
  for (int i = 0; i < 11; ++i)
    sum += x[i] = float(i * i);
  for (const std::vector<int> &parts : std::vector<std::vector<int>>{
           {11}, {4, 4, 3}, {1, 1, 1, 1, 1, 1, 5}, {3, 8}, {9, 2}, {10, 1}}) {
    mpc_evaluation *evaluation = nullptr;
    ASSERT_EQ(codeOf(mpc_evaluation_create(session, nullptr, &evaluation)),
              MPC_OK);
    int begin = 0;
    for (int part : parts) {
      const mpc_array array = {"x", x + begin, part * sizeof(float)};
      ASSERT_EQ(codeOf(mpc_evaluation_add(evaluation, &array, 1)), MPC_OK);
      begin += part;
    }
    mpc_evaluation_result result = MPC_EVALUATION_RESULT_INIT;
    ASSERT_EQ(codeOf(mpc_evaluation_finish(evaluation, &result)), MPC_OK);
    EXPECT_EQ(result.samples, 11);
    EXPECT_EQ(result.left_out, 0);
    EXPECT_DOUBLE_EQ(result.loss, double(sum) / 11 + 0.5);
    EXPECT_TRUE(std::isnan(result.accuracy));
    double loss = 0;
    EXPECT_EQ(codeOf(mpc_evaluation_get(evaluation, "loss", &loss)), MPC_OK);
    EXPECT_EQ(loss, result.loss);
    EXPECT_EQ(codeOf(mpc_evaluation_get(evaluation, "f1", &loss)), MPC_USAGE);
    mpc_evaluation_free(evaluation);
  }
}

TEST_F(CAPITrain, RefusesWrongEvaluations) {
  mpc_evaluation_options given = MPC_EVALUATION_OPTIONS_INIT;
  mpc_evaluation *evaluation = nullptr;
  given.metrics = "beauty";
  expectStatus(mpc_evaluation_create(session, &given, &evaluation), MPC_USAGE,
               "--metric: ");
  given.metrics = "f1,f1";
  expectStatus(mpc_evaluation_create(session, &given, &evaluation), MPC_USAGE,
               "given twice");
  given.metrics = "top5";
  expectStatus(mpc_evaluation_create(session, &given, &evaluation), MPC_USAGE,
               "top5");
  EXPECT_EQ(evaluation, nullptr);

  ASSERT_EQ(codeOf(mpc_evaluation_create(session, nullptr, &evaluation)),
            MPC_OK);
  mpc_evaluation_result result = MPC_EVALUATION_RESULT_INIT;
  double value = 0;
  EXPECT_EQ(codeOf(mpc_evaluation_get(evaluation, "loss", &value)), MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_evaluation_finish(evaluation, &result)), MPC_USAGE);
  const float x[2] = {1, 3}, bad[2] = {1, NAN};
  mpc_array array = {"x", bad, sizeof(bad)};
  EXPECT_EQ(codeOf(mpc_evaluation_add(evaluation, &array, 1)),
            MPC_INVALID_INPUT);
  EXPECT_EQ(codeOf(mpc_evaluation_add(evaluation, nullptr, 0)), MPC_USAGE);
  array.bytes = x;
  ASSERT_EQ(codeOf(mpc_evaluation_add(evaluation, &array, 1)), MPC_OK);
  result.struct_size = 0;
  EXPECT_EQ(codeOf(mpc_evaluation_finish(evaluation, &result)), MPC_USAGE);
  result = MPC_EVALUATION_RESULT_INIT;
  ASSERT_EQ(codeOf(mpc_evaluation_finish(evaluation, &result)), MPC_OK);
  EXPECT_EQ(result.loss, 2);
  EXPECT_EQ(result.samples, 2);
  EXPECT_EQ(codeOf(mpc_evaluation_add(evaluation, &array, 1)), MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_evaluation_finish(evaluation, &result)), MPC_USAGE);
  mpc_evaluation_free(evaluation);
}

//===----------------------------------------------------------------------===//
// Decisions by evaluations
//===----------------------------------------------------------------------===//

/// Evaluates on one batch of x = `value`, so that the loss is about `value`,
/// and counts the evaluation.
class CAPIBest : public CAPITrain {
protected:
  mpc_status *evaluate(float value, mpc_verdict *verdict) {
    mpc_evaluation *evaluation = nullptr;
    EXPECT_EQ(codeOf(mpc_evaluation_create(session, nullptr, &evaluation)),
              MPC_OK);
    const float x[kBatch] = {value, value, value, value};
    const mpc_array array = {"x", x, sizeof(x)};
    EXPECT_EQ(codeOf(mpc_evaluation_add(evaluation, &array, 1)), MPC_OK);
    EXPECT_EQ(
        codeOf(mpc_trainer_count_evaluation(trainer, evaluation, verdict)),
        MPC_USAGE); // not finished
    mpc_evaluation_result result = MPC_EVALUATION_RESULT_INIT;
    EXPECT_EQ(codeOf(mpc_evaluation_finish(evaluation, &result)), MPC_OK);
    mpc_status *status =
        mpc_trainer_count_evaluation(trainer, evaluation, verdict);
    mpc_evaluation_free(evaluation);
    return status;
  }
};

TEST_F(CAPIBest, KeepsTheBestWeightsAndStops) {
  const std::string folder = directory / "checkpoints";
  for (const char *place : {"", folder.c_str()}) {
    open(makeStepArtifact());
    options.learning_rate = 1;
    options.checkpoint_dir = place;
    options.keep_checkpoints = 1;
    options.best = "loss";
    options.early_stopping = "loss:2";
    ASSERT_EQ(codeOf(create()), MPC_OK);
    mpc_verdict verdict = MPC_VERDICT_INIT;
    // Losses after the steps: 99, 8, 97, 96.
    for (float loss : {100.0f, 10.0f, 100.0f, 100.0f}) {
      ASSERT_EQ(codeOf(run(1)), MPC_OK);
      if (*place)
        ASSERT_EQ(codeOf(mpc_trainer_save(trainer)), MPC_OK);
      ASSERT_EQ(codeOf(evaluate(loss, &verdict)), MPC_OK);
      EXPECT_EQ(verdict.is_best, progress().step <= 2);
      EXPECT_EQ(verdict.should_stop, progress().step == 4);
    }
    int64_t step = 0;
    ASSERT_EQ(codeOf(mpc_trainer_restore_best(trainer, &step)), MPC_OK);
    EXPECT_EQ(step, 2);
    EXPECT_EQ(weight(), -2);
    expectStatus(run(1), MPC_USAGE, "create another trainer");
  }
  EXPECT_TRUE(std::filesystem::exists(folder + "/best/train.json"));

  // A resumed run knows the best.
  open(makeStepArtifact());
  options.resume = "auto";
  ASSERT_EQ(codeOf(create()), MPC_OK);
  mpc_verdict verdict = MPC_VERDICT_INIT;
  ASSERT_EQ(codeOf(run(1)), MPC_OK);
  ASSERT_EQ(codeOf(evaluate(50, &verdict)), MPC_OK);
  EXPECT_EQ(verdict.is_best, 0);
  EXPECT_EQ(verdict.should_stop, 1);
  ASSERT_EQ(codeOf(mpc_trainer_restore_best(trainer, nullptr)), MPC_OK);
  EXPECT_EQ(weight(), -2);
}

TEST_F(CAPIBest, LowersTheRateOfAPlateau) {
  options.learning_rate = 1;
  options.lr_scheduler = "plateau:0.5:0";
  ASSERT_EQ(codeOf(create()), MPC_OK);
  for (double rate : {1.0, 0.5, 0.25}) {
    ASSERT_EQ(codeOf(run(0)), MPC_OK);
    ASSERT_EQ(codeOf(evaluate(7, nullptr)), MPC_OK);
    EXPECT_EQ(progress().learning_rate, rate);
  }
  EXPECT_STREQ(mpc_trainer_notes(trainer),
               "plateau: loss did not improve in 1 evaluation; the learning "
               "rate is 0.25 from here");
}

TEST_F(CAPIBest, RefusesEvaluationsThatDecideNothing) {
  mpc_verdict verdict = MPC_VERDICT_INIT;
  ASSERT_EQ(codeOf(create()), MPC_OK);
  expectStatus(evaluate(1, &verdict), MPC_USAGE, "no option depends on");
  EXPECT_EQ(codeOf(mpc_trainer_restore_best(trainer, nullptr)), MPC_USAGE);
  options.best = "f1";
  ASSERT_EQ(codeOf(create()), MPC_OK);
  expectStatus(evaluate(1, &verdict), MPC_USAGE, "f1");
  EXPECT_EQ(codeOf(mpc_trainer_restore_best(trainer, nullptr)), MPC_NUMERIC);
  verdict.struct_size = 0;
  expectStatus(evaluate(1, &verdict), MPC_USAGE, "struct_size");
  options.best = "loss";
  open(makeAccumulatingArtifact());
  ASSERT_EQ(codeOf(create()), MPC_OK);
  ASSERT_EQ(codeOf(run(1)), MPC_OK);
  expectStatus(evaluate(1, nullptr), MPC_USAGE, "after a whole step");
}

} // namespace
} // namespace mpc::runtime::train::capi
