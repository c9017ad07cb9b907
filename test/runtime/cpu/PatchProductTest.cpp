// Tests convolutions and gradients of filters as products of patches.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/OneDNNProvider.h"
#include "test/runtime/ConvCase.h"
#include "test/runtime/cpu/RunContraction.h"

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// For the workers of runAll. The first use of oneDNN fixes the instruction set
/// for all tests of the program, so select that of the target.
OneDNNConfig twoWorkers() {
  EXPECT_TRUE(OneDNNProvider::create(testFeatures()).ok());
  OneDNNConfig config;
  config.workers = 2;
  return config;
}

void expectPatchesCorrect(ConvCase c) {
  for (DType type : {DType::F32, DType::BF16, DType::F16}) {
    SCOPED_TRACE(nameOf(type));
    c.type = type;
    // The bounds do not hold for subnormal results.
    c.result = type == DType::F16 ? DType::F32 : type;
    const Conv conv(c);
    for (ConvKind kind : {ConvKind::Forward, ConvKind::WeightGrad}) {
      const bool isForward = kind == ConvKind::Forward;
      const Tensor result =
          Tensor::zeros(c.result, isForward ? conv.yShape : conv.wShape);
      ConvOperands operands{
          operandOf(conv.x), operandOf(conv.w), operandOf(conv.y), {}};
      (isForward ? operands.y : operands.w) = operandOf(result);
      auto made =
          preparePatchProduct(stepOf(conv, kind), operands, twoWorkers());
      ASSERT_TRUE(made.ok() && *made);
      // The operands, in their order, are where a loop of a plan finds them.
      const std::vector<void **> addresses = (*made)->addresses();
      EXPECT_EQ(*addresses[0], operands.x.data);
      EXPECT_EQ(*addresses[1], operands.w.data);
      EXPECT_EQ(*addresses[2], operands.y.data);
      runAll(**made);
      expectClose(result,
                  conv.reference(isForward ? "forward" : "weight_grad"));
    }
  }
}

TEST(PatchProduct, OneWindow) {
  expectPatchesCorrect(
      {3, 1, 20, 33, {4, 5}, {4, 5}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
}

TEST(PatchProduct, PaddingStridesAndDilations) {
  expectPatchesCorrect(
      {2, 1, 7, 9, {9, 8}, {3, 4}, {2, 3}, {2, 1}, {3, 1}, {1, 2}});
  expectPatchesCorrect({2, 1, 5, 7, {12}, {4}, {3}, {3}, {7}, {8}});
  expectPatchesCorrect({1,
                        1,
                        6,
                        300,
                        {4, 5, 6},
                        {2, 3, 3},
                        {2, 2, 3},
                        {1, 2, 1},
                        {1, 2, 1},
                        {0, 2, 4}});
  // Windows that lie in the padding.
  expectPatchesCorrect(
      {1, 1, 3, 4, {2, 2}, {2, 2}, {1, 1}, {1, 1}, {3, 3}, {3, 3}});
}

TEST(PatchProduct, EpilogueGetsEveryPixelOnce) {
  // The results of a pixel are several tiles of 256 channels.
  ConvCase c{2, 1, 16, 300, {7, 7}, {3, 3}, {3, 3}, {1, 1}, {0, 0}, {0, 0}};
  const Conv conv(c);
  Tensor added = Tensor::zeros(DType::F32, conv.yShape);
  ConvOperands operands = operandsOf(conv, ConvKind::Forward, added);
  operands.epilogue.function = addToBuffer;
  operands.epilogue.args = {added.bytes.data(), &c.outChannels};
  operands.y.data = nullptr;
  auto made = preparePatchProduct(stepOf(conv, ConvKind::Forward), operands,
                                  twoWorkers());
  ASSERT_TRUE(made.ok() && *made);
  runAll(**made);
  expectClose(added, conv.reference("forward"));
}

TEST(PatchProduct, LeavesOtherStepsToTheLibrary) {
  auto isTaken = [](const ConvCase &c, ConvKind kind, bool mustGain) {
    const Conv conv(c);
    const Operand operand;
    auto made = (mustGain ? prepareFasterPatchProduct : preparePatchProduct)(
        stepOf(conv, kind), {operand, operand, operand, {}}, {});
    EXPECT_TRUE(made.ok());
    return *made != nullptr;
  };
  const ConvCase c{2,      1,      128,    128,    {4, 4},
                   {4, 4}, {1, 1}, {1, 1}, {0, 0}, {0, 0}};
  EXPECT_TRUE(isTaken(c, ConvKind::Forward, false));
  EXPECT_FALSE(isTaken(c, ConvKind::InputGrad, false));
  ConvCase other = c;
  other.groups = 2;
  EXPECT_FALSE(isTaken(other, ConvKind::Forward, false));

  EXPECT_EQ(isTaken(c, ConvKind::Forward, true), !hostHasAVX512());
  EXPECT_EQ(isTaken(c, ConvKind::WeightGrad, true), !hostHasAVX512());
  other = c;
  other.inChannels = 64; // small filters
  EXPECT_FALSE(isTaken(other, ConvKind::Forward, true));
  other = c;
  other.inSpatial = {9, 9}; // 72 pixels
  EXPECT_FALSE(isTaken(other, ConvKind::Forward, true));
}

} // namespace
