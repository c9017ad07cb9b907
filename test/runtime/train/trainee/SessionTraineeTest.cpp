// Tests the training loop with a real session and a small real artifact.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/Trainer.h"
#include "test/runtime/ArtifactBuilder.h"

namespace mpc::runtime::train {
namespace {

constexpr int64_t kBatch = 4;

/// w -= learning_rate * x for a batch x of 4, with x . x as the loss and a
/// check that x is finite.
std::shared_ptr<const Artifact> makeArtifact() {
  test::ArtifactBuilder builder;
  builder.filledState("w", DType::F32, {kBatch}, 0);
  test::FunctionBuilder step = builder.function("step");
  const size_t x = step.input("x", DType::F32, {kBatch});
  const size_t rate = step.input("learning_rate", DType::F32, {});
  const size_t loss = step.arena(DType::F32, {1, 1});
  const size_t finite = step.arena(DType::I1, {});
  step.launch("sgd", {step.state("w"), x, rate}, kBatch, kBatch);
  step.launch("all_finite", {x, finite}, kBatch, kBatch);
  step.step({{"op", "matmul"},   {"a", x},
             {"b", x},           {"c", loss},
             {"batch", 1},       {"m", 1},
             {"n", 1},           {"k", kBatch},
             {"trans_a", false}, {"trans_b", false},
             {"lda", kBatch},    {"ldb", 1},
             {"ldc", 1},         {"stride_a", 0},
             {"stride_b", 0},    {"stride_c", 0},
             {"alpha", 1.0},     {"tile_m", 1},
             {"tile_n", 1},      {"epilogue", nullptr}});
  step.output("loss", loss);
  step.output("finite", finite);
  auto &function = builder.plan["functions"]["step"];
  function["inputs"][1]["role"] = "scalar";
  function["outputs"][0]["role"] = "loss";
  function["outputs"][1]["role"] = "finite";
  builder.plan["recipe"] = {{"loss", "mse@y"}, {"accumulate", 1}};
  return builder.open();
}

class SessionTrainee : public testing::Test {
protected:
  void SetUp() override {
    SessionOptions one;
    one.threads = 1;
    auto created = Session::create(makeArtifact(), one);
    ASSERT_TRUE(created.ok()) << created.status().message();
    session = std::move(*created);
    auto made = makeTrainee(*session);
    ASSERT_TRUE(made.ok()) << made.status().message();
    trainee = std::move(*made);
  }

  StatusOr<TrainResult> run(const TrainOptions &options) {
    std::vector<float> values;
    for (int i = 0; i < 20; ++i)
      values.push_back(float(i) / 7);
    auto data =
        Dataset::create({makeArray("x", ElementType::F32, {20}, values)},
                        *trainingInputs(trainee->info()));
    EXPECT_TRUE(data.ok()) << data.status().message();
    return train(*trainee, *data, nullptr, options);
  }

  std::unique_ptr<Session> session;
  std::unique_ptr<Trainee> trainee;
};

TEST_F(SessionTrainee, SaysWhatThePlanSays) {
  const TraineeInfo &info = trainee->info();
  EXPECT_EQ(info.loss, LossKind::MSE);
  EXPECT_EQ(describeLoss(info), "mse");
  EXPECT_EQ(info.accumulate, 1);
  ASSERT_NE(info.function("step"), nullptr);
  EXPECT_EQ(info.function("step")->input(Role::Scalar)->name, "learning_rate");
  EXPECT_EQ(info.function("step")->output(Role::Finite)->type, DType::I1);
  ASSERT_EQ(info.state.size(), 1u);
  EXPECT_EQ(info.state[0].shape, Shape{kBatch});
}

TEST(Recipe, NamesTheLoss) {
  TraineeInfo info;
  const auto describe = [&](const char *loss) {
    info.recipe = std::string("{\"loss\":\"") + loss + "\"}";
    const Status status = readRecipe(info);
    return status.ok() ? describeLoss(info) : status.message();
  };
  EXPECT_EQ(describe("bce_with_logits"), "bce_with_logits");
  EXPECT_EQ(info.loss, LossKind::BCEWithLogits);
  EXPECT_EQ(describe("output:a@b"), "output:a@b");
  EXPECT_EQ(info.loss, LossKind::Output);
  EXPECT_EQ(describe(""), "the model's own");
  EXPECT_EQ(describe("hinge"),
            "the artifact's recipe has an unknown loss 'hinge'");
}

TEST(Recipe, NamesSeveralLosses) {
  TraineeInfo info;
  info.recipe = R"({"loss":"mse","losses":["mse@y","0.5*nll@z:1","mse@y",
      "output:a@b","2*softmax_cross_entropy"],
      "targets":["t","u","t","","v"]})";
  ASSERT_TRUE(readRecipe(info).ok());
  EXPECT_EQ(lossNames(info),
            (std::vector<std::string>{"mse@y", "nll@z:1", "mse@y#2",
                                      "output:a@b", "cross_entropy"}));
  EXPECT_EQ(info.losses[1].factor, 0.5);
  EXPECT_EQ(info.losses[1].kind, LossKind::NLL);
  EXPECT_EQ(info.losses[1].output, "z:1");
  EXPECT_EQ(info.losses[1].target, "u");
  EXPECT_EQ(info.losses[4].output, "");
  for (const std::string &name : lossNames(info))
    EXPECT_TRUE(isLossName(name)) << name;
  EXPECT_FALSE(isLossName("loss_scale") || isLossName("r2@y"));

  // Artifacts of earlier versions have no targets.
  info.recipe = R"({"losses":["mse@y","l1@z"]})";
  EXPECT_TRUE(readRecipe(info).ok());
  EXPECT_TRUE(info.losses.empty());
  for (const char *recipe : {R"({"losses":["mse@y"],"targets":[]})",
                             R"({"losses":["hinge@y"],"targets":["t"]})",
                             R"({"losses":[1],"targets":["t"]})"}) {
    info.recipe = recipe;
    EXPECT_EQ(readRecipe(info).getCode(), StatusCode::InvalidInput) << recipe;
  }
}

TEST_F(SessionTrainee, Trains) {
  TrainOptions options;
  options.schedule.learningRate = 0.5;
  options.shuffle = false;
  StatusOr<TrainResult> result = run(options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->steps, 5);
  float expected = 0;
  for (int i = 0; i < 20; i += int(kBatch))
    expected -= 0.5f * (float(i) / 7);
  EXPECT_EQ(session->state("w")->as<float>()[0], expected);
}

TEST_F(SessionTrainee, ResumesInANewSession) {
  TemporaryDirectory directory;
  TrainOptions options;
  options.maxSteps = 14;
  ASSERT_TRUE(run(options).ok());
  const auto whole = session->state("w")->bytes;

  options.checkpointDir = directory / "c";
  options.maxSteps = 8;
  SetUp();
  ASSERT_TRUE(run(options).ok());
  EXPECT_NE(session->state("w")->bytes, whole);

  options.maxSteps = 14;
  options.resume = "auto";
  SetUp();
  StatusOr<TrainResult> result = run(options);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(session->state("w")->bytes, whole);
}

} // namespace
} // namespace mpc::runtime::train
