// Tests the weight gradients of convolutions with few channels.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/OneDNNProvider.h"
#include "test/runtime/ConvCase.h"
#include "test/runtime/cpu/RunContraction.h"

#include <limits>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

std::unique_ptr<Contraction> preparePlanar(const Conv &conv,
                                           const Tensor &result) {
  return preparePlanarWeightGrad(
      stepOf(conv, ConvKind::WeightGrad),
      {operandOf(conv.x), operandOf(result), operandOf(conv.y), {}}, {});
}

void expectPlanarCorrect(ConvCase c, int64_t slices) {
  for (DType type : {DType::F32, DType::BF16, DType::F16}) {
    SCOPED_TRACE(nameOf(type));
    c.type = type;
    // The bounds do not hold for subnormal results.
    c.result = type == DType::F16 ? DType::F32 : type;
    const Conv conv(c);
    const Tensor result = Tensor::zeros(c.result, conv.wShape);
    auto made = preparePlanar(conv, result);
    ASSERT_TRUE(made);
    EXPECT_EQ(made->phases(), (std::vector<int64_t>{slices, 1}));
    // The operands, in their order, are where a loop of a plan finds them.
    const std::vector<void **> addresses = made->addresses();
    EXPECT_EQ(*addresses[0], operandOf(conv.x).data);
    EXPECT_EQ(*addresses[1], operandOf(result).data);
    EXPECT_EQ(*addresses[2], operandOf(conv.y).data);
    runAll(*made);
    expectClose(result, conv.reference("weight_grad"));
  }
}

TEST(PlanarWeightGrad, OneChannel) {
  expectPlanarCorrect(
      {2, 1, 1, 1, {7, 64}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, 1);
  expectPlanarCorrect({3, 1, 1, 1, {61}, {12}, {1}, {1}, {0}, {3}}, 1);
}

TEST(PlanarWeightGrad, PlanesOfChannels) {
  for (int64_t channels : {2, 3, 4})
    expectPlanarCorrect(
        {2, 1, channels, 2, {6, 53}, {2, 5}, {1, 1}, {1, 1}, {1, 2}, {0, 2}},
        1);
}

TEST(PlanarWeightGrad, PaddingStridesAndDilations) {
  expectPlanarCorrect(
      {2, 1, 2, 1, {9, 60}, {3, 4}, {2, 1}, {3, 5}, {4, 9}, {1, 2}}, 1);
  expectPlanarCorrect({2,
                       1,
                       2,
                       2,
                       {4, 5, 50},
                       {3, 2, 3},
                       {1, 2, 1},
                       {1, 2, 1},
                       {1, 1, 1},
                       {1, 0, 1}},
                      1);
  // Windows that lie in the padding.
  expectPlanarCorrect(
      {1, 1, 1, 2, {2, 3}, {2, 2}, {1, 1}, {1, 1}, {3, 60}, {3, 3}}, 1);
}

TEST(PlanarWeightGrad, SlicesAreRowsOfTheBatch) {
  expectPlanarCorrect(
      {3, 1, 1, 1, {43, 256}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}}, 7);
}

TEST(PlanarWeightGrad, InfinityOutsideAWindowLeavesItsTapFinite) {
  // The last pixel belongs to the windows of the last tap only.
  const Conv conv({1, 1, 1, 1, {66}, {3}, {1}, {1}, {0}, {0}});
  const float infinity = std::numeric_limits<float>::infinity();
  std::memcpy(operandOf(conv.x).at(65), &infinity, sizeof(infinity));
  const Tensor result = Tensor::zeros(DType::F32, conv.wShape);
  auto made = preparePlanar(conv, result);
  ASSERT_TRUE(made);
  runAll(*made);
  const std::vector<double> values = toDoubles(result);
  EXPECT_TRUE(std::isfinite(values[0]) && std::isfinite(values[1]));
  EXPECT_TRUE(std::isinf(values[2]));
}

TEST(PlanarWeightGrad, LeavesOtherStepsToTheLibrary) {
  auto isTaken = [](const ConvCase &c, ConvKind kind = ConvKind::WeightGrad) {
    return preparePlanarWeightGrad(stepOf(Conv(c), kind), {}, {}) != nullptr;
  };
  const ConvCase c{1, 1, 4, 2, {4, 50}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  EXPECT_TRUE(isTaken(c));
  EXPECT_FALSE(isTaken(c, ConvKind::Forward));
  ConvCase other = c;
  other.groups = 2;
  EXPECT_FALSE(isTaken(other));
  other = c;
  other.inChannels = 5;
  EXPECT_FALSE(isTaken(other));
  other = c;
  other.outChannels = 3;
  EXPECT_FALSE(isTaken(other));
  other = c;
  other.inSpatial = {50, 20}; // short rows
  EXPECT_FALSE(isTaken(other));
  other = c;
  other.strides = {1, 2};
  other.inSpatial = {4, 200};
  EXPECT_FALSE(isTaken(other));
  other.strides = {2, 1};
  EXPECT_TRUE(isTaken(other));

  // Rows in scratch would be too large.
  ConvStep step = stepOf(Conv(c), ConvKind::WeightGrad);
  step.dilations = {1, int64_t(1) << 40};
  EXPECT_FALSE(preparePlanarWeightGrad(step, {}, {}));
  step.dilations = {int64_t(1) << 40, 1};
  EXPECT_FALSE(preparePlanarWeightGrad(step, {}, {}));
}

TEST(PlanarWeightGrad, LeavesPairsOfOneChannelToTheLibrary) {
  OneDNNConfig config;
  config.nativeBF16 = true;
  auto isTaken = [&](int64_t channels, int64_t filters, DType type) {
    const Conv conv({1, 1, channels, filters, {64}, {3}, {1}, {1}, {1}, {1}});
    const Operand operand{type, nullptr};
    return preparePlanarWeightGrad(stepOf(conv, ConvKind::WeightGrad),
                                   {operand, operand, operand, {}},
                                   config) != nullptr;
  };
  EXPECT_FALSE(isTaken(1, 2, DType::BF16));
  EXPECT_TRUE(isTaken(1, 2, DType::F32));
  EXPECT_TRUE(isTaken(1, 1, DType::BF16));
  EXPECT_TRUE(isTaken(2, 2, DType::BF16));
}

} // namespace
