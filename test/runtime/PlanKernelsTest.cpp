// Tests descriptions of kernels, and steps that contradict them.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/PlanCases.h"

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

const std::string kLaunch = kStep + "/steps/2";
const std::string kEpilogue = kStep + "/steps/1/epilogue";

/// sum = x + w, then w = w + sum in place.
ArtifactBuilder additions() {
  ArtifactBuilder builder;
  builder.state("w", floats({4}, {1, 2, 3, 4}));
  FunctionBuilder f = builder.function("step");
  size_t x = f.input("x", DType::F32, {4});
  size_t w = f.state("w"), c = f.constant(floats({4}, {0, 0, 0, 0}));
  size_t sum = f.arena(DType::F32, {4}), other = f.arena(DType::F32, {4});
  f.launch("add", {x, w, sum}, 4, 2);
  f.launch("add", {w, sum, w}, 4, 2);
  f.step({{"op", "copy"}, {"src", c}, {"dst", other}});
  f.output("sum", sum);
  builder.describeKernels({{"add", 1}});
  return builder;
}

TEST(PlanKernels, MustBeDescribed) {
  EXPECT_TRUE(check(additions()).ok()) << check(additions()).message();
  EXPECT_REFUSED(kLaunch + "/kernel", "unknown",
                 "the artifact does not describe the kernel 'unknown'");
  EXPECT_REFUSED(kLaunch + "/kernel", "", "the kernel has no name");
  EXPECT_REFUSED(kEpilogue + "/kernel", "unknown", "does not describe");
  EXPECT_REFUSED("/kernels", Json::object(), "does not describe");
  EXPECT_REFUSED("/kernels", Json::array(), "expected an object");
  ArtifactBuilder builder = fullPlan();
  builder.plan.erase("kernels");
  EXPECT_NE(check(builder).message().find("'kernels' is missing"),
            std::string::npos);
}

TEST(PlanKernels, AreAskedForWhatTheyAreMadeFor) {
  const char *division = "its kernel is made for extent";
  for (int64_t extent : {0, 5, 7, 1 << 20})
    EXPECT_REFUSED(kLaunch + "/extent", extent, division);
  for (int64_t grain : {1, 5, 7})
    EXPECT_REFUSED(kLaunch + "/grain", grain, division);
  const char *memory = "more or less memory beside its arguments";
  for (int64_t bytes : {0, 64, 8192})
    EXPECT_REFUSED(kLaunch + "/scratch_bytes", bytes, memory);
  const std::string onGPU = kStep + "/steps/2";
  EXPECT_GPU_REFUSED(onGPU + "/threads", 256, "threads, found 256");
  EXPECT_GPU_REFUSED(onGPU + "/shared_bytes", 512, memory);
  EXPECT_GPU_REFUSED(onGPU + "/extent", 7, division);
  // The other side of the comparison is wrong.
  EXPECT_REFUSED("/kernels/all_finite/extent", 7, division);
  EXPECT_REFUSED("/kernels/all_finite/threads", 32, "made for 32 threads");
}

TEST(PlanKernels, GetTheArgumentsThatTheyAreMadeFor) {
  EXPECT_REFUSED(kLaunch + "/args", Json::array({3}), "arguments, found 1");
  EXPECT_REFUSED(kLaunch + "/args/0", 99, "does not exist");
  EXPECT_REFUSED(kEpilogue + "/args/0", 99, "does not exist");
  EXPECT_REFUSED("/kernels/all_finite/reads/0/type", "bf16",
                 "argument 0 is f32 2x3, and its kernel is made for bf16 2x3");
  EXPECT_REFUSED("/kernels/all_finite/reads/0/shape", Json::array({2, 4}),
                 "argument 0 is f32 2x3, and its kernel is made for f32 2x4");
  EXPECT_REFUSED("/kernels/bias_relu/reads/2/type", "i32", "argument 2 is i64");
}

TEST(PlanKernels, EveryOtherBufferIsRefusedOrAlike) {
  const ArtifactBuilder whole = fullPlan();
  const Json &step = whole.plan["functions"]["step"];
  const Json &buffers = step["buffers"];
  auto isAlike = [&](size_t a, size_t b) {
    return buffers[a]["type"] == buffers[b]["type"] &&
           buffers[a]["shape"] == buffers[b]["shape"];
  };
  size_t refused = 0;
  for (const std::string &call : {kLaunch, kEpilogue}) {
    const Json args = whole.plan[Json::json_pointer(call + "/args")];
    for (size_t i = 0; i < args.size(); ++i)
      for (size_t buffer = 0; buffer < buffers.size(); ++buffer) {
        ArtifactBuilder builder = whole;
        builder.plan[Json::json_pointer(call + "/args/" + std::to_string(i))] =
            buffer;
        const bool isRefused = !check(builder).ok();
        EXPECT_TRUE(isRefused || isAlike(buffer, args[i]))
            << call << " " << i << " " << buffer;
        refused += isRefused;
      }
  }
  EXPECT_GT(refused, 40u);
}

TEST(PlanKernels, WriteToTheArenaAndStateAlone) {
  const std::string written = kStep + "/steps/0/args/2";
  for (size_t buffer : {0, 2}) // x and the constant
    EXPECT_REFUSED_IN(additions(), written, buffer,
                      "writes to a constant or an input");
}

TEST(PlanKernels, WriteWhatNothingElseOverlaps) {
  // In place is allowed, a partial overlap is not.
  ArtifactBuilder builder = additions();
  builder.plan[Json::json_pointer(kStep + "/steps/0/args/2")] = 1;
  EXPECT_TRUE(check(builder).ok()) << check(builder).message();
  const std::string shifted = kStep + "/buffers/5";
  Json buffer = builder.plan[Json::json_pointer(kStep + "/buffers/3")];
  buffer["offset"] = buffer["offset"].get<int64_t>() + 8;
  builder = additions();
  builder.plan[Json::json_pointer(shifted)] = buffer;
  EXPECT_TRUE(check(builder).ok()) << check(builder).message();
  EXPECT_REFUSED_IN(builder, kStep + "/steps/1/args", Json::array({1, 3, 5}),
                    "an argument that it writes overlaps another argument");
  // Two results must not share memory.
  builder = additions();
  builder.plan["kernels"]["add"]["writes"].push_back(
      builder.plan["kernels"]["add"]["reads"][1]);
  builder.plan["kernels"]["add"]["reads"].erase(1);
  EXPECT_REFUSED_IN(builder, kStep + "/steps/0/args", Json::array({0, 3, 3}),
                    "an argument that it writes overlaps another argument");
}

TEST(PlanKernels, EpiloguesGetTheirResultsRowsAndColumns) {
  const char *expected = "its epilogue is made for a result of";
  EXPECT_REFUSED("/kernels/bias_relu/rows", 5, expected);
  EXPECT_REFUSED("/kernels/bias_relu/columns", 1, expected);
  EXPECT_REFUSED("/kernels/bias_relu/rows", -4, "negative number of rows");
  // One kernel replaces another.
  EXPECT_REFUSED(kLaunch,
                 Json({{"op", "launch"},
                       {"name", "tail"},
                       {"kernel", "bias_relu"},
                       {"args", {0, 6, 2}},
                       {"extent", 0},
                       {"grain", 1}}),
                 "its kernel is an epilogue");
  EXPECT_REFUSED(kEpilogue, Json({{"kernel", "all_finite"}, {"args", {3, 5}}}),
                 "its epilogue is a kernel to launch");
  EXPECT_GPU_REFUSED("/kernels/tail",
                     Json({{"reads", Json::array()},
                           {"writes", Json::array()},
                           {"rows", 1},
                           {"columns", 1}}),
                     "a GPU's library calls no epilogue");
}

/// The product's epilogue overwrites the product's operand.
TEST(PlanKernels, EpiloguesWriteOverNoOperand) {
  ArtifactBuilder builder;
  FunctionBuilder f = builder.function("step");
  size_t a = f.arena(DType::F32, {2, 2}), b = f.arena(DType::F32, {2, 2});
  size_t c = f.arena(DType::F32, {2, 2});
  f.step({{"op", "matmul"},   {"a", a},
          {"b", b},           {"c", nullptr},
          {"batch", 1},       {"m", 2},
          {"n", 2},           {"k", 2},
          {"trans_a", false}, {"trans_b", false},
          {"lda", 2},         {"ldb", 2},
          {"ldc", 2},         {"stride_a", 0},
          {"stride_b", 0},    {"stride_c", 0},
          {"alpha", 1},       {"tile_m", 2},
          {"tile_n", 2},      {"epilogue", {{"kernel", "k"}, {"args", {c}}}}});
  builder.describeKernels({{"k", 1}});
  EXPECT_TRUE(check(builder).ok()) << check(builder).message();
  for (size_t operand : {a, b})
    EXPECT_REFUSED_IN(builder, kStep + "/steps/0/epilogue/args/0", operand,
                      "its result overlaps an operand");
  EXPECT_REFUSED_IN(builder, "/kernels/k/rows", 4,
                    "its epilogue is made for a result of 4 x 2");
}

} // namespace
