// Averages in place of parameters, and the parameters afterwards.
//
// SPDX-License-Identifier: Apache-2.0
#include "Support.h"

#include "runtime/train/AveragedWeights.h"

namespace mpc::runtime::train {
namespace {

/// A model that has an average of its weights.
struct Averaged : ToyModel {
  Averaged() {
    description.state.push_back({"w.ema", "average", DType::F32, {4, 3}});
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
  model.description.state.push_back({"ema", "average", DType::F32, {4, 3}});
  expectFailure(useAverages(model), StatusCode::InvalidInput,
                "the average 'ema' is of no parameter");
}

} // namespace
} // namespace mpc::runtime::train
