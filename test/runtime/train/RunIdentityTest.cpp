// Tests what a run has in common with its checkpoints.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/RunIdentity.h"

#include <cstdint>
#include <gtest/gtest.h>

namespace mpc::runtime::train {
namespace {

TEST(RunIdentity, PositionsAreThoseOfTheRun) {
  Progress progress;
  progress.step = 23;
  progress.epoch = 2;
  progress.stepInEpoch = 3;
  EXPECT_TRUE(checkPosition(progress, 10, 1).ok());
  // Another number of steps per epoch.
  EXPECT_EQ(checkPosition(progress, 11, 1).getCode(), StatusCode::Checkpoint);
  progress.batchInStep = 1;
  EXPECT_EQ(checkPosition(progress, 10, 1).getCode(), StatusCode::Checkpoint);
  EXPECT_TRUE(checkPosition(progress, 10, 2).ok());
}

TEST(RunIdentity, TheSmallerLimitEndsARun) {
  TrainOptions options;
  options.epochs = 3;
  EXPECT_EQ(countSteps(options, 10), 30);
  options.maxSteps = 7;
  EXPECT_EQ(countSteps(options, 10), 7);
  options.maxSteps = 100;
  EXPECT_EQ(countSteps(options, 10), 30);
  options.epochs = 0;
  EXPECT_EQ(countSteps(options, 10), 100);
  options.maxSteps = 0;
  EXPECT_EQ(countSteps(options, 10), 10);
  // Too many steps to count are no end.
  options.epochs = INT64_MAX;
  EXPECT_EQ(countSteps(options, 10), kUnlimited);
}

TEST(RunIdentity, ChangesAreNamed) {
  EXPECT_EQ(changedSettings({{"steps", "10"}, {"schedule", "constant"}},
                            {{"steps", "10"}, {"schedule", "cosine"}}),
            "schedule was constant, now it is cosine");
  // An older version did not record the setting.
  EXPECT_EQ(changedSettings({}, {{"steps", "10"}}), "");
}

} // namespace
} // namespace mpc::runtime::train
