// Tests sessions over hand-made plans: state, inputs, steps of every kind, and
// errors.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/Session.h"
#include "test/runtime/ArtifactBuilder.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <pthread.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

/// Under AddressSanitizer too, a failed allocation returns null instead of
/// ending the process.
extern "C" const char *__asan_default_options() {
  return "allocator_may_return_null=1";
}

namespace {

/// A trainee of two parameters: `step` updates them by a finite gradient,
/// `eval` adds an input to them, `derive` copies them.
ArtifactBuilder trainee() {
  ArtifactBuilder builder;
  builder.state("w", floats({2}, {1, 2}));
  builder.filledState("rate", DType::F32, {1}, 0.5, "frozen");
  builder.filledState("copy", DType::F32, {2}, 0, "derived");

  FunctionBuilder step = builder.function("step");
  size_t gradient = step.input("gradient", DType::F32, {2});
  size_t finite = step.arena(DType::I1, {});
  size_t w = step.state("w");
  step.launch("all_finite", {gradient, finite}, 2, 2);
  step.step({{"op", "if"},
             {"predicate", finite},
             {"then",
              {{{"op", "launch"},
                {"name", "update"},
                {"kernel", "sgd"},
                {"args", {w, gradient, step.state("rate")}},
                {"extent", 2},
                {"grain", 1}}}}});
  step.output("finite", finite);
  step.output("w", w);

  FunctionBuilder eval = builder.function("eval");
  size_t x = eval.input("x", DType::F32, {2});
  size_t sum = eval.arena(DType::F32, {2});
  eval.launch("add", {x, eval.state("w"), sum}, 2, 1);
  eval.output("sum", sum);

  FunctionBuilder derive = builder.function("derive");
  derive.step({{"op", "copy"},
               {"src", derive.state("w")},
               {"dst", derive.state("copy")}});
  return builder;
}

std::vector<float> values(const StatusOr<Tensor> &tensor) {
  EXPECT_TRUE(tensor.ok()) << tensor.status().message();
  if (!tensor.ok())
    return {};
  return {tensor->as<float>(), tensor->as<float>() + tensor->size()};
}

using Floats = std::vector<float>;

TEST(Session, InitialisesStateAndDerivesFromIt) {
  auto session = makeSession(trainee());
  EXPECT_EQ(values(session->state("w")), (Floats{1, 2}));
  EXPECT_EQ(values(session->state("rate")), (Floats{0.5}));
  EXPECT_EQ(values(session->state("copy")), (Floats{1, 2}));
  EXPECT_GT(session->memoryBytes(), 20u);
}

TEST(Session, RandomNumbersStartFromTheSeed) {
  ArtifactBuilder builder = trainee();
  builder.filledState("mpc.seed", DType::I64, {}, 0, "counter");
  SessionOptions options;
  options.threads = 1;
  options.seed = 0x123456789abcdef0;
  auto session = Session::create(builder.open(), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(uint64_t(*(*session)->state("mpc.seed")->as<int64_t>()),
            options.seed);
  Tensor other = Tensor::zeros(DType::I64, {});
  ASSERT_TRUE((*session)->setState("mpc.seed", other).ok());
  ASSERT_TRUE((*session)->reset().ok());
  EXPECT_EQ(uint64_t(*(*session)->state("mpc.seed")->as<int64_t>()),
            options.seed);
}

/// Copies indices, then checks all of them and, in a loop, each row.
ArtifactBuilder looksAtIndices() {
  ArtifactBuilder builder;
  FunctionBuilder step = builder.function("step");
  size_t x = step.input("x", DType::I64, {2, 3});
  size_t y = step.arena(DType::I64, {2, 3});
  size_t row = step.part(y, {3}, 0);
  step.step({{"op", "copy"}, {"src", x}, {"dst", y}});
  Json whole = {{"begin", {0, 0}}, {"end", {2, 3}}, {"size", 9}};
  step.step({{"op", "check_indices"},
             {"name", "all"},
             {"buffer", y},
             {"indices", Json::array({whole})}});
  Json last = {{"begin", {2}}, {"end", {3}}, {"size", 5}};
  step.step({{"op", "for"},
             {"count", 2},
             {"moving", {{{"buffer", row}, {"bytes", 24}}}},
             {"steps",
              {{{"op", "check_indices"},
                {"name", "last"},
                {"buffer", row},
                {"indices", Json::array({last})}}}}});
  return builder;
}

TEST(Session, EndsARunWhereAnIndexNamesNoElement) {
  auto session = makeSession(looksAtIndices(), 2);
  auto run = [&](std::vector<int64_t> indices) {
    Tensor x = Tensor::zeros(DType::I64, {2, 3});
    std::memcpy(x.bytes.data(), indices.data(), x.bytes.size());
    EXPECT_TRUE(session->setInput("step", "x", x).ok());
    Status status = session->run("step");
    EXPECT_TRUE(status.ok() || status.getCode() == StatusCode::InvalidInput);
    return status.message();
  };
  EXPECT_EQ(run({8, -9, 4, 0, 5, -5}), "");
  EXPECT_NE(run({8, -9, 4, 9, -10, 0})
                .find("'all': element 3: index 9 is not in [-9, 9)"),
            std::string::npos);
  EXPECT_NE(run({8, -9, 4, 0, 8, 5})
                .find("'last': element 2: index 5 is not in [-5, 5)"),
            std::string::npos);
  // The next run starts anew.
  EXPECT_EQ(run({0, 0, 0, 0, 0, 0}), "");
}

TEST(Session, CopiesRowsOfABuffer) {
  ArtifactBuilder builder;
  FunctionBuilder step = builder.function("step");
  size_t x = step.input("x", DType::F32, {3, 4});
  size_t y = step.arena(DType::F32, {3, 2});
  step.step({{"op", "copy"},
             {"src", x},
             {"dst", y},
             {"rows", 3},
             {"offset", 4},
             {"stride", 16}});
  step.output("y", y);
  auto session = makeSession(builder, 2);
  std::vector<float> elements(12);
  std::iota(elements.begin(), elements.end(), 0.0F);
  ASSERT_TRUE(session->setInput("step", "x", floats({3, 4}, elements)).ok());
  ASSERT_TRUE(session->run("step").ok());
  EXPECT_EQ(values(session->output("step", "y")), (Floats{1, 2, 5, 6, 9, 10}));
}

TEST(Session, CopiesBuffersToRowsOfAnother) {
  ArtifactBuilder builder;
  FunctionBuilder step = builder.function("step");
  size_t x = step.input("x", DType::F32, {2, 1});
  size_t y = step.input("y", DType::F32, {2, 2});
  size_t z = step.arena(DType::F32, {2, 3});
  auto join = [&](size_t source, int64_t width, int64_t offset) {
    step.step({{"op", "copy"},
               {"src", source},
               {"dst", z},
               {"rows", 2},
               {"offset", 0},
               {"stride", 4 * width},
               {"row_bytes", 4 * width},
               {"to_offset", 4 * offset},
               {"to_stride", 12}});
  };
  join(y, 2, 1);
  join(x, 1, 0);
  step.output("z", z);
  auto session = makeSession(builder, 2);
  ASSERT_TRUE(session->setInput("step", "x", floats({2, 1}, {1, 4})).ok());
  ASSERT_TRUE(
      session->setInput("step", "y", floats({2, 2}, {2, 3, 5, 6})).ok());
  ASSERT_TRUE(session->run("step").ok());
  EXPECT_EQ(values(session->output("step", "z")), (Floats{1, 2, 3, 4, 5, 6}));
}

// The pieces begin and end within rows.
TEST(Session, CopiesLongRowsInPieces) {
  constexpr int64_t kRows = 3, kColumns = 500000, kTaken = 300000;
  ArtifactBuilder builder;
  FunctionBuilder step = builder.function("step");
  size_t x = step.input("x", DType::F32, {kRows, kColumns});
  size_t y = step.arena(DType::F32, {kRows, kTaken});
  step.step({{"op", "copy"},
             {"src", x},
             {"dst", y},
             {"rows", kRows},
             {"offset", 4 * (kColumns - kTaken)},
             {"stride", 4 * kColumns}});
  step.output("y", y);
  auto session = makeSession(builder, 2);
  std::vector<float> elements(kRows * kColumns), expected;
  std::iota(elements.begin(), elements.end(), 0.0F);
  for (int64_t row = 0; row < kRows; ++row)
    expected.insert(expected.end(),
                    elements.begin() + (row + 1) * kColumns - kTaken,
                    elements.begin() + (row + 1) * kColumns);
  ASSERT_TRUE(
      session->setInput("step", "x", floats({kRows, kColumns}, elements)).ok());
  ASSERT_TRUE(session->run("step").ok());
  EXPECT_EQ(values(session->output("step", "y")), expected);
}

/// all[i] = the sum of the rows of x up to i, from the last row of `all` to the
/// first. `sum` continues in the next run.
ArtifactBuilder runningSums(int64_t rows) {
  ArtifactBuilder builder;
  builder.state("sum", floats({2}, {0, 0}));
  FunctionBuilder step = builder.function("step");
  size_t x = step.input("x", DType::F32, {rows, 2});
  size_t all = step.arena(DType::F32, {rows, 2});
  size_t row = step.part(x, {2}, 0), to = step.part(all, {2}, 8 * (rows - 1));
  size_t sum = step.state("sum");
  step.step(
      {{"op", "for"},
       {"count", rows},
       {"moving",
        {{{"buffer", row}, {"bytes", 8}}, {{"buffer", to}, {"bytes", -8}}}},
       {"steps",
        {{{"op", "launch"},
          {"name", "add"},
          {"kernel", "add"},
          {"args", {sum, row, sum}},
          {"extent", 2},
          {"grain", 1}},
         {{"op", "copy"}, {"name", "keep"}, {"src", sum}, {"dst", to}}}}});
  step.output("all", all);
  return builder;
}

TEST(Session, RunsLoopsOverParts) {
  auto session = makeSession(runningSums(3), 2);
  for (float before : {0.0F, 9.0F}) { // each run starts at the first row again
    ASSERT_TRUE(
        session->setInput("step", "x", floats({3, 2}, {1, 2, 3, 4, 5, 6}))
            .ok());
    ASSERT_TRUE(session->run("step").ok());
    float second = before == 0 ? 0 : 12;
    EXPECT_EQ(values(session->output("step", "all")),
              (Floats{9 + before, 12 + second, 4 + before, 6 + second,
                      1 + before, 2 + second}));
  }
}

// Elements of x if their row's condition holds, and else of y. The condition
// moves with the surrounding loop.
TEST(Session, RunsOneOfTwoBranches) {
  ArtifactBuilder builder;
  FunctionBuilder step = builder.function("step");
  size_t x = step.input("x", DType::F32, {2}),
         y = step.input("y", DType::F32, {2});
  size_t conditions = step.input("conditions", DType::I1, {3});
  size_t condition = step.part(conditions, {}, 0);
  size_t rows = step.arena(DType::F32, {3, 2}), row = step.part(rows, {2}, 0);
  auto copy = [&](size_t from) {
    return Json{
        {{"op", "copy"}, {"name", "copy"}, {"src", from}, {"dst", row}}};
  };
  step.step({{"op", "for"},
             {"count", 3},
             {"moving",
              {{{"buffer", condition}, {"bytes", 1}},
               {{"buffer", row}, {"bytes", 8}}}},
             {"steps",
              {{{"op", "if"},
                {"name", "choice"},
                {"predicate", condition},
                {"then", copy(x)},
                {"else", copy(y)}}}}});
  step.output("rows", rows);
  auto session = makeSession(builder);
  Tensor holds = Tensor::zeros(DType::I1, {3});
  holds.bytes[1] = std::byte(1);
  ASSERT_TRUE(session->setInput("step", "conditions", holds).ok());
  ASSERT_TRUE(session->setInput("step", "x", floats({2}, {1, 2})).ok());
  ASSERT_TRUE(session->setInput("step", "y", floats({2}, {3, 4})).ok());
  ASSERT_TRUE(session->run("step").ok());
  EXPECT_EQ(values(session->output("step", "rows")),
            (Floats{3, 4, 1, 2, 3, 4}));
}

// x is [2, 3, 1]. The inner loop's part moves with the outer loop's.
TEST(Session, RunsLoopsInLoops) {
  ArtifactBuilder builder;
  builder.state("sum", floats({1}, {0}));
  FunctionBuilder step = builder.function("step");
  size_t x = step.input("x", DType::F32, {2, 3, 1});
  size_t element = step.part(x, {1}, 8), sum = step.state("sum");
  size_t sums = step.arena(DType::F32, {2, 1});
  size_t to = step.part(sums, {1}, 0);
  Json inner = {{"op", "for"},
                {"name", "inner"},
                {"count", 3},
                {"moving", {{{"buffer", element}, {"bytes", -4}}}},
                {"steps",
                 {{{"op", "launch"},
                   {"name", "add"},
                   {"kernel", "add"},
                   {"args", {sum, element, sum}},
                   {"extent", 1},
                   {"grain", 1}}}}};
  step.step(
      {{"op", "for"},
       {"count", 2},
       {"moving",
        {{{"buffer", element}, {"bytes", 12}}, {{"buffer", to}, {"bytes", 4}}}},
       {"steps",
        {inner,
         {{"op", "copy"}, {"name", "keep"}, {"src", sum}, {"dst", to}}}}});
  step.output("sums", sums);
  auto session = makeSession(builder);
  ASSERT_TRUE(
      session->setInput("step", "x", floats({2, 3, 1}, {1, 2, 3, 4, 5, 6}))
          .ok());
  ASSERT_TRUE(session->run("step").ok());
  EXPECT_EQ(values(session->output("step", "sums")), (Floats{6, 21}));
}

TEST(Session, RunsStepsInPlaceOnState) {
  auto session = makeSession(trainee());
  ASSERT_TRUE(session->setInput("step", "gradient", floats({2}, {2, 4})).ok());
  ASSERT_TRUE(session->run("step").ok());
  EXPECT_EQ(values(session->state("w")), (Floats{0, 0}));
  ASSERT_TRUE(session->run("step").ok()) << "inputs keep their values";
  EXPECT_EQ(values(session->output("step", "w")), (Floats{-1, -2}));
}

TEST(Session, ShowsStateInPlace) {
  auto session = makeSession(trainee());
  StatusOr<const std::byte *> w = session->stateInPlace("w");
  ASSERT_TRUE(w.ok() && *w);
  ASSERT_TRUE(session->setInput("step", "gradient", floats({2}, {2, 4})).ok());
  ASSERT_TRUE(session->run("step").ok());
  EXPECT_EQ(std::memcmp(*w, session->state("w")->bytes.data(), 8), 0);
  EXPECT_FALSE(session->stateInPlace("v").ok());
}

TEST(Session, SkipsWhatAPredicateGuards) {
  auto session = makeSession(trainee());
  ASSERT_TRUE(
      session->setInput("step", "gradient", floats({2}, {NAN, 4})).ok());
  ASSERT_TRUE(session->run("step").ok());
  EXPECT_EQ(values(session->state("w")), (Floats{1, 2}));
  EXPECT_EQ(*session->output("step", "finite")->as<uint8_t>(), 0);
}

TEST(Session, ReplacedStateIsDerivedAnew) {
  auto session = makeSession(trainee());
  ASSERT_TRUE(session->setState("w", floats({2}, {5, 6})).ok());
  ASSERT_TRUE(session->derive().ok());
  EXPECT_EQ(values(session->state("copy")), (Floats{5, 6}));
}

TEST(Session, OutputsAreGoneOnceAnotherFunctionRan) {
  auto session = makeSession(trainee());
  ASSERT_TRUE(session->setInput("eval", "x", floats({2}, {1, 1})).ok());
  ASSERT_TRUE(session->setInput("step", "gradient", floats({2}, {0, 0})).ok());
  EXPECT_EQ(session->output("eval", "sum").status().getCode(),
            StatusCode::Usage);
  ASSERT_TRUE(session->run("eval").ok());
  EXPECT_EQ(values(session->output("eval", "sum")), (Floats{2, 3}));
  ASSERT_TRUE(session->run("step").ok());
  EXPECT_EQ(session->output("eval", "sum").status().getCode(),
            StatusCode::Usage);
}

TEST(Session, ReportsWrongNamesTypesAndSizes) {
  auto session = makeSession(trainee());
  Status status = session->run("fit");
  EXPECT_EQ(status.getCode(), StatusCode::Usage);
  EXPECT_EQ(status.message(),
            "no function 'fit'; there is 'derive', 'eval', 'step'");
  EXPECT_EQ(session->run("step").message(),
            "input 'gradient' of 'step' was not set");
  status = session->setInput("step", "gradient", floats({3}, {1, 2, 3}));
  EXPECT_EQ(status.getCode(), StatusCode::InvalidInput);
  EXPECT_EQ(status.message(), "input 'gradient' is f32 2, got f32 3");
  EXPECT_EQ(session->setInput("step", "gradient", "abc", 3).message(),
            "input 'gradient' has 8 bytes, got 3");
  EXPECT_EQ(session->setInput("step", "y", floats({1}, {1})).message(),
            "no input of 'step' called 'y'; there is 'gradient'");
  EXPECT_EQ(session->state("v").status().message(),
            "no state variable 'v'; there is 'w', 'rate', 'copy'");
  EXPECT_EQ(session->setState("w", Tensor::zeros(DType::F64, {2})).getCode(),
            StatusCode::InvalidInput);
}

TEST(Session, EverySliceRunsOnceOnAnyNumberOfThreads) {
  constexpr int64_t extent = 1000;
  ArtifactBuilder builder;
  FunctionBuilder f = builder.function("step");
  builder.filledState("visits", DType::I32, {extent}, 0, "counter");
  builder.filledState("starts", DType::I32, {extent}, 0, "counter");
  f.launch("count_visits", {f.state("visits"), f.state("starts")}, extent, 7);
  for (int threads : {1, 2, 3, 8}) {
    auto session = makeSession(builder, threads);
    ASSERT_TRUE(session->run("step").ok());
    Tensor visits = *session->state("visits");
    Tensor starts = *session->state("starts");
    for (int64_t i = 0; i < extent; ++i) {
      ASSERT_EQ(visits.as<int32_t>()[i], 1) << i;
      ASSERT_EQ(starts.as<int32_t>()[i], i % 7 == 0) << i;
    }
  }
}

TEST(Session, EverySliceHasScratchMemoryOfItsOwn) {
  constexpr int64_t extent = 200, words = 3000;
  ArtifactBuilder builder;
  FunctionBuilder f = builder.function("step");
  builder.filledState("owned", DType::I32, {extent}, 0, "counter");
  Tensor count = Tensor::zeros(DType::I64, {});
  *count.as<int64_t>() = words;
  f.launch("own_scratch", {f.state("owned"), f.constant(count)}, extent, 1,
           words * 8);
  for (int threads : {1, 2, 3, 8}) {
    auto session = makeSession(builder, threads);
    ASSERT_TRUE(session->run("step").ok());
    Tensor owned = *session->state("owned");
    for (int64_t i = 0; i < extent; ++i)
      ASSERT_EQ(owned.as<int32_t>()[i], 1) << i;
  }
}

TEST(Session, MissingKernelIsRefusedAtCreation) {
  ArtifactBuilder builder;
  FunctionBuilder f = builder.function("step");
  f.launch("no_such_kernel", {}, 1, 1);
  auto session = Session::create(builder.open(), SessionOptions());
  EXPECT_EQ(session.status().getCode(), StatusCode::InvalidInput);
  EXPECT_NE(session.status().message().find("no_such_kernel"),
            std::string::npos);
}

TEST(Session, RefusesFeaturesTheMachineLacks) {
  ArtifactBuilder builder = trainee();
  builder.plan["target"]["cpu"] = "future";
  builder.plan["target"]["features"].push_back("avx4096");
  auto session = Session::create(builder.open(), SessionOptions());
  EXPECT_EQ(session.status().getCode(), StatusCode::Device);
  EXPECT_EQ(session.status().message(),
            "the artifact was compiled for future and needs CPU features this "
            "machine lacks: avx4096; compile the model here (--target native), "
            "or for a lower target (--target x86-64-v3)");
}

TEST(Session, RefusesDevicesThatAreNotThere) {
  SessionOptions options;
  options.device = "cuda";
  auto session = Session::create(trainee().open(), options);
  EXPECT_EQ(session.status().getCode(), StatusCode::Device);
  EXPECT_NE(session.status().message().find("use --device cpu"),
            std::string::npos);
  options.device = "abacus";
  EXPECT_EQ(Session::create(trainee().open(), options).status().getCode(),
            StatusCode::Usage);
}

TEST(Session, RefusesMoreThreadsThanThereCanBe) {
  ArtifactBuilder builder;
  builder.state("w", floats({2}, {1, 2}));
  // The first thread starts, and then the address space is exhausted.
  pthread_attr_t before, large;
  pthread_getattr_default_np(&before);
  pthread_attr_init(&large);
  pthread_attr_setstacksize(&large, size_t(1) << 46);
  pthread_setattr_default_np(&large);
  SessionOptions options;
  options.threads = 4;
  auto session = Session::create(builder.open(), options);
  pthread_setattr_default_np(&before);
  pthread_attr_destroy(&large);
  pthread_attr_destroy(&before);
  EXPECT_EQ(session.status().getCode(), StatusCode::IO);
  EXPECT_NE(session.status().message().find("--threads"), std::string::npos);
}

TEST(Session, RefusesMoreMemoryThanThereIs) {
  ArtifactBuilder builder = trainee();
  builder.plan["functions"]["eval"]["arena_bytes"] = int64_t(1) << 60;
  auto session = Session::create(builder.open(), SessionOptions());
  EXPECT_EQ(session.status().getCode(), StatusCode::IO);
  EXPECT_NE(session.status().message().find("cannot allocate"),
            std::string::npos);
}

} // namespace
