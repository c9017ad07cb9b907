// Tests parsing and checking plans: each rule, and many random wrong values.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/PlanCases.h"

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

TEST(Plan, AcceptsEveryKindOfStep) {
  Status status = check(fullPlan());
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST(Plan, AcceptsWhatGPUsHave) {
  Status status = check(gpuPlan());
  EXPECT_TRUE(status.ok()) << status.message();
  ArtifactBuilder builder = gpuPlan();
  StatusOr<Plan> plan =
      parsePlan(builder.plan.dump(), static_cast<int64_t>(builder.data.size()));
  ASSERT_TRUE(plan.ok());
  EXPECT_TRUE(plan->target.isGPU());
  const auto &product =
      std::get<MatMulStep>(plan->findFunction("fused")->steps[0].op);
  EXPECT_EQ(product.fused->kind, FusedKind::ReluAuxBias);
  const std::vector<Step> &steps = plan->findFunction("step")->steps;
  EXPECT_EQ(std::get<MatMulStep>(steps[0].op).compute, Compute::TF32);
  EXPECT_EQ(std::get<ConvStep>(steps[1].op).filterLayout, FilterLayout::OHWI);
  EXPECT_EQ(std::get<LaunchStep>(steps[2].op).threads, 128);
  EXPECT_EQ(std::get<LaunchStep>(steps[2].op).sharedBytes, 1024);
}

TEST(Plan, BoundsScratchMemory) {
  for (int64_t bytes : {int64_t(-1), int64_t(16 << 20) + 1, INT64_MAX})
    EXPECT_REFUSED(kStep + "/steps/2/scratch_bytes", bytes,
                   "that much scratch memory");
  EXPECT_REFUSED(kStep + "/steps/2/scratch_bytes", "64", "scratch_bytes");
  ArtifactBuilder builder = fullPlan();
  StatusOr<Plan> plan =
      parsePlan(builder.plan.dump(), static_cast<int64_t>(builder.data.size()));
  ASSERT_TRUE(plan.ok());
  const std::vector<Step> &steps = plan->findFunction("step")->steps;
  EXPECT_EQ(std::get<LaunchStep>(steps[2].op).scratchBytes, 4096);
}

TEST(Plan, KeepsWhatGPUsHaveFromCPUs) {
  EXPECT_REFUSED(kStep + "/steps/2/threads", 32, "only for GPUs");
  EXPECT_REFUSED(kStep + "/steps/2/shared_bytes", 32, "only for GPUs");
  EXPECT_REFUSED(kStep + "/steps/0/compute", "tf32", "only for GPUs");
  EXPECT_REFUSED(kStep + "/steps/0/fused",
                 Json({{"kind", "bias"}, {"bias", 0}}), "on a CPU, only sums");
  EXPECT_REFUSED(kStep + "/steps/1/filter_layout", "OHWI", "only for GPUs");
}

TEST(Plan, ChecksThatRowsToCopyAreWithinTheSource) {
  const std::string copy = kStep + "/steps/4";
  EXPECT_REFUSED(copy + "/rows", 0, "do not fill the destination");
  EXPECT_REFUSED(copy + "/rows", 3, "do not fill the destination");
  EXPECT_REFUSED(copy + "/offset", 12, "end behind the source");
  EXPECT_REFUSED(copy + "/offset", -4, "begin before the source");
  EXPECT_REFUSED(copy + "/offset", INT64_MAX, "end behind the source");
  EXPECT_REFUSED(copy + "/stride", 20, "end behind the source");
  EXPECT_REFUSED(copy + "/stride", INT64_MAX, "end behind the source");
  EXPECT_REFUSED(copy + "/stride", 4, "overlap");
  EXPECT_REFUSED(copy + "/src", 2, "differ in type");
  Json step = fullPlan().plan[Json::json_pointer(copy)];
  EXPECT_GPU_REFUSED(kStep + "/steps/-", step, "a GPU copies whole buffers");
}

TEST(Plan, ChecksThatRowsToCopyAreWithinTheDestination) {
  ArtifactBuilder builder = fullPlan();
  Json &step = builder.plan[Json::json_pointer(kStep + "/steps/4")];
  const Json plain = step;
  constexpr int64_t bytes = 16; // of the destination
  auto message = [&](int64_t row, int64_t offset, int64_t stride) {
    step = plain;
    step["stride"] = 8;
    step["row_bytes"] = row;
    step["to_offset"] = offset;
    step["to_stride"] = stride;
    return check(builder).message();
  };
  EXPECT_EQ(message(4, bytes - 8, 4), "");
  auto expectRefused = [&](const std::string &text, const char *why) {
    EXPECT_NE(text.find(why), std::string::npos) << text;
  };
  expectRefused(message(4, bytes - 4, 4), "end behind the destination");
  expectRefused(message(4, 0, bytes), "end behind the destination");
  expectRefused(message(4, -4, 4), "begin before the destination");
  expectRefused(message(4, 0, 0), "overlap");
  expectRefused(message(-4, 0, 4), "overlap");
  expectRefused(message(INT64_MAX, 0, INT64_MAX), "overlap");
  expectRefused(message(4, 0, INT64_MAX), "end behind the destination");
}

TEST(Plan, RefusesSizesWhoseSumsOverflow) {
  EXPECT_REFUSED(kStep + "/steps/2/extent", INT64_MAX,
                 "extent plus grain overflows");
  ArtifactBuilder builder = fullPlan();
  for (const char *name : {"a", "b"})
    builder.filledState(name, DType::F32, {int64_t(1) << 60}, 0);
  EXPECT_NE(check(builder).message().find("all state variables overflow"),
            std::string::npos)
      << check(builder).message();
}

TEST(Plan, KeepsWhatCPUsHaveFromGPUs) {
  EXPECT_GPU_REFUSED(kStep + "/steps/0/tile_m", 2, "chooses its tiles");
  EXPECT_GPU_REFUSED(kStep + "/steps/1/epilogue",
                     Json({{"kernel", "k"}, {"args", Json::array()}}),
                     "either a result buffer or an epilogue");
  EXPECT_GPU_REFUSED(kStep + "/steps/2/scratch_bytes", 64, "only for CPUs");
  EXPECT_GPU_REFUSED(kStep + "/steps/5/row_elements", 2,
                     "a GPU reduces no rows");
  EXPECT_GPU_REFUSED(kStep + "/steps/2/threads", 0,
                     "between 1 and 1024 threads");
  EXPECT_GPU_REFUSED(kStep + "/steps/2/threads", 1025,
                     "between 1 and 1024 threads");
  EXPECT_GPU_REFUSED(kStep + "/steps/2/shared_bytes", 1 << 20,
                     "that much shared memory");
  EXPECT_GPU_REFUSED(kStep + "/steps/2/extent", INT64_MAX, "too many blocks");
  ArtifactBuilder builder = gpuPlan();
  Json &steps = builder.plan["functions"]["step"]["steps"];
  steps.push_back(fullPlan().plan["functions"]["step"]["steps"][3]);
  EXPECT_NE(check(builder).message().find("no conditional steps"),
            std::string::npos);
}

TEST(Plan, ReportsWhereAFieldIsWrong) {
  EXPECT_REFUSED(kStep + "/steps/0/m", "two",
                 "plan.functions.step.steps[0]: 'm' is not a 64-bit integer");
  EXPECT_REFUSED("/state/0/type", "f8", "unknown element type 'f8'");
  EXPECT_REFUSED("/state/0/surprise", 1, "unknown field 'surprise'");
  EXPECT_REFUSED(kStep + "/steps/2/op", "jump", "unknown step 'jump'");
}

TEST(Plan, ChecksStateAgainstTheDataSection) {
  EXPECT_REFUSED("/state/0/init/offset", 1 << 20, "outside the data section");
  EXPECT_REFUSED("/state/0/init/offset", -64, "not aligned");
  EXPECT_REFUSED("/state/0/init/bytes", 44, "another size");
  EXPECT_REFUSED("/state/0/role", "pet", "unknown role 'pet'");
  EXPECT_REFUSED("/state/0/role", "data", "not one of state");
  EXPECT_REFUSED("/state/1/name", "w", "two state variables have this name");
}

TEST(Plan, ChecksConstantsAgainstTheDataSection) {
  EXPECT_REFUSED("/constant_bytes", 1 << 20, "constants do not fit");
  EXPECT_REFUSED("/constant_bytes", -1, "constants do not fit");
  EXPECT_REFUSED("/constant_bytes", 0, "reaches outside its memory");
}

TEST(Plan, ChecksBuffersAgainstTheirMemory) {
  EXPECT_REFUSED(kStep + "/arena_bytes", 16, "reaches outside its memory");
  EXPECT_REFUSED(kStep + "/buffers/3/offset", 2, "not aligned to its type");
  EXPECT_REFUSED(kStep + "/buffers/3/offset", INT64_MAX - 3,
                 "outside its memory");
  EXPECT_REFUSED(kStep + "/buffers/7/index", 9, "no such state variable");
  EXPECT_REFUSED(kStep + "/buffers/1/index", 0, "is not that input's memory");
  EXPECT_REFUSED(kStep + "/buffers/3/shape",
                 Json::array({int64_t(1) << 40, int64_t(1) << 40}),
                 "too large");
  EXPECT_REFUSED(kStep + "/outputs/0/buffer", 99, "does not exist");
}

TEST(Plan, ChecksTheOtherSteps) {
  EXPECT_REFUSED(kStep + "/steps/2/grain", 0, "grain is not positive");
  EXPECT_REFUSED(kStep + "/steps/2/args/0", 99, "does not exist");
  EXPECT_REFUSED(kStep + "/steps/3/predicate", 3, "not a single i1");
  EXPECT_REFUSED(kStep + "/steps/3/then/0/dst", 5, "differ in type or size");
  EXPECT_REFUSED(kStep + "/steps/3/then/0/dst", 3, "overlaps an operand");
}

TEST(Plan, ChecksWhatIsSaidOfIndices) {
  const std::string step = kStep + "/steps/6";
  const char *expected = "a box of indices does not fit the buffer";
  EXPECT_REFUSED(step + "/buffer", 99, "does not exist");
  EXPECT_REFUSED(step + "/buffer", 0, expected);
  EXPECT_REFUSED(step + "/indices/0/end/1", 4, expected);
  EXPECT_REFUSED(step + "/indices/0/begin/0", -1, expected);
  EXPECT_REFUSED(step + "/indices/0/begin", Json::array({0}), expected);
  EXPECT_REFUSED(step + "/indices/0/size", -1, expected);
}

TEST(Plan, ChecksReductionsOverRanks) {
  const std::string step = kStep + "/steps/7";
  EXPECT_REFUSED(step + "/buffer", 99, "does not exist");
  EXPECT_REFUSED(step + "/buffer", 0, "reduces an input or a constant");
  EXPECT_REFUSED(step + "/kind", "median", "median");
  ArtifactBuilder builder = fullPlan();
  const Json reduction = builder.plan[Json::json_pointer(step)];
  EXPECT_REFUSED(kStep + "/steps/3/then/0", reduction,
                 "inside a loop or a condition");
  EXPECT_REFUSED(kStep + "/steps/5/steps/0", reduction,
                 "inside a loop or a condition");
  const Json checked =
      builder.plan[Json::json_pointer(kStep + "/steps/6/buffer")];
  EXPECT_REFUSED(step + "/buffer", checked, "takes the mean of integers");
  const Json flag =
      builder.plan[Json::json_pointer(kStep + "/steps/3/predicate")];
  EXPECT_REFUSED(step + "/buffer", flag, "reduces booleans");
  EXPECT_REFUSED(step + "/row_elements", 3, "rows do not fill the buffer");
  EXPECT_REFUSED(step + "/row_elements", -2, "rows are too long or");
}

TEST(Plan, ChecksLoops) {
  const std::string loop = kStep + "/steps/5";
  EXPECT_REFUSED(loop + "/count", 0, "between 1 and 2^31 - 2 iterations");
  EXPECT_REFUSED(loop + "/count", int64_t(1) << 31, "iterations");
  EXPECT_REFUSED(loop + "/count", 3, "moves a buffer out of its memory");
  EXPECT_REFUSED(loop + "/moving/0/bytes", 20, "out of its memory");
  EXPECT_REFUSED(loop + "/moving/0/bytes", -16, "out of its memory");
  EXPECT_REFUSED(loop + "/moving/0/bytes", INT64_MIN, "out of its memory");
  EXPECT_REFUSED(loop + "/moving/0/bytes", 6, "not by whole elements");
  EXPECT_REFUSED(loop + "/moving/0/buffer", 99, "does not exist");
  const Json moving = fullPlan().plan[Json::json_pointer(loop + "/moving/0")];
  EXPECT_REFUSED(loop + "/moving/1", moving, "twice at once");
  EXPECT_REFUSED(loop + "/steps/0/src", 99, "does not exist");
  EXPECT_REFUSED("/functions/step/steps/3/else/0/dst", 99, "does not exist");
}

TEST(Plan, ChecksPrivateMemory) {
  const std::string loop = kStep + "/steps/5";
  const ArtifactBuilder whole = fullPlan();
  const Json &step = whole.plan["functions"]["step"];
  const Json &copy = step["steps"][5]["steps"][0];
  const int64_t arena = step["arena_bytes"];
  const int64_t at = step["buffers"][copy["dst"].get<size_t>()]["offset"];
  auto memory = [](int64_t offset, int64_t bytes) {
    return Json{{"offset", offset}, {"bytes", bytes}};
  };
  // A private range of the arena, aligned to cache lines, with whole buffers.
  ArtifactBuilder good = fullPlan();
  good.plan[Json::json_pointer(loop + "/private")] = memory(at, 64);
  EXPECT_TRUE(check(good).ok()) << check(good).message();
  const char *expected = "does not lie within the arena";
  EXPECT_REFUSED(loop + "/private", memory(at + 1, 16), expected);
  EXPECT_REFUSED(loop + "/private", memory(-64, 64), expected);
  EXPECT_REFUSED(loop + "/private", memory(at, -1), expected);
  EXPECT_REFUSED(loop + "/private", memory(0, arena + 1), expected);
  EXPECT_REFUSED(loop + "/private", memory(64, INT64_MAX), expected);
  EXPECT_REFUSED(loop + "/private", memory(at, 8), "half in private memory");
  EXPECT_REFUSED(loop + "/private", Json::object(), "offset");
  // Private memory of an iteration does not move, and its loop must not contain
  // a loop with private memory.
  Json moves = step["steps"][5];
  moves["private"] = memory(at, 64);
  moves["moving"].push_back({{"buffer", copy["dst"]}, {"bytes", 0}});
  EXPECT_REFUSED(loop, moves, "moves a buffer of its private memory");
  Json nested = step["steps"][5];
  nested["private"] = memory(at, 64);
  nested["moving"] = Json::array();
  Json outer = nested;
  outer["steps"] = Json::array({nested});
  EXPECT_REFUSED(loop, outer, "is inside another such loop");
  // An inner loop moves a buffer out of the private range.
  ArtifactBuilder far = fullPlan();
  Json inner = nested;
  inner.erase("private");
  inner["moving"] = Json::array({{{"buffer", copy["dst"]}, {"bytes", -64}}});
  outer["steps"] = Json::array({inner});
  EXPECT_REFUSED_IN(far, loop, outer, "half in private memory");
}

TEST(Plan, RefusesDeepNestingAndBadText) {
  ArtifactBuilder builder = fullPlan();
  Json &steps = builder.plan["functions"]["step"]["steps"];
  Json inner = steps[3];
  for (int i = 0; i < 100; ++i)
    inner = {{"op", "if"}, {"name", ""}, {"predicate", 5}, {"then", {inner}}};
  steps[3] = inner;
  EXPECT_NE(check(builder).message().find("nested too deeply"),
            std::string::npos);
  for (const std::string &text :
       {std::string(), std::string("{"), std::string(200000, '['),
        std::string("{\"format\": 1e999}"), std::string("\xff\xfe")})
    EXPECT_EQ(parsePlan(text, 0).status().getCode(), StatusCode::InvalidInput);

  // Well-formed JSON in the part that may hold anything.
  builder = fullPlan();
  builder.plan["recipe"]["x"] = "@";
  std::string text = builder.plan.dump();
  text.replace(text.find("\"@\""), 3,
               std::string(200000, '[') + std::string(200000, ']'));
  EXPECT_EQ(parsePlan(text, 0).status().getCode(), StatusCode::InvalidInput);
}

/// Replaces each value of the plan by others. Parsing must end with a plan or
/// an error.
void expectHandled(const ArtifactBuilder &original) {
  const Json flat = original.plan.flatten();
  const std::vector<Json> values = {nullptr,
                                    true,
                                    0,
                                    1,
                                    -1,
                                    7,
                                    INT64_MAX,
                                    INT64_MIN,
                                    UINT64_MAX,
                                    int64_t(1) << 31,
                                    1e300,
                                    "x",
                                    "",
                                    Json::array(),
                                    Json::object(),
                                    Json::array({1, -5, "y"})};
  for (const auto &[pointer, old] : flat.items())
    for (const Json &value : values) {
      ArtifactBuilder builder = original;
      builder.plan[Json::json_pointer(pointer)] = value;
      Status status = check(builder);
      ASSERT_TRUE(status.ok() || status.getCode() == StatusCode::InvalidInput)
          << pointer;
    }
}

TEST(Plan, AnyValueAnywhereIsHandled) {
  expectHandled(fullPlan());
  expectHandled(gpuPlan());
}

} // namespace
