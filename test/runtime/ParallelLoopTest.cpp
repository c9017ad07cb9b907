// Tests loops with private memory, whose iterations workers run in parallel.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Session.h"
#include "test/runtime/ArtifactBuilder.h"

#include <gtest/gtest.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// A loop whose iterations write to `words` words of private memory, and report
/// writes by others in the meantime.
ArtifactBuilder ownsMemory(int64_t iterations, int64_t words) {
  ArtifactBuilder builder;
  FunctionBuilder step = builder.function("step");
  size_t numbers = step.input("numbers", DType::I64, {iterations});
  size_t count = step.constant(integers({}, {words}));
  size_t owned = step.arena(DType::I32, {iterations});
  size_t memory = step.arena(DType::I64, {words});
  size_t number = step.part(numbers, {}, 0), mine = step.part(owned, {1}, 0);
  const Json &buffers = builder.plan["functions"]["step"]["buffers"];
  step.step(
      {{"op", "for"},
       {"count", iterations},
       {"private",
        {{"offset", buffers[memory]["offset"]}, {"bytes", 8 * words}}},
       {"moving",
        {{{"buffer", number}, {"bytes", 8}}, {{"buffer", mine}, {"bytes", 4}}}},
       {"steps",
        {{{"op", "launch"},
          {"name", "own"},
          {"kernel", "own_memory"},
          {"args", {mine, memory, number, count}},
          {"extent", 1},
          {"grain", 1}}}}});
  step.output("owned", owned);
  return builder;
}

// With 1 thread, and with 5 threads for 12 iterations, workers share the steps
// of each iteration.
TEST(ParallelLoop, RunsIterationsSideBySide) {
  const int64_t iterations = 12;
  std::vector<int64_t> numbers(iterations);
  for (int64_t i = 0; i < iterations; ++i)
    numbers[static_cast<size_t>(i)] = 1000 * i;
  for (int threads : {1, 2, 3, 4, 5}) {
    auto session = makeSession(ownsMemory(iterations, 4096), threads);
    for (int run = 0; run < 3; ++run) {
      ASSERT_TRUE(
          session->setInput("step", "numbers", integers({iterations}, numbers))
              .ok());
      ASSERT_TRUE(session->run("step").ok());
      StatusOr<Tensor> owned = session->output("step", "owned");
      ASSERT_TRUE(owned.ok());
      for (int64_t i = 0; i < iterations; ++i)
        EXPECT_EQ(owned->as<int32_t>()[i], 1) << i << ", threads " << threads;
    }
  }
}

// Every worker except the first has private memory outside the arena. With
// three workers sharing each of four iterations there is none.
TEST(ParallelLoop, HoldsPrivateMemoryForEachWorker) {
  const int64_t words = 1 << 17;
  size_t one = makeSession(ownsMemory(4, words), 1)->memoryBytes();
  size_t three = makeSession(ownsMemory(4, words), 3)->memoryBytes();
  EXPECT_LT(three, one + 8 * words);
  size_t four = makeSession(ownsMemory(4, words), 4)->memoryBytes();
  EXPECT_GE(four, one + 3 * 8 * words);
  EXPECT_LT(four, one + 4 * 8 * words);
}

/// A loop that copies rows of indices to private memory and checks them there.
ArtifactBuilder looksAtRows(int64_t rows) {
  ArtifactBuilder builder;
  FunctionBuilder step = builder.function("step");
  size_t x = step.input("x", DType::I64, {rows});
  size_t y = step.arena(DType::I64, {rows});
  size_t copy = step.arena(DType::I64, {1});
  size_t from = step.part(x, {1}, 0), to = step.part(y, {1}, 0);
  Json box = {{"begin", {0}}, {"end", {1}}, {"size", 9}};
  const Json &buffers = builder.plan["functions"]["step"]["buffers"];
  step.step(
      {{"op", "for"},
       {"count", rows},
       {"private", {{"offset", buffers[copy]["offset"]}, {"bytes", 64}}},
       {"moving",
        {{{"buffer", from}, {"bytes", 8}}, {{"buffer", to}, {"bytes", 8}}}},
       {"steps",
        {{{"op", "copy"}, {"name", "take"}, {"src", from}, {"dst", copy}},
         {{"op", "check_indices"},
          {"name", "row"},
          {"buffer", copy},
          {"indices", Json::array({box})}},
         {{"op", "copy"}, {"name", "give"}, {"src", copy}, {"dst", to}}}}});
  step.output("y", y);
  return builder;
}

// After a failure in any iteration, the next run begins at the first iteration.
TEST(ParallelLoop, EndsARunWhereAnIterationFails) {
  const int64_t rows = 64;
  auto session = makeSession(looksAtRows(rows), 4);
  for (int64_t bad : {37, -1, 0, -1}) {
    std::vector<int64_t> x(rows, 3);
    if (bad >= 0)
      x[static_cast<size_t>(bad)] = 9;
    const Tensor given = integers({rows}, x);
    ASSERT_TRUE(session->setInput("step", "x", given).ok());
    Status status = session->run("step");
    EXPECT_EQ(status.ok(), bad < 0);
    if (bad >= 0) {
      EXPECT_NE(status.message().find("'row'"), std::string::npos)
          << status.message();
      continue;
    }
    StatusOr<Tensor> y = session->output("step", "y");
    ASSERT_TRUE(y.ok());
    EXPECT_EQ(y->bytes, given.bytes);
  }
}

} // namespace
