// Artifacts that train and evaluate, and a trainer of the C API for tests.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_RUNTIME_CAPI_CAPITRAINFIXTURE_H
#define MPC_TEST_RUNTIME_CAPI_CAPITRAINFIXTURE_H

#include "runtime/capi/mpc.h"
#include "test/runtime/ArtifactBuilder.h"
#include "test/runtime/train/Support.h"

namespace mpc::runtime::train::capi {

inline constexpr int64_t kBatch = 4;

/// Adds the function `eval`: the loss of sample i is x[i] + w[i].
inline void addEval(test::ArtifactBuilder &builder) {
  test::FunctionBuilder eval = builder.function("eval");
  const size_t x = eval.input("x", DType::F32, {kBatch});
  const size_t losses = eval.arena(DType::F32, {kBatch});
  eval.launch("add", {x, eval.state("w"), losses}, kBatch, kBatch);
  eval.output("sample_loss", losses);
  builder.plan["functions"]["eval"]["outputs"][0]["role"] = "sample_loss";
}

/// Adds to `function` the loss x . x of its batch x, and sets its role.
inline void addLoss(test::FunctionBuilder &function, test::Json &json,
                    size_t x) {
  const size_t loss = function.arena(DType::F32, {1, 1});
  function.step({{"op", "matmul"},   {"a", x},
                 {"b", x},           {"c", loss},
                 {"batch", 1},       {"m", 1},
                 {"n", 1},           {"k", kBatch},
                 {"trans_a", false}, {"trans_b", false},
                 {"lda", kBatch},    {"ldb", 1},
                 {"ldc", 1},         {"stride_a", 0},
                 {"stride_b", 0},    {"stride_c", 0},
                 {"alpha", 1.0},     {"tile_m", 1},
                 {"tile_n", 1},      {"epilogue", nullptr}});
  function.output("loss", loss);
  json["outputs"].back()["role"] = "loss";
}

/// step: w -= learning_rate * x for a batch x of 4.
inline test::Bytes makeStepArtifact(const std::string &hash = "first model") {
  test::ArtifactBuilder builder;
  builder.filledState("w", DType::F32, {kBatch}, 0);
  test::FunctionBuilder step = builder.function("step");
  const size_t x = step.input("x", DType::F32, {kBatch});
  const size_t rate = step.input("learning_rate", DType::F32, {});
  step.launch("sgd", {step.state("w"), x, rate}, kBatch, kBatch);
  test::Json &json = builder.plan["functions"]["step"];
  addLoss(step, json, x);
  json["inputs"][1]["role"] = "scalar";
  addEval(builder);
  builder.plan["recipe"] = {{"loss", "mse@y"}, {"accumulate", 1}};
  builder.plan["model"]["hash"] = hash;
  return builder.build();
}

/// accumulate: g += x. update: w -= learning_rate * g. An update of two
/// batches.
inline test::Bytes makeAccumulatingArtifact() {
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
  update.launch("sgd", {update.state("w"), update.state("g"), rate}, kBatch,
                kBatch);
  builder.plan["functions"]["update"]["inputs"][0]["role"] = "scalar";
  addEval(builder);
  builder.plan["recipe"] = {{"loss", "mse@y"}, {"accumulate", 2}};
  return builder.build();
}

/// Frees a status and returns its code. Appends the message to `text`.
inline mpc_status_code codeOf(mpc_status *status, std::string *text = nullptr) {
  const mpc_status_code code = mpc_status_get_code(status);
  EXPECT_EQ(status == nullptr, *mpc_status_message(status) == '\0');
  if (text)
    *text = mpc_status_message(status);
  mpc_status_free(status);
  return code;
}

/// Expects a failure of `code` whose message contains `text`.
inline void expectStatus(mpc_status *status, mpc_status_code code,
                         const std::string &text) {
  std::string message;
  EXPECT_EQ(codeOf(status, &message), code) << message;
  EXPECT_NE(message.find(text), std::string::npos) << message;
}

inline mpc_session *openSession(const test::Bytes &bytes, uint64_t seed = 0) {
  mpc_artifact *artifact = nullptr;
  EXPECT_EQ(
      codeOf(mpc_artifact_open_bytes(bytes.data(), bytes.size(), &artifact)),
      MPC_OK);
  mpc_session_options options = MPC_SESSION_OPTIONS_INIT;
  options.threads = 1;
  options.seed = seed;
  mpc_session *session = nullptr;
  EXPECT_EQ(codeOf(mpc_session_create(artifact, &options, &session)), MPC_OK);
  mpc_artifact_close(artifact);
  return session;
}

class CAPITrain : public testing::Test {
protected:
  void SetUp() override { open(makeStepArtifact()); }
  void TearDown() override { close(); }

  void open(const test::Bytes &bytes, uint64_t seed = 0) {
    close();
    session = openSession(bytes, seed);
  }
  void close() {
    mpc_trainer_free(trainer);
    mpc_session_free(session);
    trainer = nullptr;
    session = nullptr;
  }

  mpc_status *create() {
    mpc_trainer_free(trainer);
    trainer = nullptr;
    return mpc_trainer_create(session, &options, &trainer);
  }

  /// Trains on a batch of x = `value`.
  mpc_status *run(float value, mpc_batch_result *result = nullptr) {
    const float x[kBatch] = {value, value, value, value};
    const mpc_array array = {"x", x, sizeof(x)};
    return mpc_trainer_run_batch(trainer, &array, 1, result);
  }

  float weight(int index = 0) {
    float w[kBatch] = {};
    EXPECT_EQ(codeOf(mpc_session_get_state(session, "w", w, sizeof(w))),
              MPC_OK);
    return w[index];
  }

  mpc_progress progress() {
    mpc_progress progress = MPC_PROGRESS_INIT;
    EXPECT_EQ(codeOf(mpc_trainer_get_progress(trainer, &progress)), MPC_OK);
    return progress;
  }

  TemporaryDirectory directory;
  mpc_session *session = nullptr;
  mpc_trainer *trainer = nullptr;
  mpc_trainer_options options = MPC_TRAINER_OPTIONS_INIT;
};

} // namespace mpc::runtime::train::capi

#endif // MPC_TEST_RUNTIME_CAPI_CAPITRAINFIXTURE_H
