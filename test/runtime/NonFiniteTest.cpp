// Tests the search for the origin of NaN and infinities, in hand-made plans.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/NonFinite.h"
#include "runtime/Session.h"
#include "test/runtime/ArtifactBuilder.h"
#include "test/runtime/MatMulCase.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

constexpr float kLarge = 3e38f;

/// first = x + w, mask = x + negative, second = first + first. Infinities in
/// `mask` reach no result.
std::unique_ptr<Session> makeSession() {
  ArtifactBuilder builder;
  builder.state("w", floats({2}, {1, 2}));
  builder.state("negative", floats({2}, {-kLarge, -kLarge}), "frozen");
  FunctionBuilder f = builder.function("step");
  size_t x = f.input("x", DType::F32, {2});
  size_t first = f.arena(DType::F32, {2}), mask = f.arena(DType::F32, {2});
  size_t second = f.arena(DType::F32, {2});
  const auto add = [&](const char *name, size_t a, size_t b, size_t out) {
    f.step({{"op", "launch"},
            {"name", name},
            {"kernel", "add"},
            {"args", {a, b, out}},
            {"extent", 2},
            {"grain", 1}});
  };
  add("masking", x, f.state("negative"), mask);
  add("early", x, f.state("w"), first);
  add("late", first, first, second);
  f.output("loss", second);
  SessionOptions options;
  options.threads = 1;
  auto session = Session::create(builder.open(), options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? std::move(*session) : nullptr;
}

std::string originFor(Session &session, const Shape &shape,
                      const std::vector<float> &x) {
  EXPECT_TRUE(session.setInput("step", "x", floats(shape, x)).ok());
  auto origin = session.trace("step");
  EXPECT_TRUE(origin.ok()) << origin.status().message();
  return origin.ok() && *origin ? (*origin)->text : "";
}
std::string originFor(Session &session, const std::vector<float> &x) {
  return originFor(session, {2}, x);
}

TEST(NonFinite, FiniteRunsHaveNone) {
  auto session = makeSession();
  EXPECT_EQ(originFor(*session, {1, 2}), "");
  // The traced run leaves outputs that can be read.
  EXPECT_EQ(session->output("step", "loss")->as<float>()[1], 8);
}

TEST(NonFinite, TheFirstStepThatMakesOneIsNamed) {
  auto session = makeSession();
  EXPECT_EQ(originFor(*session, {1, kLarge}),
            "node 'late' gives inf at [1] of f32 2");
}

TEST(NonFinite, WhoeverReadsOneIsNotToBlame) {
  auto session = makeSession();
  ASSERT_TRUE(session->setState("w", floats({2}, {kLarge, 0})).ok());
  for (int run = 0; run < 2; ++run) // memory from an earlier run has no effect
    EXPECT_EQ(originFor(*session, {kLarge, 0}),
              "node 'early' gives inf at [0] of f32 2");
}

// The third row overflows. The search does not check earlier rows again.
TEST(NonFinite, IterationsOfLoopsAreFollowed) {
  ArtifactBuilder builder;
  builder.state("sum", floats({2}, {0, 0}));
  FunctionBuilder f = builder.function("step");
  size_t x = f.input("x", DType::F32, {3, 2});
  size_t row = f.part(x, {2}, 0), sum = f.state("sum");
  f.step({{"op", "for"},
          {"count", 3},
          {"moving", {{{"buffer", row}, {"bytes", 8}}}},
          {"steps",
           {{{"op", "launch"},
             {"name", "accumulate"},
             {"others", {"scale", "shift"}},
             {"kernel", "add"},
             {"args", {sum, row, sum}},
             {"extent", 2},
             {"grain", 1}}}}});
  f.output("loss", sum);
  SessionOptions options;
  options.threads = 1;
  auto session = Session::create(builder.open(), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  auto trace = [&](std::vector<float> elements) -> std::string {
    EXPECT_TRUE((*session)->reset().ok());
    EXPECT_TRUE(
        (*session)->setInput("step", "x", floats({3, 2}, elements)).ok());
    auto origin = (*session)->trace("step");
    EXPECT_TRUE(origin.ok()) << origin.status().message();
    return origin.ok() && *origin ? (*origin)->text : "";
  };
  EXPECT_EQ(trace({1, 2, 3, 4, 5, 6}), "");
  EXPECT_EQ(trace({0, kLarge, 0, 0, 0, kLarge}),
            "the kernel of nodes 'accumulate', 'scale' and 'shift' gives inf "
            "at [1] of f32 2");
  EXPECT_EQ(trace({0, 0, NAN, 0, 0, 0}), "input 'x' is nan at [1, 0]");
  // The third row changes another element only.
  EXPECT_EQ(trace({0, kLarge, 0, kLarge, 1, 0}),
            "the kernel of nodes 'accumulate', 'scale' and 'shift' gives inf "
            "at [1] of f32 2");
}

// The product is zero. The sums of its right operand, which the product writes
// too, overflow, and the next step reads them.
TEST(NonFinite, SumsOfAnOperandAreWrittenByTheProduct) {
  ArtifactBuilder builder;
  FunctionBuilder f = builder.function("step");
  size_t x = f.input("x", DType::F32, {2, 2});
  size_t zeros = f.constant(Tensor::zeros(DType::F32, {2, 2}));
  size_t result = f.arena(DType::F32, {2, 2}), sums = f.arena(DType::F32, {2});
  size_t late = f.arena(DType::F32, {2});
  MatMulCase shape{2, 2, 2};
  shape.tileM = shape.tileN = 2;
  Json product = MatMul(shape).step(zeros, x, result);
  product["fused"] = {{"kind", "bgrad_b"}, {"bias_grad", sums}};
  f.step(product);
  f.launch("add", {sums, sums, late}, 2, 1);
  f.output("loss", late);
  auto session = test::makeSession(builder);
  EXPECT_EQ(originFor(*session, {2, 2}, {1, kLarge, 2, kLarge}),
            "node 'fc1' gives inf at [1] of f32 2");
}

TEST(NonFinite, InputsAndStateAreOriginsToo) {
  auto session = makeSession();
  EXPECT_EQ(originFor(*session, {0, NAN}), "input 'x' is nan at [1]");
  ASSERT_TRUE(session->setState("w", floats({2}, {-INFINITY, 0})).ok());
  EXPECT_EQ(originFor(*session, {0, 0}), "parameter 'w' is -inf at [0]");
  ASSERT_TRUE(session->reset().ok());
  EXPECT_EQ(originFor(*session, {0, 0}), "");
}

TEST(NonFinite, InfinitiesThatGoNowhereAreNobodysFault) {
  auto session = makeSession();
  EXPECT_EQ(originFor(*session, {-kLarge, 0}),
            "node 'late' gives -inf at [0] of f32 2");
  EXPECT_EQ(originFor(*session, {-1e38f, 0}), "");
}

TEST(NonFinite, EveryFloatTypeIsLookedThrough) {
  for (DType type : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    Tensor wide = Tensor::zeros(DType::F64, {3});
    wide.as<double>()[2] = -INFINITY;
    StatusOr<Tensor> tensor = convert(wide, type);
    ASSERT_TRUE(tensor.ok());
    EXPECT_EQ(findNonFinite(type, tensor->bytes.data(), 3), 2);
    EXPECT_EQ(findNonFinite(type, tensor->bytes.data(), 2), std::nullopt);
    EXPECT_EQ(describeElement(type, {1, 3}, tensor->bytes.data(), 2),
              "-inf at [0, 2]");
  }
}

} // namespace
