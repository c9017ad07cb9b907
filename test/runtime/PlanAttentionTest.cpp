// Tests the checks of a plan's attention steps, and the geometry of operands.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/AttentionOperands.h"
#include "test/runtime/PlanCases.h"

#include <set>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// The heads of part `part` of a projection [batch, tokens, 3, heads, width].
Json columnsOf(int64_t part, int64_t tokens, int64_t heads, int64_t width) {
  const int64_t token = 3 * heads * width;
  return {{"offset", part * heads * width},
          {"batch", tokens * token},
          {"head", width},
          {"token", token}};
}

/// Two functions with one step each. Buffers: 0 the projection, 1 the output,
/// 2 the statistics, 3 the bias, 4 the output's gradient, 5 the projection's
/// gradient.
ArtifactBuilder attentionPlan() {
  ArtifactBuilder builder = gpuPlan();
  constexpr int64_t batch = 2, tokens = 16, heads = 4, width = 8;
  for (const char *kind : {"forward", "gradient"}) {
    FunctionBuilder f = builder.function(kind);
    const size_t projection =
        f.arena(DType::BF16, {batch, tokens, 3, heads, width});
    const size_t output = f.arena(DType::BF16, {batch, tokens, heads, width});
    const size_t statistics = f.arena(DType::F32, {batch, heads, tokens});
    const size_t bias = f.arena(DType::F32, {tokens, tokens});
    const Json dense = {{"batch", tokens * heads * width},
                        {"head", width},
                        {"token", heads * width}};
    Json step = {{"op", "attention"},
                 {"name", "attention"},
                 {"kind", kind},
                 {"batch", batch},
                 {"heads", heads},
                 {"key_heads", heads},
                 {"queries", tokens},
                 {"keys", tokens},
                 {"size", width},
                 {"columns", width},
                 {"scale", 0.35},
                 {"causal_offset", 0},
                 {"query", projection},
                 {"key", projection},
                 {"value", projection},
                 {"output", output},
                 {"statistics", statistics},
                 {"bias", bias},
                 {"query_at", columnsOf(0, tokens, heads, width)},
                 {"key_at", columnsOf(1, tokens, heads, width)},
                 {"value_at", columnsOf(2, tokens, heads, width)},
                 {"output_at", dense},
                 {"bias_at",
                  {{"batch", 0}, {"head", 0}, {"query", tokens}, {"key", 1}}}};
    const size_t dOutput = f.arena(DType::BF16, {batch, tokens, heads, width});
    const size_t gradient =
        f.arena(DType::BF16, {batch, tokens, 3, heads, width});
    if (std::string_view(kind) == "gradient") {
      step["d_output"] = dOutput;
      step["d_output_at"] = dense;
      for (const char *name : {"query", "key", "value"}) {
        const std::string d = std::string("d_") + name;
        step[d] = gradient;
        step[d + "_at"] = step[std::string(name) + "_at"];
      }
    }
    f.step(step);
  }
  return builder;
}

const std::string kForward = "/functions/forward/steps/0";
const std::string kGradient = "/functions/gradient/steps/0";

TEST(PlanAttention, IsRead) {
  const ArtifactBuilder builder = attentionPlan();
  StatusOr<Plan> plan =
      parsePlan(builder.plan.dump(), static_cast<int64_t>(builder.data.size()));
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  const Step &step = plan->findFunction("gradient")->steps[0];
  const auto &attention = std::get<AttentionStep>(step.op);
  EXPECT_EQ(attention.kind, AttentionKind::Gradient);
  EXPECT_EQ(attention.keyAt.offset, 32);
  EXPECT_EQ(attention.dValueAt.offset, 64);
  EXPECT_EQ(attention.biasAt.query, 16);
  EXPECT_EQ(attention.causalOffset, 0);
  EXPECT_EQ(listBuffers(step),
            (std::vector<size_t>{0, 0, 0, 3, 1, 4, 5, 5, 5, 2}));
}

#define EXPECT_ATTENTION_REFUSED(pointer, value, expected)                     \
  EXPECT_REFUSED_IN(attentionPlan(), pointer, value, expected)

TEST(PlanAttention, IsForGPUs) {
  EXPECT_ATTENTION_REFUSED("/target/triple", "x86_64-unknown-linux-gnu",
                           "only a GPU has steps for attention");
}

TEST(PlanAttention, HasSizesAndAScale) {
  EXPECT_ATTENTION_REFUSED(kForward + "/keys", 0, "an extent is out of range");
  EXPECT_ATTENTION_REFUSED(kForward + "/key_heads", 3, "not a multiple");
  EXPECT_ATTENTION_REFUSED(kForward + "/scale", "big", "'scale' is not a");
  EXPECT_ATTENTION_REFUSED(kForward + "/causal_offset", -1,
                           "a query sees no key");
  EXPECT_ATTENTION_REFUSED(kForward + "/kind", "input_grad",
                           "unknown kind of attention 'input_grad'");
  EXPECT_ATTENTION_REFUSED(kForward + "/query_at/column", 1, "unknown field");
}

TEST(PlanAttention, HasTheOperandsOfItsKind) {
  EXPECT_ATTENTION_REFUSED(kForward + "/d_key", 5, "belongs to a gradient");
  EXPECT_ATTENTION_REFUSED(kGradient + "/d_key", nullptr, "'d_key' is missing");
  EXPECT_ATTENTION_REFUSED(kGradient + "/statistics", nullptr,
                           "'statistics' is missing");
  EXPECT_ATTENTION_REFUSED(kForward + "/value", 99,
                           "'value' names a buffer that does not exist");
  EXPECT_ATTENTION_REFUSED(kForward + "/statistics", 99, "does not exist");
  EXPECT_ATTENTION_REFUSED(kForward + "/statistics", 3,
                           "not one f32 for each query");
  EXPECT_ATTENTION_REFUSED("/functions/forward/buffers/0/type", "i16",
                           "attention takes f16 or bf16");
  EXPECT_ATTENTION_REFUSED(
      "/functions/forward/buffers/1/type", "f16",
      "'output' has another type than the query, found f16, expected bf16");
}

/// A forward step of an evaluation keeps no statistics.
TEST(PlanAttention, MayLackStatisticsAndBias) {
  ArtifactBuilder builder = attentionPlan();
  Json &step = builder.plan["functions"]["forward"]["steps"][0];
  for (const char *key : {"statistics", "bias", "bias_at", "causal_offset"})
    step.erase(key);
  EXPECT_EQ(check(builder).message(), "");
}

TEST(PlanAttention, StaysWithinItsBuffers) {
  EXPECT_ATTENTION_REFUSED(
      kForward + "/value_at/offset", 65,
      "'value' is smaller than what the step uses, found 2x16x3x4x8, expected "
      "3073 elements");
  EXPECT_ATTENTION_REFUSED(kForward + "/value_at/token", -96,
                           "strides that are not negative");
  EXPECT_ATTENTION_REFUSED(kForward + "/bias_at/query", 17, "smaller than");
  EXPECT_ATTENTION_REFUSED(kForward + "/value_at/token", INT64_MAX,
                           "smaller than");
}

TEST(PlanAttention, WritesEachElementOnce) {
  EXPECT_ATTENTION_REFUSED(kForward + "/output_at/head", 7,
                           "strides of 'output' let results overlap");
  EXPECT_ATTENTION_REFUSED(kForward + "/output_at/batch", 0,
                           "strides of 'output' let results overlap");
}

TEST(PlanAttention, WritesNothingThatItReads) {
  const char *const overlap = "its results overlap each other or an operand";
  EXPECT_ATTENTION_REFUSED(kGradient + "/d_key_at/offset", 0, overlap);
  EXPECT_ATTENTION_REFUSED(kGradient + "/d_key_at/offset", 33, overlap);
  EXPECT_ATTENTION_REFUSED(kGradient + "/d_query", 0, overlap);
  EXPECT_ATTENTION_REFUSED(kGradient + "/d_output", 5, overlap);
  // The statistics begin within the output.
  ArtifactBuilder builder = attentionPlan();
  Json &buffers = builder.plan["functions"]["forward"]["buffers"];
  buffers[2]["offset"] = buffers[1]["offset"];
  EXPECT_NE(check(builder).message().find(overlap), std::string::npos)
      << check(builder).message();
}

//===----------------------------------------------------------------------===//
// Geometry
//===----------------------------------------------------------------------===//

/// The offsets of all elements of a block.
std::set<int64_t> listElements(const StridedBlock &block) {
  std::set<int64_t> elements = {block.offset};
  for (const StridedAxis &axis : block.axes) {
    std::set<int64_t> next;
    for (int64_t element : elements)
      for (int64_t i = 0; i < axis.extent; ++i)
        next.insert(element + i * axis.stride);
    elements = std::move(next);
  }
  return elements;
}

/// Blocks that share an element are never apart. Whole parts of a projection
/// are.
TEST(StridedBlock, KnowsWhichPartsOfAProjectionAreApart) {
  constexpr int64_t batch = 2, tokens = 3, heads = 2, width = 4;
  constexpr int64_t all = heads * width;
  struct Order {
    const char *name;
    int64_t part, batch, head, token;
  };
  const Order orders[] = {
      {"[B,S,3,H,D]", all, tokens * 3 * all, width, 3 * all},
      {"[B,S,H,3,D]", width, tokens * 3 * all, 3 * width, 3 * all},
      {"[B,3,H,S,D]", tokens * all, 3 * tokens * all, tokens * width, width},
      {"[3,B,S,H,D]", batch * tokens * all, tokens * all, width, all}};
  for (const Order &order : orders)
    for (int64_t first = 0; first < 3; ++first)
      for (int64_t second = 0; second < 3; ++second)
        for (int64_t shift : {0, 1}) {
          auto block = [&](int64_t offset) -> StridedBlock {
            return {offset,
                    {{{batch, order.batch},
                      {heads, order.head},
                      {tokens, order.token},
                      {width, 1}}}};
          };
          const StridedBlock a = block(first * order.part);
          const StridedBlock b = block(second * order.part + shift);
          bool share = false;
          const std::set<int64_t> elements = listElements(a);
          for (int64_t element : listElements(b))
            share |= elements.count(element) > 0;
          const bool apart = areApart(a, b);
          EXPECT_FALSE(share && apart)
              << order.name << " " << first << " " << second << " " << shift;
          if (shift == 0) {
            EXPECT_EQ(apart, first != second)
                << order.name << " " << first << " " << second;
          }
        }
}

TEST(StridedBlock, CountsToItsLastElement) {
  StridedBlock block{5, {{{2, 100}, {3, 8}, {4, 23}, {8, 1}}}};
  EXPECT_EQ(block.countReached(), 5 + 100 + 16 + 69 + 7 + 1);
  EXPECT_FALSE(block.hasDistinctElements());
  block.axes[2].stride = 24;
  EXPECT_TRUE(block.hasDistinctElements());
  block.axes[0].stride = INT64_MAX;
  EXPECT_EQ(block.countReached(), std::nullopt);
  block.axes[0].stride = -1;
  EXPECT_EQ(block.countReached(), std::nullopt);
}

} // namespace
