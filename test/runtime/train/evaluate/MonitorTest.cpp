// Tests evaluation figures: names, directions, comparisons, and their records.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/evaluate/Evaluator.h"
#include "runtime/train/evaluate/Monitor.h"

#include <cmath>

namespace mpc::runtime::train {
namespace {

TEST(Monitor, KnowsWhichWayIsBetter) {
  for (const char *name : {"loss", "perplexity", "mae", "rmse"})
    EXPECT_EQ(parseMonitor(name)->name(), "min:" + std::string(name));
  for (const char *name : {"accuracy", "top5", "f1", "r2"})
    EXPECT_EQ(parseMonitor(name)->name(), "max:" + std::string(name));
}

TEST(Monitor, APrefixChoosesTheDirection) {
  for (const char *name : {"max:loss", "min:accuracy", "max:top5", "min:mae"})
    EXPECT_EQ(parseMonitor(name)->name(), name);
}

TEST(Monitor, RefusesWhatIsNoFigure) {
  for (const char *name :
       {"", "losss", "min:", "min:max:loss", "top", "MAX:r2"})
    expectFailure(parseMonitor(name).status(), StatusCode::Usage,
                  "unknown metric");
}

TEST(Monitor, AFigureMustBeAskedFor) {
  EXPECT_TRUE(checkMeasured(*parseMonitor("loss"), {}).ok());
  EXPECT_TRUE(checkMeasured(*parseMonitor("accuracy"), {}).ok());
  EXPECT_TRUE(checkMeasured(*parseMonitor("min:f1"), {"top2", "f1"}).ok());
  expectFailure(checkMeasured(*parseMonitor("f1"), {"top2"}), StatusCode::Usage,
                "ask for it with --metric f1");
}

TEST(Monitor, WatchesAnOutputOrOneOfSeveralLosses) {
  EXPECT_EQ(parseMonitor("r2@a:0")->name(), "max:r2@a:0");
  EXPECT_EQ(parseMonitor("mae@y")->name(), "min:mae@y");
  EXPECT_EQ(parseMonitor("mse@y")->name(), "min:mse@y");
  EXPECT_EQ(parseMonitor("softmax_cross_entropy@y")->name(),
            "min:cross_entropy@y");
  expectFailure(parseMonitor("r2@").status(), StatusCode::Usage,
                "unknown metric");
  const Monitor loss = *parseMonitor("mse@y");
  EXPECT_TRUE(checkMeasured(loss, {}, {"l1@z", "mse@y"}).ok());
  expectFailure(checkMeasured(loss, {}, {"l1@z", "l1@y"}), StatusCode::Usage,
                "there is no loss mse@y; the losses are l1@z, l1@y");
  expectFailure(checkMeasured(loss, {}, {}), StatusCode::Usage,
                "there is only one loss; say loss instead of mse@y");
  EvalResult result;
  result.terms = {{"l1@z", 1}, {"mse@y", 0.25}};
  EXPECT_EQ(valueOf(result, loss), 0.25);
}

TEST(Monitor, RequestsItsMetric) {
  std::vector<std::string> metrics = {"f1"};
  for (const char *name : {"loss", "accuracy", "f1", "mse@y", "r2@y", "r2@y"})
    requestMetric(*parseMonitor(name), metrics);
  EXPECT_EQ(metrics, (std::vector<std::string>{"f1", "r2@y"}));
}

TEST(Monitor, AModelMayHaveNoAccuracy) {
  ToyModel model;
  const Monitor accuracy = *parseMonitor("accuracy");
  EXPECT_TRUE(checkAccuracy(accuracy, model.info()).ok());
  model.description.loss = LossKind::MSE;
  model.description.functions["eval"].outputs.pop_back();
  expectFailure(checkAccuracy(accuracy, model.info()), StatusCode::Usage,
                "no accuracy; the loss is mse");
  EXPECT_TRUE(checkAccuracy(Monitor(), model.info()).ok());
}

TEST(Monitor, FindsTheFigureOfAnEvaluation) {
  EvalResult result;
  result.loss = 0.5;
  result.metrics = {{"top2", 0.75}, {"f1", 0.25}};
  EXPECT_EQ(valueOf(result, *parseMonitor("loss")), 0.5);
  EXPECT_EQ(valueOf(result, *parseMonitor("f1")), 0.25);
  EXPECT_TRUE(std::isnan(valueOf(result, *parseMonitor("accuracy"))));
  result.accuracy = 0.875;
  EXPECT_EQ(valueOf(result, *parseMonitor("accuracy")), 0.875);
}

TEST(Monitor, CountsWhatIsNoBetter) {
  const Monitor loss = *parseMonitor("loss");
  MonitorState state;
  EXPECT_TRUE(count(state, loss, 0.5, 1));
  EXPECT_FALSE(count(state, loss, 0.5, 2)); // the first of equals
  EXPECT_FALSE(count(state, loss, 0.7, 3));
  EXPECT_EQ(state.waited, 2);
  EXPECT_TRUE(count(state, loss, 0.4, 4));
  EXPECT_EQ(*state.best, 0.4);
  EXPECT_EQ(state.bestStep, 4);
  EXPECT_EQ(state.waited, 0);
  const Monitor accuracy = *parseMonitor("accuracy");
  MonitorState other;
  EXPECT_TRUE(count(other, accuracy, 0.5, 1));
  EXPECT_FALSE(count(other, accuracy, 0.4, 2));
  EXPECT_TRUE(count(other, accuracy, 0.6, 3));
}

TEST(Monitor, NothingIsTheBestThatIsNotFinite) {
  const Monitor loss = *parseMonitor("loss");
  MonitorState state;
  for (double value : {std::nan(""), -HUGE_VAL, HUGE_VAL})
    EXPECT_FALSE(count(state, loss, value, 1));
  EXPECT_FALSE(state.best.has_value());
  EXPECT_EQ(state.waited, 3);
  EXPECT_TRUE(count(state, loss, 9, 2));
  EXPECT_FALSE(count(state, loss, -HUGE_VAL, 3));
}

TEST(Monitor, ForgetsWhatIsOfAnotherFigure) {
  MonitorState state;
  adopt(state, *parseMonitor("loss"));
  EXPECT_TRUE(count(state, *parseMonitor("loss"), 0.5, 1));
  adopt(state, *parseMonitor("loss"));
  EXPECT_TRUE(state.best.has_value());
  adopt(state, *parseMonitor("max:loss"));
  EXPECT_FALSE(state.best.has_value());
  EXPECT_EQ(state.monitor, "max:loss");
}

TEST(Monitor, SharesArePercent) {
  EXPECT_EQ(describeFigure("accuracy", 0.98123), "accuracy 98.12%");
  EXPECT_EQ(describeFigure("top5", 1), "top5 100.00%");
  EXPECT_EQ(describeFigure("loss", 0.0431), "loss 0.0431");
}

} // namespace
} // namespace mpc::runtime::train
