// Tests the rule of early stopping and its text.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/EarlyStopping.h"

#include <gtest/gtest.h>

namespace mpc::runtime::train {
namespace {

TEST(EarlyStopping, TextIsReadBack) {
  for (const char *text : {"loss:3", "max:accuracy:1", "accuracy:2"}) {
    const auto stopping = parseEarlyStopping(text);
    ASSERT_TRUE(stopping.ok()) << text;
    const auto again = parseEarlyStopping(stopping->name());
    ASSERT_TRUE(again.ok());
    EXPECT_EQ(again->monitor.metric, stopping->monitor.metric);
    EXPECT_EQ(again->monitor.isMaximum, stopping->monitor.isMaximum);
    EXPECT_EQ(again->patience, stopping->patience);
  }
  EXPECT_TRUE(parseEarlyStopping("accuracy:2")->monitor.isMaximum);
  EXPECT_FALSE(parseEarlyStopping("loss:3")->monitor.isMaximum);
}

TEST(EarlyStopping, OtherTextsAreUsageErrors) {
  for (const char *text : {"", "3", "loss", "loss:", "loss:0", "loss:-1",
                           "loss:1.5", "loss:3x", "nothing:3"})
    EXPECT_EQ(parseEarlyStopping(text).status().getCode(), StatusCode::Usage)
        << text;
}

TEST(EarlyStopping, EndsAfterItsPatience) {
  const auto stopping = parseEarlyStopping("loss:2");
  MonitorState state;
  state.best = 0.5;
  state.bestStep = 7;
  state.waited = 1;
  EXPECT_FALSE(stopping->isOver(state));
  state.waited = 2;
  EXPECT_TRUE(stopping->isOver(state));
  EXPECT_EQ(stopping->describe(state).rfind(
                "early stopping: loss got no better in 2 evaluations", 0),
            0u);
  EXPECT_NE(stopping->describe(state).find("at step 7"), std::string::npos);
}

} // namespace
} // namespace mpc::runtime::train
