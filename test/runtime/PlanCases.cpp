// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/PlanCases.h"

namespace mpc::runtime::test {

// Adds y = x * w, of 2 x 4 by 4 x 3.
static void addProduct(FunctionBuilder &f, size_t x, size_t w, size_t y) {
  f.step({{"op", "matmul"},   {"a", x},
          {"b", w},           {"c", y},
          {"batch", 1},       {"m", 2},
          {"n", 3},           {"k", 4},
          {"trans_a", false}, {"trans_b", false},
          {"lda", 4},         {"ldb", 3},
          {"ldc", 3},         {"stride_a", 0},
          {"stride_b", 0},    {"stride_c", 0},
          {"alpha", 1},       {"tile_m", 2},
          {"tile_n", 3},      {"epilogue", nullptr}});
}

// Adds a convolution of one tap, whose only result is an epilogue's.
static void addConvolution(FunctionBuilder &f, size_t image, size_t kernel,
                           const std::vector<size_t> &arguments) {
  f.step({{"op", "conv"},
          {"kind", "forward"},
          {"x", image},
          {"w", kernel},
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
          {"epilogue", {{"kernel", "bias_relu"}, {"args", arguments}}}});
}

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
  addProduct(f, x, f.state("w"), y);
  addConvolution(f, image, f.state("kernel"), {x, c, columns});
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
  f.step({{"op", "all_reduce"},
          {"buffer", f.arena(DType::F32, {4})},
          {"kind", "mean"},
          {"row_elements", 2}});
  f.output("z", z);
  builder.describeKernels({{"all_finite", 1}});
  return builder;
}

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
  steps[5].erase("row_elements");
  builder.describeKernels({{"all_finite", 1}});
  return builder;
}

Status check(const ArtifactBuilder &builder) {
  return parsePlan(builder.plan.dump(),
                   static_cast<int64_t>(builder.data.size()))
      .status();
}

std::string refusal(ArtifactBuilder builder, const std::string &pointer,
                    const Json &value) {
  builder.plan[Json::json_pointer(pointer)] = value;
  Status status = check(builder);
  EXPECT_EQ(status.getCode(), StatusCode::InvalidInput);
  return status.message();
}

} // namespace mpc::runtime::test
