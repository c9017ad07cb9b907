// Parsing and checking plans: each rule, and a storm of wrong values.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/ArtifactBuilder.h"

#include <gtest/gtest.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// A plan with one of every kind of thing.
ArtifactBuilder fullPlan() {
  ArtifactBuilder builder;
  builder.state("w", floats({4, 3}, std::vector<float>(12, 1)));
  builder.filledState("kernel", DType::F32, {2, 3, 1, 1}, 0.5);
  FunctionBuilder f = builder.function("step");
  size_t x = f.input("x", DType::F32, {2, 4});
  size_t image = f.input("image", DType::F32, {1, 2, 2, 3});
  size_t columns = f.constant(Tensor::zeros(DType::I64, {}));
  size_t y = f.arena(DType::F32, {2, 3});
  size_t z = f.arena(DType::F32, {2, 3});
  size_t p = f.arena(DType::I1, {});
  size_t c = f.arena(DType::F32, {1, 2, 2, 2});
  f.step({{"op", "matmul"},
          {"a", x},
          {"b", f.state("w")},
          {"c", y},
          {"batch", 1},
          {"m", 2},
          {"n", 3},
          {"k", 4},
          {"trans_a", false},
          {"trans_b", false},
          {"lda", 4},
          {"ldb", 3},
          {"ldc", 3},
          {"stride_a", 0},
          {"stride_b", 0},
          {"stride_c", 0},
          {"alpha", 1},
          {"tile_m", 2},
          {"tile_n", 3},
          {"epilogue", nullptr}});
  f.step({{"op", "conv"},
          {"kind", "forward"},
          {"x", image},
          {"w", f.state("kernel")},
          {"y", nullptr},
          {"batch", 1},
          {"groups", 1},
          {"in_channels", 3},
          {"out_channels", 2},
          {"in_spatial", {2, 2}},
          {"out_spatial", {2, 2}},
          {"kernel", {1, 1}},
          {"strides", {1, 1}},
          {"dilations", {1, 1}},
          {"pads_begin", {0, 0}},
          {"pads_end", {0, 0}},
          {"epilogue", {{"kernel", "bias_relu"}, {"args", {x, c, columns}}}}});
  f.launch("all_finite", {y, p}, 6, 6, /*scratchBytes=*/4096);
  f.step(
      {{"op", "if"},
       {"predicate", p},
       {"then", {{{"op", "copy"}, {"name", "copy"}, {"src", y}, {"dst", z}}}},
       {"else", {{{"op", "copy"}, {"name", "copy"}, {"src", z}, {"dst", y}}}}});
  f.step({{"op", "copy"},
          {"src", x},
          {"dst", f.arena(DType::F32, {2, 2})},
          {"rows", 2},
          {"offset", 8},
          {"stride", 16}});
  size_t row = f.part(x, {4}, 0);
  f.step({{"op", "for"},
          {"count", 2},
          {"moving", {{{"buffer", row}, {"bytes", 16}}}},
          {"steps",
           {{{"op", "copy"},
             {"name", "row"},
             {"src", row},
             {"dst", f.arena(DType::F32, {4})}}}}});
  f.step({{"op", "check_indices"},
          {"buffer", f.arena(DType::I32, {2, 3})},
          {"indices", {{{"begin", {0, 1}}, {"end", {2, 3}}, {"size", 9}}}}});
  f.output("z", z);
  return builder;
}

/// The same steps as a GPU has them.
ArtifactBuilder gpuPlan() {
  ArtifactBuilder builder = fullPlan();
  builder.plan["target"] = {{"triple", "nvptx64-nvidia-cuda"},
                            {"cpu", "sm_80"},
                            {"features", {"ptx80"}}};
  FunctionBuilder f = builder.function("fused");
  size_t a = f.arena(DType::BF16, {4, 6});
  size_t b = f.arena(DType::BF16, {6, 8});
  size_t c = f.arena(DType::F32, {4, 8});
  size_t bias = f.arena(DType::F32, {8});
  size_t aux = f.arena(DType::U8, {4, 16});
  f.step(
      {{"op", "matmul"},
       {"a", a},
       {"b", b},
       {"c", c},
       {"batch", 1},
       {"m", 4},
       {"n", 8},
       {"k", 6},
       {"trans_a", false},
       {"trans_b", false},
       {"lda", 6},
       {"ldb", 8},
       {"ldc", 8},
       {"stride_a", 0},
       {"stride_b", 0},
       {"stride_c", 0},
       {"alpha", 1},
       {"tile_m", 0},
       {"tile_n", 0},
       {"epilogue", nullptr},
       {"fused", {{"kind", "relu_aux_bias"}, {"bias", bias}, {"aux", aux}}}});
  Json &steps = builder.plan["functions"]["step"]["steps"];
  steps.erase(4); // rows to copy
  steps.erase(3); // if
  steps[0]["tile_m"] = steps[0]["tile_n"] = 0;
  steps[0]["compute"] = "tf32";
  steps[1]["epilogue"] = nullptr;
  steps[1]["y"] = 6;
  steps[1]["filter_layout"] = "OHWI";
  steps[2].erase("scratch_bytes");
  steps[2]["threads"] = 128;
  steps[2]["shared_bytes"] = 1024;
  return builder;
}

Status check(const ArtifactBuilder &builder) {
  return parsePlan(builder.plan.dump(),
                   static_cast<int64_t>(builder.data.size()))
      .status();
}

/// The message for `builder` with the value at a JSON pointer replaced.
std::string refusal(ArtifactBuilder builder, const std::string &pointer,
                    const Json &value) {
  builder.plan[Json::json_pointer(pointer)] = value;
  Status status = check(builder);
  EXPECT_EQ(status.getCode(), StatusCode::InvalidInput);
  return status.message();
}

#define EXPECT_REFUSED_IN(plan, pointer, value, expected)                      \
  EXPECT_NE(refusal(plan, pointer, value).find(expected), std::string::npos)   \
      << refusal(plan, pointer, value)
#define EXPECT_REFUSED(pointer, value, expected)                               \
  EXPECT_REFUSED_IN(fullPlan(), pointer, value, expected)
#define EXPECT_GPU_REFUSED(pointer, value, expected)                           \
  EXPECT_REFUSED_IN(gpuPlan(), pointer, value, expected)

const std::string kStep = "/functions/step";
const std::string kFused = "/functions/fused/steps/0";

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
  EXPECT_REFUSED(kStep + "/steps/2/threads", 32, "for GPUs alone");
  EXPECT_REFUSED(kStep + "/steps/2/shared_bytes", 32, "for GPUs alone");
  EXPECT_REFUSED(kStep + "/steps/0/compute", "tf32", "for GPUs alone");
  EXPECT_REFUSED(kStep + "/steps/0/fused",
                 Json({{"kind", "bias"}, {"bias", 0}}), "for GPUs alone");
  EXPECT_REFUSED(kStep + "/steps/1/filter_layout", "OHWI", "for GPUs alone");
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
                 "extent and grain add up to no number");
  ArtifactBuilder builder = fullPlan();
  for (const char *name : {"a", "b"})
    builder.filledState(name, DType::F32, {int64_t(1) << 60}, 0);
  EXPECT_NE(check(builder).message().find("all state add up to no number"),
            std::string::npos)
      << check(builder).message();
}

TEST(Plan, ConvolvesInOneTypeOnGPUs) {
  ArtifactBuilder builder = gpuPlan();
  Json &step = builder.plan["functions"]["step"];
  Json &x = step["buffers"][step["steps"][1]["x"].get<size_t>()];
  Json &w = step["buffers"][step["steps"][1]["w"].get<size_t>()];
  x["type"] = "f16";
  w["type"] = "f16";
  EXPECT_NE(check(builder).message().find("convolves in one type"),
            std::string::npos)
      << check(builder).message();
}

TEST(Plan, KeepsWhatCPUsHaveFromGPUs) {
  EXPECT_GPU_REFUSED(kStep + "/steps/0/tile_m", 2, "chooses its tiles");
  EXPECT_GPU_REFUSED(kStep + "/steps/1/epilogue",
                     Json({{"kernel", "k"}, {"args", Json::array()}}),
                     "either a result buffer or an epilogue");
  EXPECT_GPU_REFUSED(kStep + "/steps/2/scratch_bytes", 64, "for CPUs alone");
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

TEST(Plan, ChecksWhatIsFused) {
  EXPECT_GPU_REFUSED(kFused + "/fused/kind", "gelu",
                     "unknown kind of fused product 'gelu'");
  EXPECT_GPU_REFUSED(kFused + "/fused/kind", nullptr, "'kind' is not a string");
  EXPECT_GPU_REFUSED(kFused + "/fused/kind", "bias", "'aux' is not of this");
  EXPECT_GPU_REFUSED(kFused + "/fused/kind", "drelu", "'bias' is not of this");
  EXPECT_GPU_REFUSED(kFused + "/fused/bias", nullptr, "'bias' is missing");
  EXPECT_GPU_REFUSED(kFused + "/fused/bias", 2, "another type or size");
  EXPECT_GPU_REFUSED(kFused + "/fused/aux", 99, "does not exist");
  EXPECT_GPU_REFUSED(kFused + "/fused/surprise", 1, "unknown field");
  EXPECT_GPU_REFUSED(kFused + "/compute", "f64", "contractions in f64");
  EXPECT_GPU_REFUSED(kFused + "/compute", "tf32", "tf32 is for f32 operands");
  EXPECT_GPU_REFUSED(kFused + "/compute", "f8", "unknown compute type 'f8'");
  EXPECT_GPU_REFUSED("/functions/fused/buffers/1/type", "f16",
                     "operands of one type");
  EXPECT_GPU_REFUSED("/functions/fused/buffers/2/type", "f16",
                     "neither the operands' type nor f32");
  // 128 bits for each of 4 rows.
  EXPECT_GPU_REFUSED("/functions/fused/buffers/4/shape", Json::array({4, 8}),
                     "'aux' has another type or size");
}

TEST(Plan, ChecksWhatStandsForWhatIsFused) {
  Json launch = {{"op", "launch"}, {"name", "bias"}, {"kernel", "add"},
                 {"args", {2, 3}}, {"extent", 32},   {"grain", 32},
                 {"threads", 32}};
  const std::string pointer = kFused + "/fused/unfused";
  ArtifactBuilder builder = gpuPlan();
  builder.plan[Json::json_pointer(pointer)] = Json::array({launch});
  StatusOr<Plan> plan =
      parsePlan(builder.plan.dump(), static_cast<int64_t>(builder.data.size()));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const auto &product =
      std::get<MatMulStep>(plan->findFunction("fused")->steps[0].op);
  ASSERT_EQ(product.fused->unfused.size(), 1u);
  EXPECT_EQ(product.fused->unfused[0].kernel, "add");

  EXPECT_GPU_REFUSED(pointer, 1, "unfused");
  EXPECT_GPU_REFUSED(pointer, Json::array({{{"op", "copy"}}}),
                     "only launches stand for what is fused");
  Json wrong = launch;
  wrong["args"] = {2, 99};
  EXPECT_GPU_REFUSED(pointer, Json::array({wrong}), "does not exist");
  wrong = launch;
  wrong["threads"] = 0;
  EXPECT_GPU_REFUSED(pointer, Json::array({wrong}),
                     "between 1 and 1024 threads");
}

/// cuBLASLt sums an operand in the order in which it reads it.
TEST(Plan, SumsOperandsInTheLibrarysOrderAlone) {
  ArtifactBuilder builder = gpuPlan();
  Json &step = builder.plan["functions"]["fused"]["steps"][0];
  step["fused"] = {{"kind", "bgrad_b"}, {"bias_grad", 3}};
  EXPECT_TRUE(check(builder).ok()) << check(builder).message();
  step["trans_b"] = true;
  step["ldb"] = 6;
  EXPECT_NE(check(builder).message().find(
                "'bgrad_b' sums a b that is not transposed"),
            std::string::npos)
      << check(builder).message();
  step["fused"]["kind"] = "bgrad_a";
  EXPECT_NE(
      check(builder).message().find("'bgrad_a' sums an a that is transposed"),
      std::string::npos)
      << check(builder).message();
}

TEST(Plan, ChecksThatFusedResultsAreApart) {
  for (const char *other : {"0", "2", "3"}) {
    ArtifactBuilder builder = gpuPlan();
    Json &buffers = builder.plan["functions"]["fused"]["buffers"];
    buffers[4]["offset"] = buffers[std::stoi(other)]["offset"];
    EXPECT_NE(check(builder).message().find("overlaps an operand"),
              std::string::npos)
        << other << check(builder).message();
  }
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
  EXPECT_REFUSED("/state/1/name", "w", "two of that name");
}

TEST(Plan, ChecksConstantsAgainstTheDataSection) {
  EXPECT_REFUSED("/constant_bytes", 1 << 20, "more constants than data");
  EXPECT_REFUSED("/constant_bytes", -1, "more constants than data");
  EXPECT_REFUSED("/constant_bytes", 0, "reaches outside its memory");
}

TEST(Plan, ChecksBuffersAgainstTheirMemory) {
  EXPECT_REFUSED(kStep + "/arena_bytes", 16, "reaches outside its memory");
  EXPECT_REFUSED(kStep + "/buffers/3/offset", 2, "not aligned to its type");
  EXPECT_REFUSED(kStep + "/buffers/3/offset", INT64_MAX - 3,
                 "outside its memory");
  EXPECT_REFUSED(kStep + "/buffers/7/index", 9, "no such state variable");
  EXPECT_REFUSED(kStep + "/buffers/1/index", 0, "not the memory of that input");
  EXPECT_REFUSED(kStep + "/buffers/3/shape",
                 Json::array({int64_t(1) << 40, int64_t(1) << 40}),
                 "too large");
  EXPECT_REFUSED(kStep + "/outputs/0/buffer", 99, "does not exist");
}

TEST(Plan, ChecksMatrixProducts) {
  const std::string step = kStep + "/steps/0";
  EXPECT_REFUSED(step + "/m", 3, "smaller than the step reads it");
  EXPECT_REFUSED(step + "/k", 0, "out of range");
  EXPECT_REFUSED(step + "/lda", 3, "strides of 'a' are impossible");
  EXPECT_REFUSED(step + "/stride_b", -1, "strides of 'b' are impossible");
  EXPECT_REFUSED(step + "/ldc", int64_t(1) << 60, "impossible");
  EXPECT_REFUSED(step + "/tile_m", 0, "out of range");
  EXPECT_REFUSED(step + "/c", nullptr, "either a result buffer or an epilogue");
  EXPECT_REFUSED(step + "/c", 0, "writes to a constant or an input");
  EXPECT_REFUSED(step + "/a", 5, "contractions take f32, bf16 and f16, not i1");
  EXPECT_REFUSED(step + "/alpha", "big", "'alpha' is not a number");
}

TEST(Plan, ChecksTheRowsOfEpilogues) {
  ArtifactBuilder builder = fullPlan();
  Json &step = builder.plan["functions"]["step"]["steps"][0];
  step["c"] = nullptr;
  step["epilogue"] = {{"kernel", "tail"}, {"args", Json::array()}};
  step["m"] = 1;
  step["batch"] = 2;
  step["stride_a"] = 4;
  auto message = [&](int64_t ldc, int64_t strideC) {
    step["ldc"] = ldc;
    step["stride_c"] = strideC;
    return check(builder).message();
  };
  EXPECT_EQ(message(3, 3), "");
  EXPECT_EQ(message(6, 3), ""); // rows in another order
  const std::string impossible = "of what its epilogue takes are impossible";
  for (auto [ldc, strideC] : {std::pair<int64_t, int64_t>{3, 4},
                              {4, 3},
                              {0, 3},
                              {3, -3},
                              {3, 6}}) // behind the last row
    EXPECT_NE(message(ldc, strideC).find(impossible), std::string::npos)
        << ldc << ", " << strideC;
  EXPECT_NE(message(3, 0).find("results of the batch overlap"),
            std::string::npos);
}

TEST(Plan, ChecksThatBatchedResultsAreApart) {
  ArtifactBuilder builder = fullPlan();
  Json &step = builder.plan["functions"]["step"]["steps"][0];
  step["m"] = 1;
  step["batch"] = 2;
  step["stride_a"] = 4;
  step["stride_c"] = 3;
  EXPECT_TRUE(check(builder).ok()) << check(builder).message();
  step["stride_c"] = 2;
  EXPECT_NE(check(builder).message().find("results of the batch overlap"),
            std::string::npos);
}

TEST(Plan, ChecksOuterAxes) {
  // Two by two results of one row of three, of which the plan has room for two.
  ArtifactBuilder builder = fullPlan();
  Json &step = builder.plan["functions"]["step"]["steps"][0];
  const Json plain = step;
  auto message = [&](const Json &outer) {
    step = plain;
    step["m"] = 1;
    step["outer"] = outer;
    return check(builder).message();
  };
  auto axes = [](int64_t extent, int64_t a, int64_t b, int64_t c) {
    return Json{{"extents", {extent}}, {"a", {a}}, {"b", {b}}, {"c", {c}}};
  };
  EXPECT_EQ(message(axes(2, 4, 0, 3)), "");
  EXPECT_NE(message(axes(2, 4, 0, 2)).find("results of the batch overlap"),
            std::string::npos);
  EXPECT_NE(message(axes(2, 4, 0, 0)).find("results of the batch overlap"),
            std::string::npos);
  EXPECT_NE(message(axes(3, 4, 0, 3)).find("'a' is smaller"),
            std::string::npos);
  EXPECT_NE(message(axes(2, 5, 0, 3)).find("'a' is smaller"),
            std::string::npos);
  EXPECT_NE(message(axes(2, -4, 0, 3)).find("strides of 'a' are impossible"),
            std::string::npos);
  EXPECT_NE(message(axes(2, 4, 1, 3)).find("'b' is smaller"),
            std::string::npos);
  EXPECT_NE(message(axes(0, 4, 0, 3)).find("out of range"), std::string::npos);
  EXPECT_NE(message(axes(2, int64_t(1) << 62, 0, 3)).find("'a' is smaller"),
            std::string::npos);
  Json uneven = axes(2, 4, 0, 3);
  uneven["b"] = Json::array();
  EXPECT_NE(message(uneven).find("other numbers of strides"),
            std::string::npos);
  EXPECT_NE(message(Json::array()).find("outer"), std::string::npos);
  step = plain;
  step["offset_a"] = -1;
  EXPECT_NE(check(builder).message().find("'a' are impossible"),
            std::string::npos);
  step["offset_a"] = 1;
  EXPECT_NE(check(builder).message().find("'a' is smaller"), std::string::npos);
}

TEST(Plan, ChecksConvolutions) {
  const std::string step = kStep + "/steps/1";
  EXPECT_REFUSED(step + "/out_spatial/0", 3, "output's extent is not what");
  EXPECT_REFUSED(step + "/strides", Json::array({1}), "differ in length");
  EXPECT_REFUSED(step + "/groups", 2, "multiple of the groups");
  EXPECT_REFUSED(step + "/in_channels", 6, "another size");
  EXPECT_REFUSED(step + "/w", nullptr, "operand 'w' is missing");
  EXPECT_REFUSED(step + "/kind", "weight_grad", "takes no epilogue");
  EXPECT_REFUSED(step + "/pads_begin/1", -1, "padding is out of range");
  EXPECT_REFUSED(step + "/epilogue/args/0", 99, "does not exist");
}

TEST(Plan, ChecksTheOtherSteps) {
  EXPECT_REFUSED(kStep + "/steps/2/grain", 0, "grain is not positive");
  EXPECT_REFUSED(kStep + "/steps/2/args/0", 99, "does not exist");
  EXPECT_REFUSED(kStep + "/steps/3/predicate", 3, "not one i1");
  EXPECT_REFUSED(kStep + "/steps/3/then/0/dst", 5, "differ in type or size");
  EXPECT_REFUSED(kStep + "/steps/3/then/0/dst", 3, "overlaps an operand");
}

TEST(Plan, ChecksWhatIsSaidOfIndices) {
  const std::string step = kStep + "/steps/6";
  const char *expected = "is not one of the buffer's integers";
  EXPECT_REFUSED(step + "/buffer", 99, "does not exist");
  EXPECT_REFUSED(step + "/buffer", 0, expected);
  EXPECT_REFUSED(step + "/indices/0/end/1", 4, expected);
  EXPECT_REFUSED(step + "/indices/0/begin/0", -1, expected);
  EXPECT_REFUSED(step + "/indices/0/begin", Json::array({0}), expected);
  EXPECT_REFUSED(step + "/indices/0/size", -1, expected);
}

TEST(Plan, ChecksLoops) {
  const std::string loop = kStep + "/steps/5";
  EXPECT_REFUSED(loop + "/count", 0, "between 1 and 2^31 - 2 iterations");
  EXPECT_REFUSED(loop + "/count", int64_t(1) << 31, "iterations");
  EXPECT_REFUSED(loop + "/count", 3, "moves a buffer out of its memory");
  EXPECT_REFUSED(loop + "/moving/0/bytes", 20, "out of its memory");
  EXPECT_REFUSED(loop + "/moving/0/bytes", -16, "out of its memory");
  EXPECT_REFUSED(loop + "/moving/0/bytes", INT64_MIN, "out of its memory");
  EXPECT_REFUSED(loop + "/moving/0/bytes", 6, "by half an element");
  EXPECT_REFUSED(loop + "/moving/0/buffer", 99, "does not exist");
  const Json moving = fullPlan().plan[Json::json_pointer(loop + "/moving/0")];
  EXPECT_REFUSED(loop + "/moving/1", moving, "twice at once");
  EXPECT_REFUSED(loop + "/steps/0/src", 99, "does not exist");
  EXPECT_REFUSED("/functions/step/steps/3/else/0/dst", 99, "does not exist");
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

  // Well-formed, and in the part that may hold anything.
  builder = fullPlan();
  builder.plan["recipe"]["x"] = "@";
  std::string text = builder.plan.dump();
  text.replace(text.find("\"@\""), 3,
               std::string(200000, '[') + std::string(200000, ']'));
  EXPECT_EQ(parsePlan(text, 0).status().getCode(), StatusCode::InvalidInput);
}

/// Whatever stands in place of any value of the plan, parsing ends with a plan
/// or a clean refusal.
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
