// Tests learning rates by step.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/Schedule.h"

#include <cmath>

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

// torch.optim.lr_scheduler.StepLR(step_size=3, gamma=0.5).
TEST(Schedule, StepFallsByAFactor) {
  Schedule schedule;
  ASSERT_TRUE(parseSchedule("step:3:0.5", schedule).ok());
  schedule.learningRate = 1;
  const double expected[] = {1, 1, 1, 0.5, 0.5, 0.5, 0.25};
  for (int64_t step = 0; step < 7; ++step)
    EXPECT_DOUBLE_EQ(schedule.at(step, 100), expected[step]) << step;
  schedule.minLearningRate = 0.3;
  EXPECT_DOUBLE_EQ(schedule.at(6, 100), 0.3);
  schedule.warmupSteps = 2;
  EXPECT_DOUBLE_EQ(schedule.at(0, 100), 0.5);
  EXPECT_DOUBLE_EQ(schedule.at(4, 100), 1);
  EXPECT_DOUBLE_EQ(schedule.at(5, 100), 0.5);
}

// torch.optim.lr_scheduler.OneCycleLR(max_lr=1, total_steps=10): by its formula
// the peak is step 2 and the end step 9.
TEST(Schedule, OneCycleRisesAndFalls) {
  Schedule schedule;
  ASSERT_TRUE(parseSchedule("one-cycle", schedule).ok());
  schedule.learningRate = 1;
  EXPECT_NEAR(schedule.at(0, 10), 0.04, 1e-15);
  EXPECT_NEAR(schedule.at(1, 10), 0.52, 1e-15);
  EXPECT_NEAR(schedule.at(2, 10), 1, 1e-15);
  const double last = 0.04 / 1e4;
  EXPECT_DOUBLE_EQ(schedule.at(9, 10), last);
  EXPECT_DOUBLE_EQ(schedule.at(99, 10), last);
  const double done = 3.0 / 7;
  EXPECT_NEAR(schedule.at(5, 10),
              last + (1 - last) * 0.5 * (1 + std::cos(M_PI * done)), 1e-15);
  for (int64_t total : {1, 2, 3, 4})
    for (int64_t step = 0; step < total; ++step) {
      EXPECT_GT(schedule.at(step, total), 0) << step << " of " << total;
      EXPECT_LE(schedule.at(step, total), 1) << step << " of " << total;
    }
}

/// The rates after each of the evaluations.
std::vector<double> ratesOf(const char *text, double rate, double least,
                            const std::vector<double> &values) {
  Schedule schedule;
  EXPECT_TRUE(parseSchedule(text, schedule).ok()) << text;
  schedule.learningRate = rate;
  schedule.minLearningRate = least;
  MonitorState state;
  int64_t reductions = 0;
  std::vector<double> rates;
  for (double value : values) {
    reductions += schedule.plateau.count(state, value, 1);
    rates.push_back(schedule.at(100, 100, reductions));
  }
  return rates;
}

// Compares with torch.optim.lr_scheduler.ReduceLROnPlateau of PyTorch 2.15 for
// the same figures.
TEST(Schedule, PlateauIsPyTorchs) {
  using Rates = std::vector<double>;
  EXPECT_EQ(ratesOf("plateau:0.5:1", 0.1, 0,
                    {1, 0.5, 0.5, 0.49996, 0.6, 0.4, 0.5, 0.5, std::nan(""),
                     0.5, 0.39}),
            (Rates{0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.05, 0.025, 0.025, 0.0125,
                   0.0125}));
  EXPECT_EQ(ratesOf("plateau:0.1:0", 0.1, 0.002, {0.5, 0.5, 0.5, 0.5}),
            (Rates{0.1, 0.010000000000000002, 0.002, 0.002}));
  EXPECT_EQ(ratesOf("plateau:0.3:0:accuracy", 1, 0,
                    {0.5, 0.5, 0.6, 0.6, 0.60005, 0.7}),
            (Rates{1, 0.3, 0.3, 0.09, 0.027, 0.027}));
  EXPECT_EQ(ratesOf("plateau:0.5:0", 1, 0, {-1, -1.00005, -1.2, -1.1}),
            (Rates{1, 1, 1, 0.5}));
  EXPECT_EQ(ratesOf("plateau:0.1:0", 1e-7, 0, {1, 1, 1}),
            (Rates{1e-7, 1e-8, 1e-8}));
  Rates defaults(13, 1);
  defaults[11] = defaults[12] = 0.1;
  EXPECT_EQ(ratesOf("plateau", 1, 0, std::vector<double>(13, 1)), defaults);
}

TEST(Schedule, PlateauHasAWarmup) {
  Schedule schedule;
  ASSERT_TRUE(parseSchedule("plateau:0.5", schedule).ok());
  schedule.learningRate = 1;
  schedule.warmupSteps = 4;
  EXPECT_EQ(schedule.at(0, 100), 0.25);
  EXPECT_EQ(schedule.at(1, 100, 1), 0.25);
  EXPECT_EQ(schedule.at(4, 100, 1), 0.5);
}

TEST(Schedule, KnowsItsKindsByName) {
  Schedule schedule;
  for (const char *name :
       {"constant", "linear", "cosine", "step:30:0.1", "one-cycle",
        "plateau:0.2:3:min:loss", "plateau:0.1:0:max:top5"}) {
    EXPECT_TRUE(parseSchedule(name, schedule).ok()) << name;
    EXPECT_EQ(schedule.name(), name);
  }
  for (const char *name :
       {"cosin", "step", "step:", "step:0", "step:3:", "step:3:0", "step:3:nan",
        "step:3:x", "step:-1", "step:1.5", "plateaux", "plateau:", "plateau:1",
        "plateau:0", "plateau:nan", "plateau:0.1:", "plateau:0.1:-1",
        "plateau:0.1:1.5"})
    expectFailure(parseSchedule(name, schedule), StatusCode::Usage,
                  "'" + std::string(name) + "'");
  expectFailure(parseSchedule("plateau:0.1:3:", schedule), StatusCode::Usage,
                "unknown metric ''");
  ASSERT_TRUE(parseSchedule("plateau", schedule).ok());
  EXPECT_EQ(schedule.name(), "plateau:0.1:10:min:loss");
}

} // namespace
} // namespace mpc::runtime::train
