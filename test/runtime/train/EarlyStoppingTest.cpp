// Tests the rule of early stopping and its text.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/EarlyStopping.h"

#include "test/runtime/train/Support.h"

#include <gtest/gtest.h>

namespace mpc::runtime::train {
namespace {

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

TEST(EarlyStopping, EndsAfterItsPatience) {
  const auto stopping = parseEarlyStopping("loss:2");
  MonitorState state;
  state.waited = 1;
  EXPECT_FALSE(stopping->isOver(state));
  state.waited = 2;
  EXPECT_TRUE(stopping->isOver(state));
}

} // namespace
} // namespace mpc::runtime::train
