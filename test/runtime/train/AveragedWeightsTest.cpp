// Tests replacing parameters by their averages, and restoring the parameters.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/AveragedWeights.h"

namespace mpc::runtime::train {
namespace {

/// A model with an average of its weights.
struct Averaged : ToyModel {
  Averaged() {
    description.state.push_back({"w.ema", Role::Average, DType::F32, {4, 3}});
    average.as<float>()[0] = 2;
    Tensor w = Tensor::zeros(DType::F32, {4, 3});
    w.as<float>()[0] = 1;
    EXPECT_TRUE(setState("w", w).ok());
  }
  StatusOr<Tensor> state(std::string_view name) override {
    return name == "w.ema" ? average : ToyModel::state(name);
  }
  float weight() { return state("w")->as<float>()[0]; }
  bool isDerived() {
    return state("w.bf16")->bytes == convert(*state("w"), DType::BF16)->bytes;
  }

  Tensor average = Tensor::zeros(DType::F32, {4, 3});
};

TEST(AveragedWeights, AreThoseOfAnEvaluation) {
  Averaged model;
  StatusOr<EvalResult> result =
      evaluateAverages(model, [&]() -> StatusOr<EvalResult> {
        EXPECT_EQ(model.weight(), 2);
        EXPECT_TRUE(model.isDerived());
        EvalResult seen;
        seen.loss = 3;
        return seen;
      });
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->loss, 3);
  EXPECT_EQ(model.weight(), 1);
  EXPECT_TRUE(model.isDerived());
}

TEST(AveragedWeights, GiveWayWhereAnEvaluationFails) {
  Averaged model;
  StatusOr<EvalResult> result =
      evaluateAverages(model, []() -> StatusOr<EvalResult> {
        return Status(StatusCode::Device, "gone");
      });
  expectFailure(result.status(), StatusCode::Device, "gone");
  EXPECT_EQ(model.weight(), 1);
}

TEST(AveragedWeights, AreTheModelsInTheEnd) {
  Averaged model;
  ASSERT_TRUE(useAverages(model).ok());
  EXPECT_EQ(model.weight(), 2);
  EXPECT_TRUE(model.isDerived());
}

TEST(AveragedWeights, AModelWithoutStaysAsItIs) {
  ToyModel model;
  const auto before = model.copies;
  ASSERT_TRUE(useAverages(model).ok());
  ASSERT_TRUE(evaluateAverages(model, [] { return EvalResult(); }).ok());
  EXPECT_EQ(model.copies, before);
}

TEST(AveragedWeights, AnAverageOfNothingIsRefused) {
  ToyModel model;
  model.description.state.push_back({"ema", Role::Average, DType::F32, {4, 3}});
  expectFailure(useAverages(model), StatusCode::InvalidInput,
                "the average 'ema' belongs to no parameter");
}

std::string nameAndFirst(const Array &array) {
  return array.name + " " +
         std::to_string(reinterpret_cast<const float *>(array.data)[0]);
}

TEST(AveragedWeights, AreTheParametersOfACheckpointThatHasThem) {
  CheckpointContents contents;
  for (const auto &[name, value] : {std::pair<const char *, float>{"w", 1},
                                    {"w.ema", 2},
                                    {"b", 3},
                                    {"v.ema", 4}})
    contents.arrays.push_back(
        makeArray<float>(name, ElementType::F32, {1}, {value}));
  const auto states = [&] {
    std::string text;
    for (const Array &array : evaluatedState(contents))
      text += nameAndFirst(array).substr(0, 6) + ";";
    return text;
  };
  const std::string unchanged = "w 1.00;w.ema ;b 3.00;v.ema ;";
  EXPECT_EQ(states(), unchanged);
  for (const char *recipe : {"", "[\"ema\"]", "{\"optimizer\":\"ema\"}"}) {
    contents.identity["recipe"] = recipe;
    EXPECT_EQ(states(), unchanged) << recipe;
  }
  contents.identity["recipe"] = "{\"ema\":0.9}";
  EXPECT_EQ(states(), "w 2.00;w.ema ;b 3.00;v.ema ;");
}

} // namespace
} // namespace mpc::runtime::train
