// Tests convolutions and their gradients against float64 loops.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/ConvCase.h"

#include <random>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

void expectCorrect(const ConvCase &c, const std::string &kind) {
  SCOPED_TRACE(kind + " " + std::string(nameOf(c.type)) + " -> " +
               std::string(nameOf(c.result)));
  Conv conv(c);
  ArtifactBuilder builder;
  FunctionBuilder f = builder.function("step");
  conv.addTo(f, kind);
  expectClose(runOnThreads(builder, "result"), conv.reference(kind));
}

void expectAllKindsCorrect(ConvCase c) {
  for (DType type : {DType::F32, DType::BF16, DType::F16})
    for (const char *kind : {"forward", "input_grad", "weight_grad"}) {
      c.type = type;
      c.result = type;
      expectCorrect(c, kind);
    }
}

TEST(Conv, TwoDimensions) {
  expectAllKindsCorrect(
      {5, 1, 6, 16, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

TEST(Conv, FewAndManyChannels) {
  expectAllKindsCorrect(
      {3, 1, 1, 6, {12, 12}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}});
  expectAllKindsCorrect(
      {2, 1, 64, 32, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  expectAllKindsCorrect(
      {2, 1, 32, 48, {5, 5}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
}

// Gradients of filters read copies of images in blocks of channels: by AVX2 of
// any images, by AVX-512 of large ones.
TEST(Conv, WholeBlocksOfChannels) {
  expectAllKindsCorrect(
      {1, 1, 128, 16, {65, 64}, {1, 2}, {2, 2}, {1, 1}, {0, 1}, {0, 1}});
  expectAllKindsCorrect(
      {3, 1, 16, 24, {11, 9}, {3, 3}, {2, 1}, {1, 1}, {1, 0}, {1, 2}});
  expectAllKindsCorrect(
      {2, 2, 16, 32, {9, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  expectAllKindsCorrect({2, 1, 24, 8, {150}, {5}, {1}, {2}, {4}, {4}});
  expectAllKindsCorrect({1,
                         1,
                         8,
                         16,
                         {4, 5, 6},
                         {3, 2, 3},
                         {1, 1, 1},
                         {1, 1, 1},
                         {1, 0, 1},
                         {1, 1, 1}});
}

TEST(Conv, StridesDilationsAndUnevenPadding) {
  expectAllKindsCorrect(
      {2, 1, 8, 8, {11, 10}, {3, 2}, {2, 3}, {1, 1}, {0, 1}, {2, 0}});
  expectAllKindsCorrect(
      {2, 1, 16, 16, {11, 10}, {3, 3}, {1, 1}, {2, 2}, {2, 1}, {2, 3}});
  expectAllKindsCorrect(
      {2, 1, 16, 16, {10, 10}, {3, 3}, {2, 2}, {1, 1}, {0, 0}, {1, 1}});
}

// The largest that a plan allows: an input, its padding and the stride add up
// to 2^31 - 1.
TEST(Conv, PaddingStridesAndDilationsUpToTheLargest) {
  const int64_t most = (int64_t(1) << 31) - 1, half = int64_t(1) << 30;
  expectAllKindsCorrect(
      {1, 1, 8, 8, {1}, {1}, {half}, {1}, {0}, {most - half - 1}});
  expectAllKindsCorrect(
      {1, 1, 8, 8, {1}, {1}, {half}, {1}, {most - half - 1}, {0}});
  expectAllKindsCorrect(
      {1, 1, 8, 8, {1}, {2}, {1}, {most - 3}, {half - 2}, {half - 1}});
  expectAllKindsCorrect({1, 1, 8, 8, {3}, {1}, {most - 3}, {1}, {0}, {0}});
}

TEST(Conv, Groups) {
  expectAllKindsCorrect(
      {2, 2, 8, 12, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  expectAllKindsCorrect(
      {2, 16, 16, 16, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

// Channels of some groups are copied first.
TEST(Conv, GroupsOfLargeImages) {
  expectAllKindsCorrect(
      {1, 16, 64, 64, {92, 92}, {2, 1}, {2, 2}, {1, 1}, {1, 0}, {1, 0}});
  expectAllKindsCorrect({3, 5, 25, 35, {21000}, {1}, {3}, {1}, {1}, {2}});
}

// For these gradients the library has only scalar loops, or no depthwise kind.
TEST(Conv, WideFilters) {
  expectAllKindsCorrect(
      {2, 1, 8, 8, {5, 50}, {3, 39}, {1, 1}, {1, 1}, {1, 19}, {1, 19}});
  expectAllKindsCorrect(
      {2, 2, 6, 20, {3, 21}, {2, 17}, {1, 2}, {1, 1}, {0, 8}, {1, 8}});
  expectAllKindsCorrect(
      {2, 1, 5, 9, {34, 9}, {17, 5}, {1, 1}, {2, 2}, {16, 4}, {16, 4}});
  expectAllKindsCorrect(
      {2, 1, 32, 8, {17, 18}, {15, 15}, {1, 1}, {1, 1}, {7, 7}, {7, 7}});
}

TEST(Conv, WideDepthwiseFilters) {
  expectAllKindsCorrect(
      {2, 20, 20, 20, {9, 10}, {7, 7}, {1, 1}, {1, 1}, {3, 3}, {3, 3}});
  expectAllKindsCorrect(
      {2, 16, 16, 16, {16, 16}, {13, 31}, {1, 1}, {1, 1}, {6, 15}, {6, 15}});
  expectAllKindsCorrect(
      {2, 17, 17, 17, {12, 13}, {3, 5}, {2, 2}, {2, 2}, {2, 4}, {2, 4}});
  expectAllKindsCorrect({2, 16, 16, 16, {40}, {9}, {2}, {1}, {4}, {4}});
}

TEST(Conv, OneAndThreeDimensions) {
  expectAllKindsCorrect({3, 1, 5, 7, {17}, {4}, {2}, {1}, {1}, {2}});
  expectAllKindsCorrect({2,
                         1,
                         3,
                         4,
                         {5, 4, 6},
                         {2, 3, 3},
                         {1, 1, 2},
                         {1, 1, 1},
                         {0, 1, 1},
                         {1, 1, 1}});
}

TEST(Conv, AxesOfOnePixel) {
  expectAllKindsCorrect(
      {3, 1, 20, 18, {17, 1}, {4, 1}, {2, 3}, {1, 1}, {1, 0}, {2, 0}});
  expectAllKindsCorrect(
      {2, 2, 6, 8, {1, 12}, {1, 3}, {1, 1}, {1, 2}, {0, 2}, {0, 2}});
  expectAllKindsCorrect(
      {2, 1, 5, 7, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
}

TEST(Conv, PaddingThatReachesIntoEveryWindow) {
  // The last block of an image network, whose input is one pixel.
  expectAllKindsCorrect(
      {3, 1, 20, 33, {3, 1}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}});
  expectAllKindsCorrect({3, 1, 5, 7, {1}, {4}, {2}, {1}, {2}, {1}});
  // Grouped, and depthwise.
  expectAllKindsCorrect(
      {3, 2, 8, 12, {1, 3}, {3, 3}, {2, 1}, {1, 1}, {1, 1}, {1, 1}});
  expectAllKindsCorrect(
      {3, 16, 16, 16, {3, 1}, {3, 3}, {1, 2}, {1, 1}, {1, 1}, {1, 1}});
  // Three taps at stride 2 over 3 pixels.
  expectAllKindsCorrect({2,
                         1,
                         2,
                         4,
                         {3, 3, 3},
                         {3, 3, 3},
                         {2, 1, 1},
                         {1, 1, 1},
                         {1, 1, 1},
                         {1, 1, 1}});
  expectAllKindsCorrect({2,
                         1,
                         2,
                         4,
                         {4, 6, 4},
                         {4, 4, 4},
                         {2, 2, 2},
                         {1, 1, 1},
                         {1, 1, 1},
                         {1, 1, 1}});
  // Includes f32, with a depth of 2.
  expectAllKindsCorrect({2,
                         1,
                         2,
                         4,
                         {2, 3, 3},
                         {5, 3, 3},
                         {1, 1, 1},
                         {1, 1, 1},
                         {4, 1, 1},
                         {1, 1, 1}});
}

TEST(Conv, BatchesThatDoNotDivideIntoSlices) {
  expectAllKindsCorrect(
      {37, 1, 16, 16, {12, 12}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
}

TEST(Conv, NarrowOperandsWithAWideResult) {
  for (DType type : {DType::BF16, DType::F16})
    for (const char *kind : {"forward", "input_grad", "weight_grad"})
      expectCorrect({3,
                     1,
                     16,
                     16,
                     {6, 6},
                     {3, 3},
                     {1, 1},
                     {1, 1},
                     {1, 1},
                     {1, 1},
                     type,
                     DType::F32},
                    kind);
}

TEST(Conv, RandomGeometries) {
  std::mt19937 random(7);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  for (int i = 0; i < 40; ++i) {
    ConvCase c;
    c.batch = pick(1, 5);
    c.groups = pick(0, 2) ? 1 : pick(2, 4);
    c.inChannels = c.groups * pick(1, 20);
    c.outChannels = c.groups * pick(1, 20);
    for (int64_t d = 0, rank = pick(1, 2); d < rank; ++d) {
      c.kernel.push_back(pick(1, 4));
      c.strides.push_back(pick(1, 3));
      c.dilations.push_back(pick(1, 2));
      c.padsBegin.push_back(pick(0, 3));
      c.padsEnd.push_back(pick(0, 3));
      int64_t window = c.dilations.back() * (c.kernel.back() - 1) + 1;
      c.inSpatial.push_back(window + pick(0, 8));
    }
    SCOPED_TRACE("case " + std::to_string(i));
    expectAllKindsCorrect(c);
  }
}

TEST(Conv, EpilogueSeesEveryPixelOnce) {
  for (DType type : {DType::F32, DType::BF16, DType::F16}) {
    ConvCase c{19,     1,      8,      16,     {12, 11}, {3, 3},
               {1, 1}, {1, 1}, {1, 1}, {1, 1}, type};
    Conv conv(c);
    Tensor bias = randomTensor(DType::F32, {c.outChannels}, 4);
    Tensor columns = Tensor::zeros(DType::I64, {});
    *columns.as<int64_t>() = c.outChannels;
    ArtifactBuilder builder;
    FunctionBuilder f = builder.function("step");
    size_t out = f.arena(DType::F32, conv.yShape);
    Json step = conv.step("forward");
    step["x"] = f.constant(conv.x);
    step["w"] = f.constant(conv.w);
    step["epilogue"] = {{"kernel", "bias_relu"},
                        {"args", {f.constant(bias), out, f.constant(columns)}}};
    f.step(step);
    f.output("out", out);

    std::vector<DotProduct> expected = conv.reference("forward");
    std::vector<double> result = toDoubles(runOnThreads(builder, "out"));
    for (size_t i = 0; i < expected.size(); ++i) {
      expected[i].add(bias.as<float>()[i % static_cast<size_t>(c.outChannels)],
                      1);
      ASSERT_NEAR(result[i], std::max(expected[i].value, 0.0),
                  expected[i].bound(DType::F32))
          << i;
    }
  }
}

} // namespace
