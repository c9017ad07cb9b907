// Learning rates by step.
//
// SPDX-License-Identifier: Apache-2.0
#include "Support.h"

#include "runtime/train/Schedule.h"

namespace mpc::runtime::train {
namespace {

TEST(Schedule, ConstantStays) {
  Schedule schedule;
  schedule.learningRate = 0.1;
  EXPECT_EQ(schedule.at(0, 10), 0.1);
  EXPECT_EQ(schedule.at(9, 10), 0.1);
}

TEST(Schedule, WarmupRisesInALineToTheRate) {
  Schedule schedule;
  schedule.learningRate = 1;
  schedule.warmupSteps = 4;
  EXPECT_EQ(schedule.at(0, 10), 0.25);
  EXPECT_EQ(schedule.at(3, 10), 1);
  EXPECT_EQ(schedule.at(4, 10), 1);
}

TEST(Schedule, LinearFallsToTheMinimum) {
  Schedule schedule{ScheduleKind::Linear, 1.0, 0.2, 2};
  EXPECT_DOUBLE_EQ(schedule.at(2, 10), 1.0);
  EXPECT_DOUBLE_EQ(schedule.at(6, 10), 0.6);
  EXPECT_DOUBLE_EQ(schedule.at(10, 10), 0.2);
  EXPECT_DOUBLE_EQ(schedule.at(99, 10), 0.2);
}

TEST(Schedule, CosineIsThatOfCosineAnnealing) {
  Schedule schedule{ScheduleKind::Cosine, 1.0, 0.0, 0};
  EXPECT_DOUBLE_EQ(schedule.at(0, 8), 1.0);
  EXPECT_NEAR(schedule.at(2, 8), 0.8535533905932737, 1e-15);
  EXPECT_NEAR(schedule.at(4, 8), 0.5, 1e-15);
  EXPECT_NEAR(schedule.at(8, 8), 0.0, 1e-15);
}

TEST(Schedule, KnowsItsKindsByName) {
  EXPECT_EQ(*parseScheduleKind("cosine"), ScheduleKind::Cosine);
  expectFailure(parseScheduleKind("cosin").status(), StatusCode::Usage,
                "'cosin'");
}

} // namespace
} // namespace mpc::runtime::train
