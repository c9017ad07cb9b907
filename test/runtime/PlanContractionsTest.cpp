// Tests the checks of a plan's matrix products, convolutions and fused ops.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/PlanCases.h"

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

TEST(PlanContractions, ConvolvesInOneTypeOnGPUs) {
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

TEST(PlanContractions, ChecksWhatIsFused) {
  EXPECT_GPU_REFUSED(kFused + "/fused/kind", "gelu",
                     "unknown kind of fused product 'gelu'");
  EXPECT_GPU_REFUSED(kFused + "/fused/kind", nullptr, "'kind' is not a string");
  EXPECT_GPU_REFUSED(kFused + "/fused/kind", "bias",
                     "'aux' does not belong to this");
  EXPECT_GPU_REFUSED(kFused + "/fused/kind", "drelu",
                     "'bias' does not belong to this");
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

TEST(PlanContractions, ChecksWhatStandsForWhatIsFused) {
  Json launch = {{"op", "launch"}, {"name", "bias"}, {"kernel", "add"},
                 {"args", {2, 3}}, {"extent", 32},   {"grain", 32},
                 {"threads", 32}};
  const std::string pointer = kFused + "/fused/unfused";
  ArtifactBuilder builder = gpuPlan();
  builder.plan[Json::json_pointer(pointer)] = Json::array({launch});
  builder.describeKernels();
  StatusOr<Plan> plan =
      parsePlan(builder.plan.dump(), static_cast<int64_t>(builder.data.size()));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const auto &product =
      std::get<MatMulStep>(plan->findFunction("fused")->steps[0].op);
  ASSERT_EQ(product.fused->unfused.size(), 1u);
  EXPECT_EQ(product.fused->unfused[0].kernel, "add");

  EXPECT_GPU_REFUSED(pointer, 1, "unfused");
  EXPECT_GPU_REFUSED(pointer, Json::array({{{"op", "copy"}}}),
                     "only launches can replace a fused product");
  Json wrong = launch;
  wrong["args"] = {2, 99};
  EXPECT_REFUSED_IN(builder, pointer, Json::array({wrong}), "does not exist");
  wrong = launch;
  wrong["threads"] = 0;
  EXPECT_GPU_REFUSED(pointer, Json::array({wrong}),
                     "between 1 and 1024 threads");
}

/// cuBLASLt sums an operand in the order in which it reads the operand.
TEST(PlanContractions, SumsOperandsInTheLibrarysOrderAlone) {
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

/// With and without an epilogue.
TEST(PlanContractions, SumsOperandsOnCPUsInF32) {
  for (bool hasEpilogue : {false, true}) {
    ArtifactBuilder builder = fullPlan();
    Json &function = builder.plan["functions"]["step"];
    Json &buffers = function["buffers"];
    // The sum of w's rows: 3 columns.
    Json sums = buffers[function["steps"][0]["c"].get<size_t>()];
    sums["shape"] = {3};
    sums["offset"] = 64 << 10;
    function["arena_bytes"] = 128 << 10;
    buffers.push_back(sums);
    Json &step = function["steps"][0];
    step["fused"] = {{"kind", "bgrad_b"}, {"bias_grad", buffers.size() - 1}};
    if (hasEpilogue) {
      step["c"] = nullptr;
      step["epilogue"] = {{"kernel", "tail"}, {"args", Json::array()}};
      builder.describeKernels();
    }
    auto message = [&] { return check(builder).message(); };
    EXPECT_EQ(message(), "");
    buffers.back()["type"] = "bf16";
    EXPECT_NE(message().find("'bias_grad' has another type"), std::string::npos)
        << message();
    buffers.back() = sums;
    buffers.back()["shape"] = {2};
    EXPECT_NE(message().find("'bias_grad' has another type"), std::string::npos)
        << message();
    buffers.back() = sums;
    step["fused"]["kind"] = "bgrad_a";
    EXPECT_NE(message().find("'bgrad_a' sums an a that is transposed"),
              std::string::npos)
        << message();
    step["fused"] = {{"kind", "bgrad_b"}};
    EXPECT_NE(message().find("'bias_grad' is missing"), std::string::npos)
        << message();
    step["fused"]["kind"] = "bias";
    EXPECT_NE(message().find("only sums of an operand can be fused"),
              std::string::npos)
        << message();
  }
}

/// Sums are memory of the step: either all are in each worker's private memory,
/// or none.
TEST(PlanContractions, SumsLieInPrivateMemoryAsAWhole) {
  ArtifactBuilder builder = fullPlan();
  Json &function = builder.plan["functions"]["step"];
  Json &buffers = function["buffers"];
  Json product = function["steps"][0];
  Json sums = buffers[product["c"].get<size_t>()];
  sums["shape"] = {3};
  sums["offset"] = 64 << 10;
  function["arena_bytes"] = 128 << 10;
  buffers.push_back(sums);
  product["fused"] = {{"kind", "bgrad_b"}, {"bias_grad", buffers.size() - 1}};
  Json &loop = function["steps"][5];
  loop["moving"] = Json::array();
  loop["steps"] = Json::array({product});
  loop["private"] = {{"offset", 64 << 10}, {"bytes", 12}};
  EXPECT_EQ(check(builder).message(), "");
  loop["private"]["bytes"] = 8;
  EXPECT_NE(check(builder).message().find("half in private memory"),
            std::string::npos)
      << check(builder).message();
}

TEST(PlanContractions, ChecksThatFusedResultsAreApart) {
  for (const char *other : {"0", "2", "3"}) {
    ArtifactBuilder builder = gpuPlan();
    Json &buffers = builder.plan["functions"]["fused"]["buffers"];
    buffers[4]["offset"] = buffers[std::stoi(other)]["offset"];
    EXPECT_NE(check(builder).message().find("overlaps an operand"),
              std::string::npos)
        << other << check(builder).message();
  }
}

TEST(PlanContractions, ChecksMatrixProducts) {
  const std::string step = kStep + "/steps/0";
  EXPECT_REFUSED(step + "/m", 3, "smaller than what the step reads");
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

TEST(PlanContractions, ChecksTheRowsOfEpilogues) {
  ArtifactBuilder builder = fullPlan();
  Json &step = builder.plan["functions"]["step"]["steps"][0];
  step["c"] = nullptr;
  step["epilogue"] = {{"kernel", "tail"}, {"args", Json::array()}};
  step["m"] = 1;
  step["batch"] = 2;
  step["stride_a"] = 4;
  builder.describeKernels();
  auto message = [&](int64_t ldc, int64_t strideC) {
    step["ldc"] = ldc;
    step["stride_c"] = strideC;
    return check(builder).message();
  };
  EXPECT_EQ(message(3, 3), "");
  EXPECT_EQ(message(6, 3), ""); // rows in another order
  const std::string impossible = "of its epilogue's operands are impossible";
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

TEST(PlanContractions, ChecksThatBatchedResultsAreApart) {
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

TEST(PlanContractions, ChecksOuterAxes) {
  // A row of three gives two by two results, and the plan has room for two.
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
  EXPECT_NE(message(uneven).find("has not one stride for each outer axis"),
            std::string::npos);
  EXPECT_NE(message(Json::array()).find("outer"), std::string::npos);
  step = plain;
  step["offset_a"] = -1;
  EXPECT_NE(check(builder).message().find("'a' are impossible"),
            std::string::npos);
  step["offset_a"] = 1;
  EXPECT_NE(check(builder).message().find("'a' is smaller"), std::string::npos);
}

TEST(PlanContractions, ChecksConvolutions) {
  const std::string step = kStep + "/steps/1";
  EXPECT_REFUSED(step + "/out_spatial/0", 3, "output's extent is not what");
  EXPECT_REFUSED(step + "/strides", Json::array({1}), "differ in length");
  EXPECT_REFUSED(step + "/groups", 2, "multiple of the groups");
  EXPECT_REFUSED(step + "/in_channels", 6, "another size");
  EXPECT_REFUSED(step + "/w", nullptr, "operand 'w' is missing");
  EXPECT_REFUSED(step + "/kind", "weight_grad", "takes no epilogue");
  EXPECT_REFUSED(step + "/pads_begin/1", -1, "padding is out of range");
  // Two pixels and a stride of one.
  EXPECT_REFUSED(step + "/pads_end/1", (int64_t(1) << 31) - 3,
                 "padding and the stride are too long together");
  EXPECT_REFUSED(step + "/pads_end/1", (int64_t(1) << 31) - 4,
                 "output's extent is not what");
  EXPECT_REFUSED(step + "/epilogue/args/0", 99, "does not exist");
}

} // namespace
