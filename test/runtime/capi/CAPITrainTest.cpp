// Tests the C API's trainer and files of weights as a C program uses them.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/capi/CAPITrainFixture.h"

#include "runtime/train/checkpoint/CheckpointFiles.h"

#include <cmath>
#include <filesystem>

namespace mpc::runtime::train::capi {
namespace {

//===----------------------------------------------------------------------===//
// Steps
//===----------------------------------------------------------------------===//

TEST_F(CAPITrain, StepsBySchedule) {
  options.learning_rate = 0.5;
  options.lr_scheduler = "step:2:0.5";
  options.steps_per_epoch = 2;
  ASSERT_EQ(codeOf(create()), MPC_OK);
  mpc_batch_result result = MPC_BATCH_RESULT_INIT;
  for (double rate : {0.5, 0.5, 0.25, 0.25, 0.125}) {
    EXPECT_EQ(progress().learning_rate, rate);
    ASSERT_EQ(codeOf(run(2, &result)), MPC_OK);
    EXPECT_EQ(result.learning_rate, rate);
    EXPECT_EQ(result.is_step, 1);
    EXPECT_EQ(result.skipped, 0);
    EXPECT_EQ(result.loss, 16);
    EXPECT_TRUE(std::isnan(result.accuracy) && std::isnan(result.grad_norm));
  }
  EXPECT_EQ(weight(), -2 * (0.5f + 0.5f + 0.25f + 0.25f + 0.125f));
  EXPECT_EQ(progress().step, 5);
  EXPECT_EQ(progress().batches, 5);
  EXPECT_EQ(progress().samples, 20);
  EXPECT_EQ(progress().epoch, 2);
  EXPECT_EQ(progress().step_in_epoch, 1);
}

TEST_F(CAPITrain, AccumulatesBatches) {
  open(makeAccumulatingArtifact());
  options.learning_rate = 1;
  ASSERT_EQ(codeOf(create()), MPC_OK);
  mpc_batch_result result = MPC_BATCH_RESULT_INIT;
  ASSERT_EQ(codeOf(run(1, &result)), MPC_OK);
  EXPECT_EQ(result.is_step, 0);
  EXPECT_EQ(result.loss, 4);
  EXPECT_TRUE(std::isnan(result.learning_rate));
  EXPECT_EQ(progress().step, 0);
  EXPECT_EQ(progress().batches, 1);
  EXPECT_EQ(progress().samples, kBatch);
  EXPECT_EQ(progress().batch_in_step, 1);
  ASSERT_EQ(codeOf(run(3, &result)), MPC_OK);
  EXPECT_EQ(result.is_step, 1);
  EXPECT_EQ(result.loss, (4 + 36) / 2);
  EXPECT_EQ(weight(), -4);
  EXPECT_EQ(progress().batch_in_step, 0);
}

TEST_F(CAPITrain, SetsTheRateWhoeverElseHasSetIt) {
  options.learning_rate = 1;
  ASSERT_EQ(codeOf(create()), MPC_OK);
  ASSERT_EQ(codeOf(run(1)), MPC_OK);
  const float other = 100;
  ASSERT_EQ(codeOf(mpc_session_set_input(session, "step", "learning_rate",
                                         &other, sizeof(other))),
            MPC_OK);
  ASSERT_EQ(codeOf(run(1)), MPC_OK);
  EXPECT_EQ(weight(), -2);
  ASSERT_EQ(codeOf(mpc_trainer_set_learning_rate(trainer, 4)), MPC_OK);
  ASSERT_EQ(codeOf(run(1)), MPC_OK);
  EXPECT_EQ(weight(), -6);
  for (double rate : {-1.0, double(NAN), double(INFINITY)})
    EXPECT_EQ(codeOf(mpc_trainer_set_learning_rate(trainer, rate)), MPC_USAGE);
  EXPECT_EQ(progress().learning_rate, 4);
}

TEST_F(CAPITrain, RefusesWrongBatches) {
  ASSERT_EQ(codeOf(create()), MPC_OK);
  const float x[kBatch + 1] = {1, NAN, 1, 1, 1};
  const auto refuse = [&](const std::vector<mpc_array> &arrays,
                          mpc_status_code code, const char *text) {
    expectStatus(
        mpc_trainer_run_batch(trainer, arrays.data(), arrays.size(), nullptr),
        code, text);
  };
  refuse({}, MPC_USAGE, "input 'x' has no samples, expected 'x'");
  refuse({{"y", x, 16}}, MPC_USAGE, "'y', expected 'x'");
  refuse({{"learning_rate", x, 4}}, MPC_USAGE, "'learning_rate', expected 'x'");
  refuse({{"x", x, 16}, {"x", x, 16}}, MPC_USAGE, "given twice");
  refuse({{"x", x, 7}}, MPC_INVALID_INPUT, "4 bytes a sample, as f32");
  refuse({{"x", x, 0}}, MPC_INVALID_INPUT, "got 0");
  refuse({{"x", x + 2, 12}}, MPC_INVALID_INPUT, "4 samples, got 3");
  refuse({{"x", x, 16}}, MPC_INVALID_INPUT, "nan");
  refuse({{nullptr, x, 16}}, MPC_USAGE, "NULL");
  refuse({{"x", nullptr, 16}}, MPC_USAGE, "NULL");
  EXPECT_EQ(codeOf(mpc_trainer_run_batch(trainer, nullptr, 1, nullptr)),
            MPC_USAGE);
  mpc_batch_result result = MPC_BATCH_RESULT_INIT;
  result.struct_size = 0;
  expectStatus(run(1, &result), MPC_USAGE, "struct_size");
  EXPECT_EQ(progress().step, 0);
  EXPECT_EQ(weight(), 0);
  EXPECT_EQ(codeOf(run(1)), MPC_OK);

  options.allow_nan = 1;
  ASSERT_EQ(codeOf(create()), MPC_OK);
  const mpc_array array = {"x", x, 16};
  result = MPC_BATCH_RESULT_INIT;
  ASSERT_EQ(codeOf(mpc_trainer_run_batch(trainer, &array, 1, &result)), MPC_OK);
  EXPECT_TRUE(std::isnan(result.loss));
}

TEST_F(CAPITrain, ChecksLabelsOfSetInput) {
  test::ArtifactBuilder builder;
  builder.filledState("w", DType::F32, {kBatch}, 0);
  test::FunctionBuilder step = builder.function("step");
  step.input("x", DType::F32, {kBatch});
  step.input("target", DType::I64, {kBatch});
  builder.plan["functions"]["step"]["inputs"][1]["role"] = "label";
  addEval(builder);
  builder.plan["recipe"] = {
      {"loss", "softmax_cross_entropy"}, {"classes", 3}, {"ignore_index", -1}};
  open(builder.build());
  const auto set = [&](std::vector<int64_t> labels) {
    return mpc_session_set_input(session, "step", "target", labels.data(),
                                 labels.size() * sizeof(int64_t));
  };
  EXPECT_EQ(codeOf(set({0, 2, -1, 1})), MPC_OK);
  expectStatus(set({0, 2, 3, 1}), MPC_INVALID_INPUT,
               "target[2]: label 3 is not in [0,3) and not the ignored -1");
  expectStatus(set({-2, 0, 0, 0}), MPC_INVALID_INPUT, "label -2");
  expectStatus(set({0}), MPC_INVALID_INPUT, "has 32 bytes, got 8");
  // A value that is no label may be any number.
  const float x[kBatch] = {7, 7, 7, 7};
  EXPECT_EQ(codeOf(mpc_session_set_input(session, "step", "x", x, sizeof(x))),
            MPC_OK);
}

TEST_F(CAPITrain, ShowsNoControlCharactersOfNames) {
  const float x[kBatch] = {};
  std::string message;
  EXPECT_EQ(codeOf(mpc_session_set_input(session, "step", "x\x1b[2J\n\u202e", x,
                                         sizeof(x)),
                   &message),
            MPC_USAGE);
  EXPECT_NE(message.find("x [2J  "), std::string::npos) << message;
  for (char c : message)
    EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20) << message;
}

TEST_F(CAPITrain, RefusesWrongOptions) {
  const auto refuse = [&](mpc_status_code code, const char *text) {
    expectStatus(create(), code, text);
    EXPECT_EQ(trainer, nullptr);
    options = MPC_TRAINER_OPTIONS_INIT;
  };
  options.lr_scheduler = "hyperbolic";
  refuse(MPC_USAGE, "--lr-scheduler: expected constant");
  options.best = "beauty:1";
  refuse(MPC_USAGE, "--best: ");
  options.early_stopping = "loss";
  refuse(MPC_USAGE, "--early-stopping: ");
  options.lr_scheduler = "cosine";
  refuse(MPC_USAGE, "set total_steps");
  options.min_lr = 1;
  refuse(MPC_USAGE, "--min-lr is above --lr");
  options.learning_rate = NAN;
  refuse(MPC_USAGE, "--lr");
  options.warmup_steps = -1;
  refuse(MPC_USAGE, "--warmup-steps");
  options.total_steps = -1;
  refuse(MPC_USAGE, "total_steps");
  options.keep_checkpoints = 0;
  refuse(MPC_USAGE, "--keep-checkpoints");
  options.resume = "auto";
  refuse(MPC_USAGE, "--checkpoint-dir");
  options.resume = "/nonexistent";
  refuse(MPC_CHECKPOINT, "/nonexistent");
  options.checkpoint_dir = "/dev/null/folder";
  refuse(MPC_IO, "/dev/null");
  options.struct_size = 0;
  refuse(MPC_USAGE, "struct_size of mpc_trainer_options");
}

//===----------------------------------------------------------------------===//
// Checkpoints
//===----------------------------------------------------------------------===//

TEST_F(CAPITrain, ResumesWithTheSameBits) {
  options.learning_rate = 0.3;
  options.lr_scheduler = "cosine";
  options.warmup_steps = 2;
  options.total_steps = 7;
  options.data = "data";
  ASSERT_EQ(codeOf(create()), MPC_OK);
  for (int i = 0; i < 7; ++i)
    ASSERT_EQ(codeOf(run(float(i) / 7)), MPC_OK);
  const float whole = weight();

  const std::string folder = directory / "checkpoints";
  options.checkpoint_dir = folder.c_str();
  options.resume = "auto";
  for (int i = 0; i < 7; ++i) {
    open(makeStepArtifact());
    ASSERT_EQ(codeOf(create()), MPC_OK);
    if (i == 0) {
      EXPECT_STREQ(
          mpc_trainer_notes(trainer),
          ("no checkpoint to resume from in " + folder + "; starting anew")
              .c_str());
    }
    ASSERT_EQ(progress().batches, i);
    ASSERT_EQ(codeOf(run(float(i) / 7)), MPC_OK);
    ASSERT_EQ(codeOf(mpc_trainer_save(trainer)), MPC_OK);
    EXPECT_STREQ(mpc_trainer_notes(trainer), "");
  }
  EXPECT_EQ(weight(), whole);
  EXPECT_FALSE(std::filesystem::exists(folder + "/step-4"));
  EXPECT_TRUE(std::filesystem::exists(folder + "/step-5"));

  // A checkpoint by name, and settings that may change.
  open(makeStepArtifact());
  const std::string named = folder + "/step-6";
  options.resume = named.c_str();
  options.learning_rate = 0.5;
  ASSERT_EQ(codeOf(create()), MPC_OK);
  EXPECT_EQ(progress().step, 6);
  const std::string notes = mpc_trainer_notes(trainer);
  EXPECT_NE(notes.find("learning rate was 0.3"), std::string::npos) << notes;
  EXPECT_NE(notes.find("step-7 is later than"), std::string::npos) << notes;
}

TEST_F(CAPITrain, ResumesWithinAStep) {
  open(makeAccumulatingArtifact());
  const std::string folder = directory / "checkpoints";
  options.learning_rate = 1;
  options.checkpoint_dir = folder.c_str();
  ASSERT_EQ(codeOf(create()), MPC_OK);
  ASSERT_EQ(codeOf(run(1)), MPC_OK);
  ASSERT_EQ(codeOf(mpc_trainer_save(trainer)), MPC_OK);
  ASSERT_EQ(codeOf(run(5)), MPC_OK);

  open(makeAccumulatingArtifact());
  options.resume = "auto";
  ASSERT_EQ(codeOf(create()), MPC_OK);
  EXPECT_EQ(progress().batch_in_step, 1);
  mpc_batch_result result = MPC_BATCH_RESULT_INIT;
  ASSERT_EQ(codeOf(run(3, &result)), MPC_OK);
  EXPECT_EQ(result.loss, (4 + 36) / 2);
  EXPECT_EQ(weight(), -4);
}

TEST_F(CAPITrain, RefusesCheckpointsOfOtherRuns) {
  const std::string folder = directory / "checkpoints";
  options.checkpoint_dir = folder.c_str();
  options.data = "ours";
  options.learning_rate = 1;
  ASSERT_EQ(codeOf(create()), MPC_OK);
  ASSERT_EQ(codeOf(run(1)), MPC_OK);
  ASSERT_EQ(codeOf(mpc_trainer_save(trainer)), MPC_OK);
  mpc_trainer *second = nullptr;
  expectStatus(mpc_trainer_create(session, &options, &second), MPC_IO,
               folder.c_str()); // the first trainer holds the folder's lock
  EXPECT_EQ(second, nullptr);

  const auto refuse = [&](const test::Bytes &artifact, uint64_t seed,
                          mpc_status_code code, const char *text) {
    open(artifact, seed);
    expectStatus(create(), code, text);
    EXPECT_EQ(weight(), 0);
  };
  refuse(makeStepArtifact(), 0, MPC_USAGE, "checkpoints of an earlier run");
  options.resume = "auto";
  refuse(makeStepArtifact(), 1, MPC_CHECKPOINT, "seed was 0, now it is 1");
  refuse(makeStepArtifact("second model"), 0, MPC_CHECKPOINT,
         "model was first model, now it is second model");
  refuse(makeAccumulatingArtifact(), 0, MPC_CHECKPOINT, "'g' is missing");
  options.data = "theirs";
  refuse(makeStepArtifact(), 0, MPC_CHECKPOINT, "it was ours");
  options.data = "ours";
  open(makeStepArtifact());
  EXPECT_EQ(codeOf(create()), MPC_OK);
  EXPECT_EQ(weight(), -1);
}

/// The samples of the command come from files, which a program cannot know.
TEST_F(CAPITrain, RefusesCheckpointsOfTheCommand) {
  const test::Bytes bytes = makeStepArtifact();
  auto artifact = Artifact::fromBytes(bytes.data(), bytes.size());
  ASSERT_TRUE(artifact.ok());
  auto ran = Session::create(*artifact, {});
  ASSERT_TRUE(ran.ok());
  auto trainee = makeTrainee(**ran);
  ASSERT_TRUE(trainee.ok());
  const FunctionPorts ports = *trainingInputs((*trainee)->info());
  auto data = Dataset::create(
      {makeArray<float>("x", ElementType::F32, {4}, {1, 1, 1, 1})}, ports);
  ASSERT_TRUE(data.ok()) << data.status().message();
  TrainOptions command;
  command.schedule.learningRate = 1;
  command.checkpointDir = directory / "checkpoints";
  ASSERT_TRUE(train(**trainee, *data, nullptr, command).ok());

  options.resume = command.checkpointDir.c_str();
  expectStatus(create(), MPC_CHECKPOINT, "the data differs");
  EXPECT_EQ(weight(), 0);
  ASSERT_EQ(codeOf(mpc_session_load_weights(session, options.resume)), MPC_OK);
  EXPECT_EQ(weight(), -1);
}

TEST_F(CAPITrain, PassesOverADamagedCheckpoint) {
  const std::string folder = directory / "checkpoints";
  options.checkpoint_dir = folder.c_str();
  options.learning_rate = 1;
  ASSERT_EQ(codeOf(create()), MPC_OK);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(codeOf(run(1)), MPC_OK);
    ASSERT_EQ(codeOf(mpc_trainer_save(trainer)), MPC_OK);
  }
  const std::string state = folder + "/step-2/state.safetensors";
  std::string bytes = readFile(state);
  bytes.back() ^= 1;
  writeFile(state, bytes);

  open(makeStepArtifact());
  const std::string damaged = folder + "/step-2";
  options.resume = damaged.c_str();
  expectStatus(create(), MPC_CHECKPOINT, "'w' is corrupt");
  EXPECT_EQ(weight(), 0);
  options.resume = "auto";
  ASSERT_EQ(codeOf(create()), MPC_OK);
  EXPECT_EQ(progress().step, 1);
  EXPECT_EQ(weight(), -1);
  const std::string notes = mpc_trainer_notes(trainer);
  EXPECT_NE(notes.find("trying the checkpoint before it"), std::string::npos)
      << notes;
  std::filesystem::resize_file(folder + "/step-1/train.json", 5);
  open(makeStepArtifact());
  expectStatus(create(), MPC_CHECKPOINT, "every checkpoint is damaged");
  EXPECT_EQ(weight(), 0);
}

TEST_F(CAPITrain, SavesNothingBad) {
  options.allow_nan = 1;
  ASSERT_EQ(codeOf(create()), MPC_OK);
  EXPECT_EQ(codeOf(mpc_trainer_save(trainer)), MPC_USAGE);
  const std::string folder = directory / "checkpoints";
  options.checkpoint_dir = folder.c_str();
  ASSERT_EQ(codeOf(create()), MPC_OK);
  ASSERT_EQ(codeOf(run(1)), MPC_OK);
  const float w[kBatch] = {1, INFINITY, 1, 1};
  ASSERT_EQ(codeOf(mpc_session_set_state(session, "w", w, sizeof(w))), MPC_OK);
  expectStatus(mpc_trainer_save(trainer), MPC_NUMERIC, "'w' is inf at [1]");
  ASSERT_EQ(codeOf(run(NAN)), MPC_OK);
  expectStatus(mpc_trainer_save(trainer), MPC_NUMERIC, "loss is not finite");
  EXPECT_TRUE(std::filesystem::is_empty(folder));
}

TEST_F(CAPITrain, OutlivesItsSession) {
  ASSERT_EQ(codeOf(create()), MPC_OK);
  mpc_evaluation *evaluation = nullptr;
  ASSERT_EQ(codeOf(mpc_evaluation_create(session, nullptr, &evaluation)),
            MPC_OK);
  mpc_session_free(session);
  session = nullptr;
  EXPECT_EQ(codeOf(run(1)), MPC_OK);
  const float x[kBatch] = {};
  const mpc_array array = {"x", x, sizeof(x)};
  EXPECT_EQ(codeOf(mpc_evaluation_add(evaluation, &array, 1)), MPC_OK);
  mpc_evaluation_free(evaluation);
}

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

TEST_F(CAPITrain, MovesWeightsThroughFiles) {
  options.learning_rate = 1;
  const std::string folder = directory / "checkpoints";
  options.checkpoint_dir = folder.c_str();
  ASSERT_EQ(codeOf(create()), MPC_OK);
  ASSERT_EQ(codeOf(run(3)), MPC_OK);
  ASSERT_EQ(codeOf(mpc_trainer_save(trainer)), MPC_OK);
  const std::string tensors = directory / "w.safetensors";
  const std::string zipped = directory / "w.npz";
  for (const std::string &file : {tensors, zipped})
    ASSERT_EQ(codeOf(mpc_session_write_weights(session, file.c_str())), MPC_OK);
  for (const std::string &file : {tensors, zipped, folder, folder + "/step-1",
                                  folder + "/step-1/state.safetensors"}) {
    open(makeStepArtifact());
    EXPECT_EQ(codeOf(mpc_session_load_weights(session, file.c_str())), MPC_OK)
        << file;
    EXPECT_EQ(weight(), -3) << file;
  }

  open(makeStepArtifact("another model"));
  expectStatus(mpc_session_load_weights(session, folder.c_str()),
               MPC_CHECKPOINT, "another model file");
  expectStatus(mpc_session_write_weights(session, (directory / "w.pt").c_str()),
               MPC_USAGE, ".pt");
  EXPECT_EQ(codeOf(mpc_session_write_weights(
                session, "/nonexistent/folder/w.safetensors")),
            MPC_IO);
  EXPECT_EQ(codeOf(mpc_session_load_weights(session, "/nonexistent.npz")),
            MPC_IO);
  writeFile(tensors, readFile(tensors).substr(0, 30));
  EXPECT_EQ(codeOf(mpc_session_load_weights(session, tensors.c_str())),
            MPC_INVALID_INPUT);
  EXPECT_EQ(weight(), 0);
  expectStatus(mpc_session_write_onnx(session, (directory / "w.onnx").c_str()),
               MPC_UNSUPPORTED, "does not hold its ONNX model");
}

/// The average of `w` is evaluated and written. Training goes on from `w`.
TEST_F(CAPITrain, UsesAverages) {
  test::ArtifactBuilder builder;
  builder.filledState("w", DType::F32, {kBatch}, 1);
  builder.filledState("w.ema", DType::F32, {kBatch}, 5, "average");
  addEval(builder);
  builder.plan["recipe"] = {{"loss", "mse@y"}, {"ema", 0.9}};
  open(builder.build());
  const float x[3] = {1, 2, 3};
  const mpc_array array = {"x", x, sizeof(x)};
  mpc_evaluation *evaluation = nullptr;
  mpc_evaluation_result result = MPC_EVALUATION_RESULT_INIT;
  ASSERT_EQ(codeOf(mpc_evaluation_create(session, nullptr, &evaluation)),
            MPC_OK);
  ASSERT_EQ(codeOf(mpc_evaluation_add(evaluation, &array, 1)), MPC_OK);
  ASSERT_EQ(codeOf(mpc_evaluation_finish(evaluation, &result)), MPC_OK);
  EXPECT_EQ(result.loss, 2 + 5);
  mpc_evaluation_free(evaluation);
  EXPECT_EQ(weight(), 1);

  const std::string file = directory / "w.safetensors";
  ASSERT_EQ(codeOf(mpc_session_write_weights(session, file.c_str())), MPC_OK);
  EXPECT_EQ(readFile(file).find("ema"), std::string::npos);
  ASSERT_EQ(codeOf(mpc_session_load_weights(session, file.c_str())), MPC_OK);
  EXPECT_EQ(weight(), 5);
}

TEST_F(CAPITrain, GuardsAgainstNullHandles) {
  EXPECT_EQ(codeOf(mpc_trainer_create(nullptr, nullptr, &trainer)), MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_trainer_create(session, nullptr, nullptr)), MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_trainer_run_batch(nullptr, nullptr, 0, nullptr)),
            MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_trainer_get_progress(nullptr, nullptr)), MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_trainer_set_learning_rate(nullptr, 1)), MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_trainer_save(nullptr)), MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_trainer_count_evaluation(nullptr, nullptr, nullptr)),
            MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_trainer_restore_best(nullptr, nullptr)), MPC_USAGE);
  EXPECT_STREQ(mpc_trainer_notes(nullptr), "");
  EXPECT_EQ(codeOf(mpc_evaluation_create(nullptr, nullptr, nullptr)),
            MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_evaluation_add(nullptr, nullptr, 0)), MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_evaluation_finish(nullptr, nullptr)), MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_evaluation_get(nullptr, nullptr, nullptr)), MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_session_load_weights(nullptr, "w.npz")), MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_session_write_weights(session, nullptr)), MPC_USAGE);
  EXPECT_EQ(codeOf(mpc_session_write_onnx(nullptr, nullptr)), MPC_USAGE);
  mpc_trainer_free(nullptr);
  mpc_evaluation_free(nullptr);
  EXPECT_EQ(codeOf(mpc_trainer_create(session, nullptr, &trainer)), MPC_OK);
  EXPECT_EQ(codeOf(mpc_trainer_get_progress(trainer, nullptr)), MPC_USAGE);
}

} // namespace
} // namespace mpc::runtime::train::capi
