// Tests that evaluation counts every sample once, whatever the batch.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/evaluate/EvalMetrics.h"
#include "runtime/train/evaluate/Evaluator.h"
#include "runtime/train/record/Metrics.h"

#include <cmath>
#include <set>

namespace mpc::runtime::train {
namespace {

/// Sets weights with which the toy classifier predicts class c by feature c -
/// 1.
void teach(ToyModel &model) {
  Tensor w = Tensor::zeros(DType::F32, {4, 3});
  for (int c = 1; c < 4; ++c)
    if (c - 1 > 0)
      w.as<float>()[c * 3 + c - 1] = 8;
  ASSERT_TRUE(model.setState("w", w).ok());
}

/// Computes the loss without batches, in double.
double expectedLoss(ToyModel &model, int64_t count) {
  const std::vector<Array> arrays = toyArrays(count);
  const float *x = reinterpret_cast<const float *>(arrays[0].data);
  const Tensor weights = *model.state("w");
  const float *w = weights.as<float>();
  double sum = 0;
  for (int64_t n = 0; n < count; ++n) {
    double total = 0, label = 0;
    for (int c = 0; c < 4; ++c) {
      double score = 0;
      for (int f = 0; f < 3; ++f)
        score += double(x[n * 3 + f]) * double(w[c * 3 + f]);
      total += std::exp(score);
      if (c == n % 4)
        label = score;
    }
    sum += std::log(total) - label;
  }
  return sum / double(count);
}

TEST(Evaluator, PaddingDoesNotCount) {
  ToyModel model;
  teach(model);
  for (int64_t count : {1, 3, 4, 5, 11}) {
    StatusOr<EvalResult> result = evaluate(model, toyData(model, count));
    ASSERT_TRUE(result.ok()) << result.status().message();
    EXPECT_EQ(result->samples, count);
    EXPECT_EQ(result->leftOut, 0);
    // Sample losses are fp32.
    EXPECT_NEAR(result->loss, expectedLoss(model, count), 1e-6);
  }
}

TEST(Evaluator, AccuracyIsTheShareOfLabelsThatAreCorrect) {
  ToyModel model;
  teach(model);
  // Features identify classes 2 and 3. Classes 0 and 1 tie, and class 0 wins.
  StatusOr<EvalResult> result = evaluate(model, toyData(model, 12));
  EXPECT_DOUBLE_EQ(*result->accuracy, 0.75);
}

TEST(Evaluator, OfEqualScoresTheFirstIsAmongTheGreatest) {
  ToyModel model;
  teach(model);
  StatusOr<EvalResult> result =
      evaluate(model, toyData(model, 11), nullptr, {"top1", "top2", "f1"});
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->metrics.size(), 3u);
  EXPECT_DOUBLE_EQ(result->metrics[0].second, *result->accuracy);
  EXPECT_DOUBLE_EQ(result->metrics[1].second, 1.0);
  // The 3 samples of class 1 are predicted as class 0, and class 1 is never
  // predicted.
  EXPECT_DOUBLE_EQ(result->metrics[2].second, (6.0 / 9 + 0 + 1 + 1) / 4);
}

TEST(Evaluator, MetricsOfAnotherFamilyAreRefused) {
  ToyModel model;
  for (const char *name : {"mae", "top5", "top0", "gini"})
    EXPECT_EQ(checkEvalMetrics(model.description, {name}).getCode(),
              StatusCode::Usage)
        << name;
  EXPECT_TRUE(checkEvalMetrics(model.description, {"accuracy", "top4"}).ok());
}

TEST(Evaluator, ANameMayHaveTheOutputOfTheLoss) {
  ToyModel model;
  expectFailure(checkEvalMetrics(model.description, {"f1@scores"}),
                StatusCode::Usage,
                "no loss reads the output 'scores'; the loss is "
                "softmax_cross_entropy; leave out @scores");
  model.description.recipe =
      "{\"loss\":\"softmax_cross_entropy\",\"loss_output\":\"scores\"}";
  EXPECT_TRUE(checkEvalMetrics(model.description, {"f1@scores"}).ok());
  StatusOr<EvalResult> result =
      evaluate(model, toyData(model, 11), nullptr, {"f1@scores", "f1"});
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->metrics.size(), 2u);
  EXPECT_EQ(result->metrics[0].first, "f1@scores");
  EXPECT_EQ(result->metrics[0].second, result->metrics[1].second);
}

TEST(Evaluator, CountsEveryClass) {
  ToyModel model;
  teach(model);
  StatusOr<EvalResult> result =
      evaluate(model, toyData(model, 11), nullptr, {}, nullptr,
               /*reportsClasses=*/true);
  ASSERT_TRUE(result.ok()) << result.status().message();
  ASSERT_EQ(result->classes.size(), 1u);
  const ClassReport &report = result->classes.front();
  EXPECT_EQ(report.label, "y");
  ASSERT_EQ(report.classes.size(), 4u);
  // Class 1 is predicted as class 0.
  EXPECT_EQ(report.classes[0].predictions, 6);
  EXPECT_EQ(report.classes[1].labels, 3);
  EXPECT_EQ(report.matrix.at({1, 0}), 3);
  EXPECT_EQ(report.matrix.at({3, 3}), 2);
}

TEST(Evaluator, ReadsNoPrediction) {
  ToyModel model;
  teach(model);
  ASSERT_TRUE(evaluate(model, toyData(model, 12)).ok());
  EXPECT_EQ(model.outputsRead, (std::set<std::string>{"losses", "correct"}));
}

TEST(Evaluator, IgnoredLabelsAreNoTermsOfTheMean) {
  ToyModel model;
  teach(model);
  model.description.recipe = "{\"ignore_index\":1}";
  StatusOr<EvalResult> result = evaluate(model, toyData(model, 8));
  // All samples of classes 0, 2 and 3 are right.
  EXPECT_DOUBLE_EQ(*result->accuracy, 1.0);
}

TEST(Evaluator, WithoutTheOutputThereIsNoAccuracy) {
  ToyModel model;
  model.description.functions["eval"].outputs.pop_back();
  EXPECT_FALSE(evaluate(model, toyData(model, 4))->accuracy.has_value());
}

TEST(Evaluator, LeavesOutTheRestWithoutALossPerSample) {
  ToyModel model;
  Port &losses = model.description.functions["eval"].outputs[0];
  losses = {"loss", Role::Loss, DType::F32, {}};
  ASSERT_TRUE(model.run("step").ok()); // creates the output "loss"
  StatusOr<EvalResult> result = evaluate(model, toyData(model, 11));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->samples, 8);
  EXPECT_EQ(result->leftOut, 3);
}

TEST(Evaluator, TellsHowFarItIsAfterEveryBatch) {
  ToyModel model;
  std::vector<int64_t> told;
  ASSERT_TRUE(evaluate(model, toyData(model, 11), nullptr, {}, [&](int64_t n) {
                told.push_back(n);
              }).ok());
  EXPECT_EQ(told, (std::vector<int64_t>{4, 8, 11}));
}

TEST(Evaluator, FiguresAreFieldsOfAnEvent) {
  EvalResult result;
  result.loss = 0.5;
  result.metrics = {{"f1", 0.25}};
  result.samples = 3;
  MetricsLine line("eval", Digits::Single);
  addEvaluation(line, result);
  EXPECT_EQ(line.text(), "{\"event\":\"eval\",\"eval_loss\":0.5,"
                         "\"eval_accuracy\":null,\"eval_f1\":0.25,"
                         "\"eval_samples\":3}\n");
}

TEST(Evaluator, NeedsTheFunction) {
  ToyModel model;
  const Dataset data = toyData(model, 4);
  model.description.functions.erase("eval");
  expectFailure(evaluate(model, data).status(), StatusCode::Unsupported,
                "'eval'");
}

} // namespace
} // namespace mpc::runtime::train
