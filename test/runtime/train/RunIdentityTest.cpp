// Tests what a run has in common with its checkpoints.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/RunIdentity.h"

#include <cstdint>
#include <gtest/gtest.h>

namespace mpc::runtime::train {
namespace {

/// An epoch of ten steps over 100 samples.
EpochSteps tenSteps() { return {100, 10, LastBatch::Drop}; }

TEST(RunIdentity, PositionsAreThoseOfTheRun) {
  Progress progress;
  progress.step = 23;
  progress.epoch = 2;
  progress.sampleInEpoch = 30;
  EXPECT_TRUE(checkPosition(progress, tenSteps(), 1).ok());
  // Another number of samples.
  EXPECT_EQ(checkPosition(progress, {30, 10, LastBatch::Drop}, 1).getCode(),
            StatusCode::Checkpoint);
  progress.batchInStep = 1;
  EXPECT_EQ(checkPosition(progress, tenSteps(), 1).getCode(),
            StatusCode::Checkpoint);
  EXPECT_TRUE(checkPosition(progress, tenSteps(), 2).ok());
}

TEST(RunIdentity, StepsAreCountedFromAnyPlaceOfAnEpoch) {
  EXPECT_EQ(tenSteps().stepsFrom(0), 10);
  EXPECT_EQ(tenSteps().stepsFrom(90), 1);
  // The last nine samples fill no step.
  EXPECT_EQ(tenSteps().stepsFrom(91), 0);
  const EpochSteps kept{100, 10, LastBatch::Keep};
  EXPECT_EQ(kept.stepsFrom(91), 1);
  EXPECT_EQ(kept.stepsFrom(99), 1);
  EXPECT_EQ(kept.stepsFrom(100), 0);
}

TEST(RunIdentity, TheSmallerLimitEndsARun) {
  TrainOptions options;
  options.epochs = 3;
  EXPECT_EQ(countSteps(options, tenSteps()), 30);
  options.maxSteps = 7;
  EXPECT_EQ(countSteps(options, tenSteps()), 7);
  options.maxSteps = 100;
  EXPECT_EQ(countSteps(options, tenSteps()), 30);
  options.epochs = 0;
  EXPECT_EQ(countSteps(options, tenSteps()), 100);
  options.maxSteps = 0;
  EXPECT_EQ(countSteps(options, tenSteps()), 10);
  // Too many steps to count are no end.
  options.epochs = INT64_MAX;
  EXPECT_EQ(countSteps(options, tenSteps()), kUnlimited);
}

TEST(RunIdentity, StepsOfAnotherSizeCountAsMade) {
  TrainOptions options;
  options.epochs = 3;
  // 18 steps of 5 samples, in the first of three epochs.
  Progress progress;
  progress.step = 18;
  progress.sampleInEpoch = 90;
  EXPECT_EQ(countSteps(options, tenSteps(), progress), 18 + 1 + 20);
  progress.sampleInEpoch = 95;
  EXPECT_EQ(countSteps(options, tenSteps(), progress), 18 + 0 + 20);
  progress.epoch = 3;
  progress.sampleInEpoch = 0;
  EXPECT_EQ(countSteps(options, tenSteps(), progress), 18);
}

TEST(RunIdentity, EpochsOfOtherStepsCountAsMade) {
  // 18 steps of 5 samples, in the first epoch.
  Progress progress;
  progress.step = 18;
  progress.sampleInEpoch = 90;
  EXPECT_EQ(countEpochs(tenSteps(), progress, 18 + 1), 1);
  EXPECT_EQ(countEpochs(tenSteps(), progress, 18 + 1 + 20), 3);
  EXPECT_EQ(countEpochs(tenSteps(), progress, 18 + 1 + 21), 4);
  progress.sampleInEpoch = 0;
  progress.epoch = 2;
  EXPECT_EQ(countEpochs(tenSteps(), progress, 18 + 10), 3);
  EXPECT_EQ(countEpochs(tenSteps(), {}, 30), 3);
  EXPECT_EQ(countEpochs(tenSteps(), {}, kUnlimited), kUnlimited);
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
