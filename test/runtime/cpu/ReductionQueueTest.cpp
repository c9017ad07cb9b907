// Tests all_reduce steps on a CPU, which run beside the steps that follow.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Communicator.h"
#include "runtime/Session.h"
#include "test/runtime/ArtifactBuilder.h"

#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <thread>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// Reduces over `size` ranks whose data are all equal to this rank's, after
/// calling `before` with the data.
class EqualRanks : public Communicator {
public:
  explicit EqualRanks(int size) : Communicator(0, size) {}

  std::string_view backend() const override { return "test"; }
  Status allReduce(void *data, size_t count, DType type, Reduce kind) override {
    EXPECT_EQ(type, DType::F32);
    counts.push_back(count);
    if (before)
      if (Status status = before(static_cast<float *>(data)); !status.ok())
        return status;
    for (size_t i = 0; kind == Reduce::Sum && i < count; ++i)
      static_cast<float *>(data)[i] *= static_cast<float>(size());
    return Status();
  }
  Status reduceScatter(void *, size_t, DType, Reduce) override {
    return Status();
  }
  Status allGather(void *, size_t) override { return Status(); }
  Status broadcast(void *, size_t, int) override { return Status(); }
  Status barrier() override { return Status(); }
  void abort(const Status &) override {}
  size_t bytesSent() const override { return 0; }

  Status allReduceRows(void *data, size_t rows, size_t rowElements, DType type,
                       Reduce kind) override {
    lastRows = rows;
    return allReduce(data, rows * rowElements, type, kind);
  }

  std::function<Status(float *)> before;
  size_t lastRows = 0;        ///< of a table
  std::vector<size_t> counts; ///< of the calls
};

Status sleepFor(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  return Status();
}

Json copy(size_t from, size_t to) {
  return {{"op", "copy"}, {"name", "copy"}, {"src", from}, {"dst", to}};
}

Json sum(size_t buffer, const std::string &name) {
  return {{"op", "all_reduce"},
          {"name", name},
          {"buffer", buffer},
          {"kind", "sum"}};
}

std::unique_ptr<Session> open(const ArtifactBuilder &builder,
                              Communicator *ranks) {
  SessionOptions options;
  options.threads = 1;
  options.communicator = ranks;
  auto session = Session::create(builder.open(), options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(*session) : nullptr;
}

Status run(Session &session, const std::vector<float> &x) {
  Status status = session.setInput("step", "x",
                                   floats({static_cast<int64_t>(x.size())}, x));
  return status.ok() ? session.run("step") : status;
}

std::vector<float> read(Session &session, const std::string &output) {
  StatusOr<Tensor> value = session.output("step", output);
  EXPECT_TRUE(value.ok());
  const float *data = value->as<float>();
  return std::vector<float>(data, data + numElements(value->shape));
}

/// Sums x in a bucket over the ranks, and copies x to `other` meanwhile. Then
/// uses the bucket: `y` is its value, and x overwrites it.
struct TwoBuffers {
  TwoBuffers() {
    FunctionBuilder step = builder.function("step");
    size_t x = step.input("x", DType::F32, {4});
    bucket = step.arena(DType::F32, {4});
    other = step.arena(DType::F32, {4});
    size_t y = step.arena(DType::F32, {4});
    step.step(copy(x, bucket));
    step.step(sum(bucket, "first"));
    step.step(copy(x, other));
    step.step(copy(bucket, y));
    step.step(copy(x, bucket));
    step.step(sum(other, "second"));
    step.output("other", other);
    step.output("y", y);
  }
  int64_t offsetOf(size_t buffer) const {
    return builder.plan["functions"]["step"]["buffers"][buffer]["offset"];
  }

  ArtifactBuilder builder;
  size_t bucket = 0, other = 0;
};

TEST(ReductionQueue, OneRankChangesNothing) {
  TwoBuffers plan;
  EqualRanks single(1);
  for (Communicator *ranks : {static_cast<Communicator *>(nullptr),
                              static_cast<Communicator *>(&single)}) {
    auto session = open(plan.builder, ranks);
    ASSERT_TRUE(run(*session, {1, 2, 3, 4}).ok());
    EXPECT_EQ(read(*session, "y"), (std::vector<float>{1, 2, 3, 4}));
  }
  EXPECT_TRUE(single.counts.empty());
}

// The steps that use the bucket wait, although the reduction takes long.
TEST(ReductionQueue, StepsWaitForTheMemoryTheyUse) {
  TwoBuffers plan;
  EqualRanks ranks(3);
  ranks.before = [](float *) { return sleepFor(20); };
  auto session = open(plan.builder, &ranks);
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(run(*session, {1, 2, 3, 4}).ok());
    EXPECT_EQ(read(*session, "y"), (std::vector<float>{3, 6, 9, 12}));
    EXPECT_EQ(read(*session, "other"), (std::vector<float>{3, 6, 9, 12}));
  }
  EXPECT_EQ(ranks.counts, std::vector<size_t>(6, 4));
}

TEST(ReductionQueue, TablesReduceTheirRows) {
  TwoBuffers plan;
  plan.builder.plan["functions"]["step"]["steps"][5]["row_elements"] = 2;
  EqualRanks ranks(3);
  auto session = open(plan.builder, &ranks);
  ranks.before = [&](float *) {
    EXPECT_EQ(ranks.lastRows, ranks.counts.size() == 1 ? 0u : 2u);
    return Status();
  };
  ASSERT_TRUE(run(*session, {1, 2, 3, 4}).ok());
  EXPECT_EQ(ranks.lastRows, 2u);
  EXPECT_EQ(read(*session, "other"), (std::vector<float>{3, 6, 9, 12}));
}

// The first reduction ends only once a later step has run.
TEST(ReductionQueue, OtherStepsRunMeanwhile) {
  TwoBuffers plan;
  EqualRanks ranks(2);
  const int64_t distance =
      (plan.offsetOf(plan.other) - plan.offsetOf(plan.bucket)) / 4;
  bool ranMeanwhile = false;
  ranks.before = [&](float *data) {
    if (ranks.counts.size() > 1)
      return Status();
    volatile const float *other = data + distance;
    for (int i = 0; i < 5000 && !ranMeanwhile; ++i) {
      ranMeanwhile = other[3] == 4;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return Status();
  };
  auto session = open(plan.builder, &ranks);
  ASSERT_TRUE(run(*session, {1, 2, 3, 4}).ok());
  EXPECT_TRUE(ranMeanwhile);
}

// A loop moves over the bucket: its first iteration reads elements in front.
TEST(ReductionQueue, LoopsWaitForAllPartsTheyReach) {
  ArtifactBuilder builder;
  FunctionBuilder step = builder.function("step");
  size_t x = step.input("x", DType::F32, {8});
  size_t whole = step.arena(DType::F32, {8});
  size_t y = step.arena(DType::F32, {8});
  size_t bucket = step.part(whole, {4}, 16);
  size_t from = step.part(whole, {4}, 0), to = step.part(y, {4}, 0);
  step.step(copy(x, whole));
  step.step(sum(bucket, "sum"));
  step.step(
      {{"op", "for"},
       {"count", 2},
       {"moving",
        {{{"buffer", from}, {"bytes", 16}}, {{"buffer", to}, {"bytes", 16}}}},
       {"steps", {copy(from, to)}}});
  step.output("y", y);
  EqualRanks ranks(2);
  ranks.before = [](float *) { return sleepFor(20); };
  auto session = open(builder, &ranks);
  ASSERT_TRUE(run(*session, {1, 2, 3, 4, 5, 6, 7, 8}).ok());
  EXPECT_EQ(read(*session, "y"),
            (std::vector<float>{1, 2, 3, 4, 10, 12, 14, 16}));
}

TEST(ReductionQueue, AFailureEndsTheRun) {
  TwoBuffers plan;
  EqualRanks ranks(2);
  ranks.before = [](float *) {
    return Status(StatusCode::Rank, "rank 1 is lost");
  };
  auto session = open(plan.builder, &ranks);
  Status status = run(*session, {1, 2, 3, 4});
  EXPECT_EQ(status.getCode(), StatusCode::Rank);
  EXPECT_NE(status.message().find("'first': rank 1 is lost"), std::string::npos)
      << status.message();
  EXPECT_EQ(ranks.counts.size(), 1u);
  // The queue is empty again.
  ranks.before = nullptr;
  EXPECT_TRUE(run(*session, {1, 2, 3, 4}).ok());
  EXPECT_EQ(read(*session, "y"), (std::vector<float>{2, 4, 6, 8}));
}

// The run ends once the reduction in progress has ended. The second reduction
// never begins.
TEST(ReductionQueue, AFailedStepEndsTheRun) {
  ArtifactBuilder builder;
  FunctionBuilder step = builder.function("step");
  size_t x = step.input("x", DType::F32, {4});
  size_t ids = step.constant(integers({1}, {7}));
  size_t first = step.arena(DType::F32, {4});
  size_t second = step.arena(DType::F32, {4});
  step.step(copy(x, first));
  step.step(sum(first, "first"));
  step.step(copy(x, second));
  step.step(sum(second, "second"));
  step.step({{"op", "check_indices"},
             {"buffer", ids},
             {"indices", {{{"begin", {0}}, {"end", {1}}, {"size", 5}}}}});
  step.output("first", first);
  EqualRanks ranks(2);
  ranks.before = [](float *) { return sleepFor(50); };
  auto session = open(builder, &ranks);
  Status status = run(*session, {1, 2, 3, 4});
  EXPECT_NE(status.message().find("check_indices"), std::string::npos)
      << status.message();
  EXPECT_LE(ranks.counts.size(), 1u);
}

} // namespace
