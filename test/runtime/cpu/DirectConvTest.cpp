// Tests the routines for convolutions and gradients that oneDNN is slow at.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/conv/DirectSums.h"
#include "test/runtime/ConvCase.h"
#include "test/runtime/cpu/RunContraction.h"

#include <limits>
#include <random>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// For a session with many workers: it has small slices, and pairs of bf16
/// where the CPU multiplies these.
OneDNNConfig manyWorkers() {
  OneDNNConfig config;
  config.workers = 16;
  config.nativeBF16 = hostHasAVX512() && hostHasFeature("avx512bf16");
  return config;
}

/// Runs a step directly; `epilogue`, if any, gets the result instead.
Tensor runDirectly(const Conv &conv, ConvKind kind,
                   const OneDNNConfig &config = {},
                   EpilogueCall epilogue = {}) {
  Tensor result = Tensor::zeros(
      conv.c.result, kind == ConvKind::Forward ? conv.yShape : conv.xShape);
  ConvOperands operands = operandsOf(conv, kind, result);
  operands.epilogue = std::move(epilogue);
  auto made = prepareDirectConv(stepOf(conv, kind), operands, config);
  EXPECT_TRUE(made);
  if (made)
    runAll(*made);
  return result;
}

Tensor runWeightGrad(const Conv &conv) {
  const Tensor result = Tensor::zeros(conv.c.result, conv.wShape);
  auto made = prepareDirectWeightGrad(
      stepOf(conv, ConvKind::WeightGrad),
      {operandOf(conv.x), operandOf(result), operandOf(conv.y), {}});
  EXPECT_TRUE(made);
  if (made)
    runAll(*made);
  return result;
}

void expectBothDirectlyCorrect(ConvCase c) {
  for (DType type : {DType::F32, DType::BF16, DType::F16}) {
    SCOPED_TRACE(nameOf(type));
    c.type = type;
    // The bounds do not hold for subnormal results.
    c.result = type == DType::F16 ? DType::F32 : type;
    const Conv conv(c);
    for (const OneDNNConfig &config : {OneDNNConfig(), manyWorkers()}) {
      expectClose(runDirectly(conv, ConvKind::Forward, config),
                  conv.reference("forward"));
      expectClose(runDirectly(conv, ConvKind::InputGrad, config),
                  conv.reference("input_grad"));
    }
  }
}

TEST(DirectConv, LanesAreFilters) {
  expectBothDirectlyCorrect(
      {2, 1, 20, 33, {9, 11}, {3, 5}, {1, 1}, {1, 1}, {1, 2}, {1, 2}});
  expectBothDirectlyCorrect(
      {2, 2, 34, 40, {9, 8}, {3, 2}, {2, 3}, {1, 2}, {0, 1}, {2, 0}});
}

// Eight channels fill half of the lanes.
TEST(DirectConv, LanesAreHalfFilled) {
  for (int64_t channels : {5, 8, 24})
    expectBothDirectlyCorrect({1,
                               1,
                               channels,
                               channels,
                               {9, 23},
                               {3, 5},
                               {1, 2},
                               {1, 1},
                               {1, 2},
                               {1, 2}});
}

TEST(DirectConv, LanesAreGroups) {
  expectBothDirectlyCorrect(
      {2, 40, 40, 40, {9, 11}, {5, 3}, {1, 1}, {1, 1}, {2, 1}, {2, 1}});
  expectBothDirectlyCorrect(
      {2, 24, 48, 72, {13, 12}, {3, 3}, {2, 2}, {2, 2}, {2, 2}, {2, 2}});
}

// Few results of many channels, and the other way round.
TEST(DirectConv, LanesAreTerms) {
  for (int64_t few : {1, 2, 3, 4, 7})
    expectBothDirectlyCorrect(
        {2, 1, 35, few, {9, 11}, {3, 5}, {1, 1}, {1, 1}, {1, 2}, {1, 2}});
  expectBothDirectlyCorrect({1, 1, 64, 3, {300}, {10}, {5}, {1}, {0}, {3}});
  expectBothDirectlyCorrect({2, 1, 3, 64, {41}, {7}, {3}, {2}, {5}, {4}});
  expectBothDirectlyCorrect(
      {2, 3, 120, 6, {7, 8}, {4, 4}, {2, 2}, {1, 1}, {1, 1}, {1, 1}});
  expectBothDirectlyCorrect({1,
                             1,
                             32,
                             2,
                             {5, 6, 7},
                             {3, 2, 3},
                             {2, 1, 2},
                             {1, 2, 1},
                             {1, 1, 2},
                             {1, 0, 1}});
}

// Images that need no padding are read where they are.
TEST(DirectConv, ReadsInPlace) {
  expectBothDirectlyCorrect({2, 1, 64, 2, {37}, {1}, {1}, {1}, {0}, {0}});
  expectBothDirectlyCorrect(
      {1, 1, 32, 20, {9, 10}, {2, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
}

// Rows of taps as pairs, and one more.
TEST(DirectConv, OneChannel) {
  for (int64_t taps : {1, 2, 5, 9})
    expectBothDirectlyCorrect(
        {2, 1, 1, 17, {12, 13}, {3, taps}, {1, 2}, {1, 1}, {1, 4}, {1, 4}});
  expectBothDirectlyCorrect({2, 1, 1, 16, {50}, {9}, {1}, {3}, {12}, {12}});
  expectBothDirectlyCorrect({2, 1, 3, 16, {50}, {9}, {2}, {1}, {4}, {4}});
}

TEST(DirectConv, WeightsMeetNoPixelBeside) {
  ConvCase c{1, 1, 1, 16, {1, 40}, {1, 5}, {1, 1}, {1, 1}, {0, 2}, {0, 2}};
  for (DType type : {DType::F32, DType::BF16}) {
    SCOPED_TRACE(nameOf(type));
    c.type = type;
    Conv conv(c);
    const float infinity = std::numeric_limits<float>::infinity();
    narrow(type, &infinity, operandOf(conv.x).at(20), 1);
    const Tensor result = runDirectly(conv, ConvKind::Forward, manyWorkers());
    for (int64_t i = 0; i < result.size(); ++i)
      EXPECT_EQ(std::isfinite(result.as<float>()[i]),
                i / c.outChannels < 18 || i / c.outChannels > 22)
          << "element " << i;
  }
}

TEST(DirectConv, OneAndThreeDimensions) {
  expectBothDirectlyCorrect({1,
                             40,
                             40,
                             40,
                             {7, 9, 10},
                             {3, 3, 3},
                             {1, 1, 1},
                             {1, 1, 1},
                             {1, 1, 1},
                             {1, 1, 1}});
  expectBothDirectlyCorrect({2, 16, 16, 16, {70}, {31}, {3}, {2}, {30}, {29}});
  expectBothDirectlyCorrect({2,
                             17,
                             17,
                             17,
                             {5, 6, 7},
                             {3, 2, 3},
                             {2, 1, 2},
                             {1, 2, 1},
                             {1, 1, 2},
                             {1, 0, 1}});
}

// Several slices share a row.
TEST(DirectConv, LongRows) {
  expectBothDirectlyCorrect(
      {1, 64, 64, 64, {1, 3000}, {1, 9}, {1, 2}, {1, 3}, {0, 12}, {0, 12}});
}

TEST(DirectConv, MoreThanTheImageBetweenStrides) {
  expectBothDirectlyCorrect(
      {2, 1, 3, 4, {5, 4}, {2, 3}, {7, 9}, {1, 1}, {0, 1}, {0, 1}});
}

TEST(DirectConv, RandomGeometries) {
  std::mt19937 random(11);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 60; ++i) {
    ConvCase c;
    c.batch = pick(1, 3);
    c.groups = pick(0, 1) ? 1 : pick(2, 20);
    c.inChannels = c.groups * pick(1, c.groups == 1 ? 20 : 3);
    c.outChannels = c.groups * pick(1, c.groups == 1 ? 20 : 3);
    for (int64_t d = 0, rank = pick(1, 3); d < rank; ++d) {
      c.kernel.push_back(pick(1, 4));
      c.strides.push_back(pick(1, 3));
      c.dilations.push_back(pick(1, 3));
      c.padsBegin.push_back(pick(0, 4));
      c.padsEnd.push_back(pick(0, 4));
      const int64_t window = c.dilations.back() * (c.kernel.back() - 1) + 1;
      c.inSpatial.push_back(std::max<int64_t>(
          1, window - c.padsBegin.back() - c.padsEnd.back() + pick(0, 7)));
    }
    SCOPED_TRACE("case " + std::to_string(i));
    expectBothDirectlyCorrect(c);
  }
}

TEST(DirectConv, EpilogueGetsEveryPixelOnce) {
  ConvCase c{3, 24, 24, 48, {9, 8}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}};
  const Conv conv(c);
  const Tensor expected = runDirectly(conv, ConvKind::Forward);
  Tensor added = Tensor::zeros(DType::F32, conv.yShape);
  int64_t columns = c.outChannels;
  EpilogueCall epilogue;
  epilogue.function = addToBuffer;
  epilogue.args = {added.bytes.data(), &columns};
  runDirectly(conv, ConvKind::Forward, {}, epilogue);
  EXPECT_EQ(added.bytes, expected.bytes);
}

TEST(DirectConv, TakesNoGradientsOfFiltersAndNoRowsThatAreTooLong) {
  const Conv conv({1, 1, 8, 8, {9}, {2}, {1}, {1}, {0}, {0}});
  const Operand none;
  const ConvOperands operands{none, none, none, {}};
  auto isTaken = [&](const ConvStep &step) {
    return prepareDirectConv(step, operands, {}) != nullptr;
  };
  EXPECT_TRUE(isTaken(stepOf(conv, ConvKind::Forward)));
  EXPECT_FALSE(isTaken(stepOf(conv, ConvKind::WeightGrad)));
  ConvStep step = stepOf(conv, ConvKind::Forward);
  step.inSpatial = {int64_t(1) << 21};
  step.dilations = {int64_t(1) << 20};
  step.outSpatial = {int64_t(1) << 20};
  EXPECT_FALSE(isTaken(step));
}

TEST(DirectConv, TakesFromTheLibraryWhatLeavesItsVectorsEmpty) {
  auto isFaster = [](int64_t groups, int64_t in, int64_t out, ConvKind kind,
                     DType type, const OneDNNConfig &config, int64_t side) {
    const Conv conv({1,
                     groups,
                     in,
                     out,
                     {side, side},
                     {5, 5},
                     {1, 1},
                     {1, 1},
                     {2, 2},
                     {2, 2},
                     type});
    const Operand operand{type, nullptr};
    return prepareFasterDirectConv(stepOf(conv, kind),
                                   {operand, operand, operand, {}},
                                   config) != nullptr;
  };
  const ConvKind forward = ConvKind::Forward, gradient = ConvKind::InputGrad;
  EXPECT_TRUE(isFaster(1, 64, 3, forward, DType::F32, {}, 30));
  EXPECT_FALSE(isFaster(1, 64, 3, gradient, DType::F32, {}, 30));
  EXPECT_TRUE(isFaster(1, 3, 64, gradient, DType::F32, {}, 30));
  EXPECT_FALSE(isFaster(1, 64, 64, forward, DType::F32, {}, 30));
  EXPECT_TRUE(isFaster(20, 20, 40, forward, DType::F32, {}, 30));
  EXPECT_FALSE(isFaster(20, 20, 20, forward, DType::F32, {}, 30));
  EXPECT_FALSE(isFaster(20, 160, 160, forward, DType::F32, {}, 30));
  // Preparing takes longer than a few pixels.
  EXPECT_FALSE(isFaster(1, 64, 3, forward, DType::F32, {}, 5));
  EXPECT_FALSE(isFaster(1, 1, 16, forward, DType::BF16, {}, 30));
  EXPECT_EQ(isFaster(1, 1, 16, forward, DType::BF16, manyWorkers(), 30),
            manyWorkers().nativeBF16);
  OneDNNConfig tiles = manyWorkers();
  tiles.hasAMX = true;
  EXPECT_EQ(isFaster(1, 64, 3, forward, DType::BF16, tiles, 30),
            !tiles.nativeBF16);
}

TEST(DirectConv, TakesGradientsWithStridesAndFewTermsOnAVX2) {
  auto isFaster = [](int64_t in, int64_t out, int64_t stride) {
    const Conv conv({1,
                     1,
                     in,
                     out,
                     {64, 64},
                     {4, 4},
                     {stride, stride},
                     {1, 1},
                     {1, 1},
                     {1, 1}});
    const Operand operand{DType::F32, nullptr};
    return prepareFasterDirectConv(stepOf(conv, ConvKind::InputGrad),
                                   {operand, operand, operand, {}},
                                   {}) != nullptr;
  };
  EXPECT_EQ(isFaster(32, 64, 2), floatLanes() == 8);
  EXPECT_FALSE(isFaster(32, 64, 1));
  EXPECT_FALSE(isFaster(32, 65, 2)); // more terms
  EXPECT_FALSE(isFaster(36, 64, 2)); // lanes would be empty
}

void expectWeightGradCorrect(ConvCase c) {
  for (DType type : {DType::F32, DType::BF16, DType::F16}) {
    SCOPED_TRACE(nameOf(type));
    c.type = type;
    const Conv conv(c);
    expectClose(runWeightGrad(conv), conv.reference("weight_grad"));
  }
}

TEST(DirectWeightGrad, LanesAreGroups) {
  expectWeightGradCorrect(
      {2, 24, 24, 48, {13, 12}, {3, 3}, {2, 2}, {2, 2}, {2, 2}, {2, 2}});
  expectWeightGradCorrect(
      {2, 17, 51, 34, {9, 8}, {2, 5}, {1, 1}, {1, 1}, {0, 2}, {1, 3}});
  expectWeightGradCorrect({1,
                           20,
                           20,
                           20,
                           {4, 5, 6},
                           {3, 2, 3},
                           {1, 1, 1},
                           {1, 1, 1},
                           {1, 0, 1},
                           {1, 0, 1}});
}

TEST(DirectWeightGrad, LanesAreTaps) {
  expectWeightGradCorrect(
      {2, 1, 8, 20, {9, 30}, {3, 17}, {1, 1}, {1, 1}, {1, 8}, {1, 8}});
  expectWeightGradCorrect(
      {2, 2, 40, 6, {9, 30}, {1, 5}, {1, 2}, {1, 3}, {0, 6}, {0, 6}});
}

Tensor runNarrow(const MatMul &matmul, EpilogueCall epilogue = {}) {
  const Tensor result = emptyResult(matmul);
  MatMulOperands operands = operandsOf(matmul, result);
  operands.epilogue = std::move(epilogue);
  auto made = prepareNarrowMatMul(stepOf(matmul), operands, manyWorkers());
  EXPECT_TRUE(made);
  if (!made)
    return result;
  // The operands, in their order, are where a loop of a plan finds them.
  const std::vector<void **> addresses = made->addresses();
  EXPECT_EQ(*addresses[0], operands.a.data);
  EXPECT_EQ(*addresses[1], operands.b.data);
  EXPECT_EQ(*addresses[2], operands.c.data);
  runAll(*made);
  return result;
}

TEST(NarrowMatMul, FewColumns) {
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    for (bool transB : {false, true})
      for (int64_t columns : {1, 2, 3})
        for (int64_t depth : {64, 100, 1030}) {
          SCOPED_TRACE(nameOf(type));
          MatMulCase c{301,  columns, depth,
                       type, type,    type == DType::F16 ? DType::F32 : type};
          c.transB = transB;
          const MatMul matmul(c);
          expectClose(runNarrow(matmul), matmul.reference());
        }
}

TEST(NarrowMatMul, EpilogueGetsEveryElementOnce) {
  for (bool transB : {false, true}) {
    MatMulCase c{301, 3, 64};
    c.transB = transB;
    const MatMul matmul(c);
    Tensor added = emptyResult(matmul);
    EpilogueCall epilogue;
    epilogue.function = addToBuffer;
    epilogue.args = {added.bytes.data(), &c.n};
    runNarrow(matmul, epilogue);
    expectClose(added, matmul.reference());
  }
}

TEST(NarrowMatMul, LeavesOtherProductsToTheLibrary) {
  auto isTaken = [](MatMulCase c, int64_t offset = 0) {
    const MatMul matmul(c);
    const Tensor result = emptyResult(matmul);
    MatMulOperands operands = operandsOf(matmul, result);
    MatMulStep step = stepOf(matmul);
    step.offsetB = offset;
    return prepareNarrowMatMul(step, operands, {}) != nullptr;
  };
  const MatMulCase taken{300, 2, 64};
  EXPECT_TRUE(isTaken(taken));
  EXPECT_FALSE(isTaken(taken, 1));
  MatMulCase c = taken;
  c.n = 9;
  EXPECT_FALSE(isTaken(c));
  c = taken;
  c.m = 200;
  EXPECT_FALSE(isTaken(c));
  c = taken;
  c.padding = 1;
  EXPECT_FALSE(isTaken(c));
  c = taken;
  c.batch = 2;
  EXPECT_FALSE(isTaken(c));
  c = taken;
  c.alpha = 2;
  EXPECT_FALSE(isTaken(c));
  c = taken;
  c.transA = true;
  EXPECT_FALSE(isTaken(c));
}

} // namespace
