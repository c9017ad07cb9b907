// Tests what the runtime finds in the shapes of convolutions.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/ConvShapes.h"
#include "test/runtime/ConvCase.h"

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// The step of a case, without operands: some cases are huge.
ConvStep stepOf(const ConvCase &c, ConvKind kind = ConvKind::WeightGrad) {
  ConvStep step;
  step.kind = kind;
  step.batch = c.batch;
  step.groups = c.groups;
  step.inChannels = c.inChannels;
  step.outChannels = c.outChannels;
  step.inSpatial = c.inSpatial;
  step.kernel = c.kernel;
  step.strides = c.strides;
  step.dilations = c.dilations;
  step.padsBegin = c.padsBegin;
  step.padsEnd = c.padsEnd;
  for (size_t d = 0; d < c.kernel.size(); ++d)
    step.outSpatial.push_back((c.inSpatial[d] + c.padsBegin[d] + c.padsEnd[d] -
                               c.dilations[d] * (c.kernel[d] - 1) - 1) /
                                  c.strides[d] +
                              1);
  return step;
}

TEST(ConvShapes, WholeWindowsLieWithoutPadding) {
  EXPECT_TRUE(
      hasWholeWindows(stepOf({1, 1, 1, 1, {3}, {3}, {1}, {1}, {1}, {1}})));
  // Windows begin at -1 and at 1, of pixels 0 to 2.
  EXPECT_FALSE(
      hasWholeWindows(stepOf({1, 1, 1, 1, {3}, {3}, {2}, {1}, {1}, {1}})));
  EXPECT_TRUE(
      hasWholeWindows(stepOf({1, 1, 1, 1, {4}, {3}, {2}, {1}, {1}, {1}})));
  // Every axis must have one.
  EXPECT_FALSE(hasWholeWindows(
      stepOf({1, 1, 1, 1, {9, 3}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}})));
}

TEST(ConvShapes, AxesOfOnePixelAndOneTapAreDropped) {
  const ConvStep sequence = dropUnitAxes(
      stepOf({2, 1, 3, 4, {9, 1}, {3, 1}, {2, 5}, {1, 7}, {1, 0}, {2, 0}}));
  EXPECT_EQ(sequence.inSpatial, (std::vector<int64_t>{9}));
  EXPECT_EQ(sequence.outSpatial, (std::vector<int64_t>{5}));
  EXPECT_EQ(sequence.kernel, (std::vector<int64_t>{3}));
  EXPECT_EQ(sequence.strides, (std::vector<int64_t>{2}));
  EXPECT_EQ(sequence.dilations, (std::vector<int64_t>{1}));
  EXPECT_EQ(sequence.padsBegin, (std::vector<int64_t>{1}));
  EXPECT_EQ(sequence.padsEnd, (std::vector<int64_t>{2}));
  const ConvStep image = dropUnitAxes(stepOf({2,
                                              1,
                                              3,
                                              4,
                                              {9, 1, 8},
                                              {3, 1, 2},
                                              {1, 1, 1},
                                              {1, 1, 1},
                                              {0, 0, 0},
                                              {0, 0, 0}}));
  EXPECT_EQ(image.inSpatial, (std::vector<int64_t>{9, 8}));

  auto axesOf = [](const ConvCase &c) {
    return dropUnitAxes(stepOf(c)).kernel.size();
  };
  // Padding gives three pixels, and taps lie in the padding.
  EXPECT_EQ(
      axesOf({1, 1, 1, 1, {9, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 1}, {0, 1}}), 2);
  EXPECT_EQ(
      axesOf({1, 1, 1, 1, {9, 1}, {1, 3}, {1, 1}, {1, 1}, {0, 1}, {0, 1}}), 2);
  // One axis stays.
  EXPECT_EQ(
      axesOf({1, 1, 1, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}}), 1);
}

TEST(ConvShapes, FarApartIsBeyondAMillionPixels) {
  const int64_t far = int64_t(1) << 20;
  EXPECT_FALSE(
      isFarApart(stepOf({1, 1, 1, 1, {3}, {1}, {far}, {1}, {0}, {0}})));
  EXPECT_TRUE(
      isFarApart(stepOf({1, 1, 1, 1, {3}, {1}, {far + 1}, {1}, {0}, {0}})));
  EXPECT_TRUE(
      isFarApart(stepOf({1, 1, 1, 1, {3}, {2}, {1}, {far + 1}, {far}, {far}})));
}

TEST(ConvShapes, GroupsOfLargeImagesAreCutToTheCache) {
  // An image of 4 MiB in 32 groups.
  const ConvCase c{1,      32,     256,    256,    {64, 64},
                   {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}};
  // A group has 128 KiB.
  EXPECT_EQ(groupsAtOnce(stepOf(c), DType::F32), 4);
  EXPECT_EQ(groupsAtOnce(stepOf(c, ConvKind::Forward), DType::F32), 4);
  EXPECT_EQ(groupsAtOnce(stepOf(c, ConvKind::InputGrad), DType::F32), 32);
  // Copies of the results would take as long as the cut saves.
  ConvCase dense = c;
  dense.strides = {1, 1};
  EXPECT_EQ(groupsAtOnce(stepOf(dense, ConvKind::Forward), DType::F32), 32);
  ConvCase small = c;
  small.inSpatial = {16, 16};
  EXPECT_EQ(groupsAtOnce(stepOf(small), DType::F32), 32);

  const ConvStep cut = cutGroups(stepOf(c), 4);
  EXPECT_EQ(cut.groups, 4);
  EXPECT_EQ(cut.inChannels, 32);
  EXPECT_EQ(cut.outChannels, 32);
}

} // namespace
