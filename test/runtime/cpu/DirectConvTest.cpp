// Tests the direct routine for convolutions and gradients of images that the
// library is slow at, over all kinds of steps.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/ConvCase.h"
#include "test/runtime/cpu/RunContraction.h"

#include <cstring>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// Runs a step directly. The epilogue, if any, consumes the result.
Tensor runDirectly(const Conv &conv, ConvKind kind,
                   EpilogueCall epilogue = {}) {
  Tensor result = Tensor::zeros(
      conv.c.result, kind == ConvKind::Forward ? conv.yShape : conv.xShape);
  ConvOperands operands = operandsOf(conv, kind, result);
  operands.epilogue = std::move(epilogue);
  auto made = prepareDirectConv(stepOf(conv, kind), operands);
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
    expectClose(runDirectly(conv, ConvKind::Forward),
                conv.reference("forward"));
    expectClose(runDirectly(conv, ConvKind::InputGrad),
                conv.reference("input_grad"));
  }
}

TEST(DirectConv, LanesAreFilters) {
  expectBothDirectlyCorrect(
      {2, 1, 20, 33, {9, 11}, {3, 5}, {1, 1}, {1, 1}, {1, 2}, {1, 2}});
  expectBothDirectlyCorrect(
      {2, 2, 34, 40, {9, 8}, {3, 2}, {2, 3}, {1, 2}, {0, 1}, {2, 0}});
}

TEST(DirectConv, LanesAreGroups) {
  expectBothDirectlyCorrect(
      {2, 40, 40, 40, {9, 11}, {5, 3}, {1, 1}, {1, 1}, {2, 1}, {2, 1}});
  expectBothDirectlyCorrect(
      {2, 24, 48, 72, {13, 12}, {3, 3}, {2, 2}, {2, 2}, {2, 2}, {2, 2}});
}

TEST(DirectConv, OneAndThreeDimensions) {
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
  epilogue.function = [](void *const *args, int64_t rowBegin, int64_t rowEnd,
                         int64_t columnBegin, int64_t columnEnd,
                         int64_t leading) {
    addToBuffer(args, rowBegin, rowEnd, columnBegin, columnEnd, leading);
  };
  epilogue.args = {added.bytes.data(), &columns};
  runDirectly(conv, ConvKind::Forward, epilogue);
  EXPECT_EQ(added.bytes, expected.bytes);
}

TEST(DirectConv, TakesNoGradientsOfFiltersAndNoRowsThatAreTooLong) {
  const Conv conv({1, 1, 8, 8, {9}, {2}, {1}, {1}, {0}, {0}});
  const Operand none;
  const ConvOperands operands{none, none, none, {}};
  EXPECT_TRUE(prepareDirectConv(stepOf(conv, ConvKind::Forward), operands));
  EXPECT_FALSE(prepareDirectConv(stepOf(conv, ConvKind::WeightGrad), operands));
  ConvStep step = stepOf(conv, ConvKind::Forward);
  step.inSpatial = {int64_t(1) << 21};
  step.dilations = {int64_t(1) << 20};
  step.outSpatial = {int64_t(1) << 20};
  EXPECT_FALSE(prepareDirectConv(step, operands));
}

} // namespace
