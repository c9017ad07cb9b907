// Tests evaluation figures: names, directions, comparisons, and their records.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/EarlyStopping.h"
#include "runtime/train/evaluate/Evaluator.h"
#include "runtime/train/evaluate/Monitor.h"
#include "runtime/train/support/Duration.h"

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

TEST(Monitor, AModelMayHaveNoAccuracy) {
  ToyModel model;
  const Monitor accuracy = *parseMonitor("accuracy");
  EXPECT_TRUE(checkAccuracy(accuracy, model.info()).ok());
  model.description.loss = "mse";
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

TEST(EarlyStopping, IsAFigureAndAPatience) {
  EXPECT_EQ(parseEarlyStopping("loss:3")->name(), "min:loss:3");
  EXPECT_EQ(parseEarlyStopping("max:f1:10")->name(), "max:f1:10");
  for (const char *text : {"loss", "loss:", "loss:0", "loss:-1", "loss:1.5",
                           ":", "3", "loss:3:", "loss: 3"})
    expectFailure(parseEarlyStopping(text).status(), StatusCode::Usage,
                  "METRIC:PATIENCE");
  expectFailure(parseEarlyStopping("losss:3").status(), StatusCode::Usage,
                "unknown metric 'losss'");
}

TEST(EarlyStopping, SaysWhatTheBestWas) {
  const EarlyStopping stopping = *parseEarlyStopping("accuracy:2");
  MonitorState state;
  state.waited = 2;
  EXPECT_EQ(stopping.describe(state),
            "early stopping: accuracy did not improve in 2 evaluations");
  state.best = 0.75;
  state.bestStep = 40;
  EXPECT_EQ(
      stopping.describe(state),
      "early stopping: accuracy did not improve in 2 evaluations; the best "
      "was accuracy 75.00% at step 40");
}

TEST(Duration, HasUnitsOrFields) {
  const std::pair<const char *, int64_t> cases[] = {{"90s", 90},
                                                    {"30m", 1800},
                                                    {"2h", 7200},
                                                    {"1d", 86400},
                                                    {"1h30m", 5400},
                                                    {"1d1s", 86401},
                                                    {"00:12:00:00", 43200},
                                                    {"01:02:03:04", 93784},
                                                    {"0:0:0:1", 1},
                                                    {"007s", 7}};
  for (const auto &[text, seconds] : cases)
    EXPECT_EQ(parseDuration(text)->count(), seconds) << text;
}

TEST(Duration, RefusesEverythingElse) {
  for (const char *text : {"",
                           "90",
                           "s",
                           "0s",
                           "1.5h",
                           "-1s",
                           "1m1h",
                           "1h1h",
                           "5x",
                           "1h ",
                           " 1h",
                           "12:00:00",
                           "00:00:00:00",
                           "1:2:3:4:5",
                           "1:2:3:",
                           ":::",
                           "1:-2:3:4",
                           "99999999999999999999s",
                           "9999999999d",
                           "36525d1s",
                           "1h30"})
    expectFailure(parseDuration(text).status(), StatusCode::Usage,
                  "found '" + std::string(text) + "'");
}

} // namespace
} // namespace mpc::runtime::train
