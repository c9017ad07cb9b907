// Tests the losses of samples that are derived from a mean.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/Facts/SampleLoss.h"
#include "test/compiler/OneOp.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace mpc;

namespace {
const std::string kScores = "%s: tensor<4x10xf32>, %t: tensor<4xi64>, "
                            "%w: tensor<10xf32>, %f: tensor<1x1xf32>";

std::string crossEntropy(const std::string &attributes) {
  return "%l, %p = mpc.softmax_cross_entropy_loss %s, %t {" + attributes +
         "} : (tensor<4x10xf32>, tensor<4xi64>) -> (tensor<f32>, "
         "tensor<4x10xf32>)\n";
}

// The loss of four samples; null if `ops` end in no mean over them.
Value build(OneOp &ops) {
  OpBuilder builder(ops->getBlock()->getTerminator());
  return buildSampleLoss(builder, ops->getResult(0), 4);
}

std::vector<int64_t> shapeOfLoss(const std::string &ops) {
  OneOp parsed(kScores, ops);
  Value loss = build(parsed);
  if (!loss)
    return {-1};
  return cast<RankedTensorType>(loss.getType()).getShape().vec();
}
const std::vector<int64_t> kNone = {-1};
} // namespace

TEST(SampleLossTest, ALossLosesItsReduction) {
  OneOp parsed(kScores, crossEntropy("reduction = #mpc.reduction<mean>"));
  Value loss = build(parsed);
  ASSERT_TRUE(loss);
  auto op = loss.getDefiningOp<SoftmaxCrossEntropyLossOp>();
  EXPECT_EQ(op.getReduction(), LossReduction::None);
  EXPECT_EQ(cast<RankedTensorType>(loss.getType()).getShape(),
            ArrayRef<int64_t>{4});
}

TEST(SampleLossTest, SumsAreNoMeans) {
  EXPECT_EQ(shapeOfLoss(crossEntropy("reduction = #mpc.reduction<sum>")),
            kNone);
}

TEST(SampleLossTest, LinearOpsApplyToSamples) {
  std::string factor = "%c = mpc.constant dense<0.5> : tensor<f32>\n";
  std::string mean = "%m = mpc.reduce_mean %s {axes = array<i64: 0, 1>} : "
                     "(tensor<4x10xf32>) -> tensor<f32>\n";
  OneOp parsed(kScores, factor + mean +
                            "%r = mpc.mul %m, %c : (tensor<f32>, tensor<f32>) "
                            "-> tensor<f32>");
  Value loss = build(parsed);
  ASSERT_TRUE(loss);
  auto scaled = loss.getDefiningOp<MulOp>();
  auto rows = scaled->getOperand(0).getDefiningOp<ReduceMeanOp>();
  EXPECT_EQ(ArrayRef<int64_t>(rows.getAxes()), ArrayRef<int64_t>{1});
}

// exp(mean) is no mean of samples, and a factor of two axes would broadcast.
TEST(SampleLossTest, OtherOpsHideTheMean) {
  std::string mean = "%m = mpc.reduce_mean %s {axes = array<i64: 0, 1>} : "
                     "(tensor<4x10xf32>) -> tensor<f32>\n";
  EXPECT_EQ(shapeOfLoss(mean + "%r = mpc.exp %m : (tensor<f32>) -> "
                               "tensor<f32>"),
            kNone);
  EXPECT_EQ(shapeOfLoss(mean + "%c = mpc.constant dense<0.5> : "
                               "tensor<1x1xf32>\n%r = mpc.mul %m, %c : "
                               "(tensor<f32>, tensor<1x1xf32>) -> "
                               "tensor<1x1xf32>"),
            kNone);
}

TEST(SampleLossTest, LabelsMustBeInputs) {
  OneOp plain(kScores, crossEntropy(""));
  EXPECT_EQ(findLabelLoss(*plain->getBlock()), plain.get());
  OneOp computed(kScores, "%n = mpc.neg %t : (tensor<4xi64>) -> "
                          "tensor<4xi64>\n%l, %p = "
                          "mpc.softmax_cross_entropy_loss %s, %n : "
                          "(tensor<4x10xf32>, tensor<4xi64>) -> (tensor<f32>, "
                          "tensor<4x10xf32>)");
  EXPECT_EQ(findLabelLoss(*computed->getBlock()), nullptr);
}

TEST(SampleLossTest, AccuracyHasALabelsShape) {
  OneOp parsed(kScores, crossEntropy(""));
  OpBuilder builder(parsed->getBlock()->getTerminator());
  Value correct = buildAccuracy(builder, parsed.get());
  EXPECT_EQ(correct.getType(),
            RankedTensorType::get({4}, builder.getF32Type()));
}
