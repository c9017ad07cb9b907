// Tests the metrics of class counts against scikit-learn's figures.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/evaluate/ClassCounts.h"

#include <gtest/gtest.h>

namespace mpc::runtime::train {
namespace {

// Labels [0,0,1,1,1,2] and predictions [0,1,1,1,2,2], and a class 3 that never
// occurs.
ClassCounts counted() {
  ClassCounts counts;
  const size_t labels[] = {0, 0, 1, 1, 1, 2};
  const size_t predicted[] = {0, 1, 1, 1, 2, 2};
  for (size_t i = 0; i < 6; ++i)
    counts.add(predicted[i], labels[i]);
  counts.reserve(4);
  return counts;
}

TEST(ClassCounts, EqualsScikitLearn) {
  const ClassCounts counts = counted();
  EXPECT_EQ(counts.classes().size(), 4u);
  EXPECT_DOUBLE_EQ(counts.value(Agreement::Precision),
                   (1.0 + 2.0 / 3 + 0.5) / 3);
  EXPECT_DOUBLE_EQ(counts.value(Agreement::Recall), (0.5 + 2.0 / 3 + 1) / 3);
  EXPECT_DOUBLE_EQ(counts.value(Agreement::BalancedAccuracy),
                   (0.5 + 2.0 / 3 + 1) / 3);
  EXPECT_DOUBLE_EQ(counts.value(Agreement::F1), 2.0 / 3);
  EXPECT_DOUBLE_EQ(counts.value(Agreement::IoU), 0.5);
  // matthews_corrcoef
  EXPECT_NEAR(counts.value(Agreement::MCC), 0.5, 1e-15);
}

TEST(ClassCounts, ALabelWithoutAPredictionIsMissed) {
  ClassCounts counts = counted();
  counts.addLabel(3);
  EXPECT_DOUBLE_EQ(counts.value(Agreement::BalancedAccuracy),
                   (0.5 + 2.0 / 3 + 1 + 0) / 4);
  // matthews_corrcoef with a prediction of a fifth class
  EXPECT_DOUBLE_EQ(counts.value(Agreement::MCC), 15.0 / 34);
}

TEST(ClassCounts, OneClassAloneHasNoCorrelation) {
  ClassCounts counts;
  counts.add(0, 0);
  counts.add(0, 1);
  EXPECT_EQ(counts.value(Agreement::MCC), 0);
}

TEST(BinaryCounts, CountsBothSides) {
  BinaryCounts counts;
  const bool targets[] = {true, true, true, false, false};
  const bool predicted[] = {true, true, false, true, false};
  for (size_t i = 0; i < 5; ++i)
    counts.add(0, predicted[i], targets[i]);
  EXPECT_EQ(counts.sizeOf(0), 5);
  EXPECT_DOUBLE_EQ(counts.value(Agreement::Precision), 2.0 / 3);
  EXPECT_DOUBLE_EQ(counts.value(Agreement::BalancedAccuracy),
                   (2.0 / 3 + 0.5) / 2);
  EXPECT_DOUBLE_EQ(counts.value(Agreement::MCC), 1.0 / 6);
}

TEST(Agreement, HasNames) {
  EXPECT_EQ(agreementOf("mcc"), Agreement::MCC);
  EXPECT_EQ(agreementOf("auc"), std::nullopt);
}

} // namespace
} // namespace mpc::runtime::train
