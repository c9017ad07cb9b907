// Tests the events of a run in the metrics.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/RunEvents.h"

#include <gtest/gtest.h>
#include <string>

namespace mpc::runtime::train {
namespace {

std::string textOf(const MetricsLine &line, std::string_view key) {
  const MetricsField *field = line.field(key);
  return field ? field->text : "no " + std::string(key);
}

TEST(RunEvents, AStartWithoutALimitHasNoNumberOfSteps) {
  TraineeInfo info;
  TrainOptions options;
  StartReport report;
  report.totalSteps = kUnlimited;
  MetricsLine line = startLine(info, options, report, "f00d", Digits::Single);
  EXPECT_EQ(line.event(), "start");
  EXPECT_EQ(textOf(line, "data"), "f00d");
  EXPECT_EQ(textOf(line, "steps"), "null");
  EXPECT_EQ(textOf(line, "resumed_from"), "null");
  EXPECT_EQ(textOf(line, "recipe"), "no recipe");

  report.totalSteps = 12;
  report.firstStep = 5;
  info.recipe = "{}";
  line = startLine(info, options, report, "f00d", Digits::Single);
  EXPECT_EQ(textOf(line, "steps"), "12");
  EXPECT_EQ(textOf(line, "resumed_from"), "5");
  EXPECT_EQ(textOf(line, "recipe"), "{}");
}

// The columns of a table depend on the run, not on the step.
TEST(RunEvents, AStepHasAnAccuracyIfTheRunMeasuresIt) {
  StepReport report;
  EXPECT_EQ(textOf(stepLine(report, true, Digits::Single), "accuracy"), "null");
  report.accuracy = 0.5;
  EXPECT_EQ(textOf(stepLine(report, true, Digits::Single), "accuracy"), "0.5");
  EXPECT_EQ(textOf(stepLine(report, false, Digits::Single), "accuracy"),
            "no accuracy");
}

TEST(RunEvents, AStepHasSeveralLosses) {
  StepReport report;
  report.terms = {{"mse@y", 0.5}, {"l1@z", std::nullopt}};
  const MetricsLine line = stepLine(report, false, Digits::Single);
  EXPECT_EQ(textOf(line, "mse@y"), "0.5");
  EXPECT_EQ(textOf(line, "l1@z"), "null");
}

TEST(RunEvents, AnEndHasItsReason) {
  TrainResult result;
  auto reason = [&](const Status &status) {
    return textOf(endLine(result, status, 0, Digits::Single), "ended_by");
  };
  EXPECT_EQ(reason(Status()), "steps");
  result.end = RunEnd::TimeLimit;
  EXPECT_EQ(reason(Status()), "max_time");
  result.end = RunEnd::EarlyStopping;
  EXPECT_EQ(reason(Status()), "early_stopping");
  result.stopSignal = 2;
  EXPECT_EQ(reason(Status()), "signal");
  const Status failure(StatusCode::Numeric, "the loss is not finite");
  EXPECT_EQ(reason(failure), "failure");
  EXPECT_EQ(textOf(endLine(result, failure, 7, Digits::Single), "message"),
            "the loss is not finite");
}

} // namespace
} // namespace mpc::runtime::train
