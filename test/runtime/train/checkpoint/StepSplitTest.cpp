// Tests when a run may divide the samples of a step otherwise than its
// checkpoint.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/train/checkpoint/StepSplit.h"

#include "runtime/train/RunIdentity.h"

#include "test/runtime/train/Support.h"

namespace mpc::runtime::train {
namespace {

/// The facts of a run on `ranks` with `batch` samples each.
RunIdentity factsOf(int64_t ranks, int64_t batch, int64_t accumulate,
                    int64_t features = 8) {
  TraineeInfo info;
  info.accumulate = accumulate;
  info.recipe = R"({"accumulate":)" + std::to_string(accumulate) +
                R"(,"decisions":"of )" + std::to_string(batch) +
                R"(","tf32":false})";
  info.functions["step"].inputs = {
      {"x", Role::Data, DType::F32, {batch, features}},
      {"edges", Role::Data, DType::I64, {5}, {}, /*batchAxis=*/-1}};
  RunData data;
  data.batchSize = batch;
  data.ranks = ranks;
  return identityOf(info, data, 1);
}

bool fits(const RunIdentity &then, const RunIdentity &now) {
  for (const auto &[key, value] : factsToMatch(then, now))
    if (then.at(key) != value)
      return false;
  return true;
}

TEST(StepSplit, OtherRanksMayDivideAStepOtherwise) {
  const RunIdentity two = factsOf(2, 24, 1);
  EXPECT_EQ(two.at(kSampleFact), "edges i64 5, x f32 ?x8");
  EXPECT_TRUE(splitsOtherwise(two, factsOf(3, 16, 1)));
  EXPECT_TRUE(fits(two, factsOf(3, 16, 1)));
  EXPECT_TRUE(fits(two, factsOf(1, 24, 2)));
  EXPECT_TRUE(fits(two, factsOf(1, 48, 1)));
  EXPECT_TRUE(fits(two, two));
}

TEST(StepSplit, OtherRanksMayHaveEqualBatches) {
  EXPECT_FALSE(splitsOtherwise(factsOf(2, 24, 1), factsOf(3, 24, 1)));
  EXPECT_TRUE(fits(factsOf(2, 24, 1), factsOf(3, 24, 1)));
}

TEST(StepSplit, EqualRanksMustDivideEqually) {
  EXPECT_FALSE(fits(factsOf(1, 24, 1), factsOf(1, 12, 2)));
  EXPECT_FALSE(fits(factsOf(2, 24, 1), factsOf(2, 12, 2)));
}

TEST(StepSplit, StepsMustHaveEqualSamples) {
  EXPECT_FALSE(fits(factsOf(2, 24, 1), factsOf(3, 24, 2)));
  EXPECT_FALSE(fits(factsOf(2, 24, 1), factsOf(3, 15, 1)));
  EXPECT_FALSE(fits(factsOf(2, 24, 1), factsOf(3, 16, 1, /*features=*/9)));
  RunIdentity other = factsOf(3, 16, 1);
  other["recipe"] = R"({"accumulate":1,"decisions":"of 16","tf32":true})";
  EXPECT_FALSE(fits(factsOf(2, 24, 1), other));
}

TEST(StepSplit, CheckpointsOfOlderVersionsFitEqualBatches) {
  RunIdentity old = factsOf(1, 24, 1);
  for (const char *key : {kRanksFact, kStepFact, kSampleFact})
    old.erase(key);
  EXPECT_TRUE(fits(old, factsOf(1, 24, 1)));
  EXPECT_TRUE(fits(old, factsOf(2, 24, 1)));
  EXPECT_FALSE(fits(old, factsOf(2, 12, 1)));
}

TEST(StepSplit, SumsOfGradientsAreZeroOrGone) {
  TraineeInfo info;
  info.state = {{"w", Role::Parameter, DType::F32, {2}},
                {"v.grad", Role::Accumulator, DType::F32, {3}}};
  CheckpointContents contents;
  for (const char *name : {"w", "w.grad"})
    contents.arrays.push_back(
        makeArray<float>(name, ElementType::F32, {2}, {1, 2}));
  dropSums(contents, info);
  ASSERT_EQ(contents.arrays.size(), 2u);
  EXPECT_EQ(contents.arrays[0].name, "w");
  const Array &sum = contents.arrays[1];
  EXPECT_EQ(sum.name, "v.grad");
  EXPECT_EQ(sum.shape, Shape{3});
  for (int64_t i = 0; i < sum.bytes(); ++i)
    EXPECT_EQ(sum.data[i], std::byte(0));
}

} // namespace
} // namespace mpc::runtime::train
