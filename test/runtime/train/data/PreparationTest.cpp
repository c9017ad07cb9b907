// Tests preparation of samples: numbers and flags.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/train/Support.h"

#include "runtime/train/data/Dataset.h"
#include "runtime/train/data/Preparation.h"

#include <cstring>
#include <numeric>
#include <set>

namespace mpc::runtime::train {
namespace {

void expectUsage(const std::vector<std::string> &normalize,
                 const std::vector<std::string> &layouts,
                 const std::string &augment, const std::string &text) {
  expectFailure(parsePreparation(normalize, layouts, augment, 0).status(),
                StatusCode::Usage, text);
}

TEST(Preparation, ReadsTheFlags) {
  StatusOr<Preparation> result = parsePreparation(
      {"x=0.5,0.25:2", "y=0:1"}, {"channels-last"}, "crop:4,flip", 7);
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->normalize[0].input, "x");
  EXPECT_EQ(result->normalize[0].mean, (std::vector<double>{0.5, 0.25}));
  EXPECT_EQ(result->normalize[0].deviation, std::vector<double>{2});
  EXPECT_TRUE(result->layouts[0].channelsLast);
  ASSERT_EQ(result->augment.steps.size(), 2u);
  EXPECT_EQ(result->augment.steps[0].padding, 4);
  EXPECT_EQ(result->augment.seed, 7u);
  EXPECT_EQ(result->text,
            "; --normalize x=0.5,0.25:2; --normalize y=0:1; --input-layout "
            "channels-last; --augment crop:4,flip");
}

TEST(Preparation, KnowsTheNumbersOfImageNet) {
  const auto named = parsePreparation({"x=imagenet"}, {}, "", 0);
  ASSERT_TRUE(named.ok()) << named.status().message();
  EXPECT_EQ(named->normalize[0].input, "x");
  EXPECT_EQ(named->normalize[0].mean,
            (std::vector<double>{0.485, 0.456, 0.406}));
  const auto spelt =
      parsePreparation({"x=0.485,0.456,0.406:0.229,0.224,0.225"}, {}, "", 0);
  EXPECT_EQ(named->text, spelt->text);
  expectUsage({"imagenette"}, {}, "", "or imagenet");
}

TEST(Preparation, SaysWhatItExpected) {
  for (const char *text : {"0.5", "0.5:0", "0.5:-1", "a:1", "nan:1", "0:inf",
                           "1:2:3", "0,:1", "", "x="})
    expectUsage({text}, {}, "", "expected [NAME=]MEAN:STD");
  expectUsage({"1,2,3:1,2"}, {}, "", "as many means as deviations, or one");
  expectUsage({"0:1", "1:1"}, {}, "", "expected each input once");
  expectUsage({}, {"NHWC"}, "", "channels-first or [NAME=]channels-last");
  for (const char *text : {"flop", "crop", "crop:0", "crop:-1", "crop:x",
                           "flip,", "crop:99999999999999999999"})
    expectUsage({}, {}, text, "flip, crop:PADDING");
  expectUsage({}, {}, "flip,flip", "expected each change once");
}

TEST(Preparation, TurnsChannels) {
  // Two channels of 1x3 pixels, channels last.
  const std::vector<uint16_t> last{1, 2, 3, 4, 5, 6};
  std::vector<uint16_t> first(6);
  turnChannels(reinterpret_cast<const std::byte *>(last.data()), {2, 1, 3}, 2,
               reinterpret_cast<std::byte *>(first.data()));
  EXPECT_EQ(first, (std::vector<uint16_t>{1, 3, 5, 2, 4, 6}));
}

TEST(Preparation, NormalizesAlongTheChannels) {
  std::vector<float> sample{0, 255, 51, 102};
  const Normalization normalization{"", {0, 0.5}, {1, 0.5}};
  normalizeSample(sample.data(), {2, 2}, 0, /*isU8=*/true, normalization);
  EXPECT_EQ(sample, (std::vector<float>{0, 1, (51 / 255.0f - 0.5f) / 0.5f,
                                        (102 / 255.0f - 0.5f) / 0.5f}));
  std::vector<double> last{1, 2, 3, 4};
  normalizeSample(last.data(), {2, 2}, 1, /*isU8=*/false, normalization);
  EXPECT_EQ(last, (std::vector<double>{1, 3, 3, 7}));
}

/// The image of 4x5 pixels 1, 2, ... as augmented by random number `draw`.
std::vector<uint8_t> augmented(const std::string &flags, uint64_t draw,
                               bool channelsLast = false) {
  const Augmentation augmentation = parsePreparation({}, {}, flags, 0)->augment;
  std::vector<uint8_t> image(20);
  std::iota(image.begin(), image.end(), uint8_t(1));
  augmentImage(reinterpret_cast<std::byte *>(image.data()),
               {1, 4, 5, channelsLast}, 1, augmentation,
               Generator(3, Stream::Augmentation, draw));
  return image;
}

TEST(Preparation, FlipsHalfOfTheImages) {
  const std::vector<uint8_t> same{1,  2,  3,  4,  5,  6,  7,  8,  9,  10,
                                  11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
  const std::vector<uint8_t> flipped{5,  4,  3,  2,  1,  10, 9,  8,  7,  6,
                                     15, 14, 13, 12, 11, 20, 19, 18, 17, 16};
  int64_t flips = 0;
  for (uint64_t draw = 0; draw < 1000; ++draw) {
    const std::vector<uint8_t> image = augmented("flip", draw);
    ASSERT_TRUE(image == same || image == flipped);
    flips += image == flipped;
  }
  EXPECT_GT(flips, 450);
  EXPECT_LT(flips, 550);
}

TEST(Preparation, CropsMoveTheImageAndFillWithZeros) {
  std::set<std::vector<uint8_t>> seen;
  for (uint64_t draw = 0; draw < 500; ++draw) {
    const std::vector<uint8_t> image = augmented("crop:1", draw);
    EXPECT_EQ(image, augmented("crop:1", draw, /*channelsLast=*/true));
    seen.insert(image);
  }
  // Three positions down, three across.
  EXPECT_EQ(seen.size(), 9u);
  const std::vector<uint8_t> upLeft{0, 0, 0, 0, 0, 0, 1,  2,  3,  4,
                                    0, 6, 7, 8, 9, 0, 11, 12, 13, 14};
  EXPECT_EQ(seen.count(upLeft), 1u);
}

TEST(Preparation, ChangesAllChannelsAlike) {
  const Augmentation augmentation =
      parsePreparation({}, {}, "crop:2,flip", 0)->augment;
  std::vector<float> first(24), last(24);
  for (int64_t i = 0; i < 12; ++i)
    for (int64_t c = 0; c < 2; ++c)
      first[size_t(c * 12 + i)] = last[size_t(i * 2 + c)] =
          float(i + 1 + 100 * c);
  const Generator random(1, Stream::Augmentation, 5);
  augmentImage(reinterpret_cast<std::byte *>(first.data()), {2, 3, 4, false}, 4,
               augmentation, random);
  augmentImage(reinterpret_cast<std::byte *>(last.data()), {2, 3, 4, true}, 4,
               augmentation, random);
  for (int64_t i = 0; i < 12; ++i)
    for (int64_t c = 0; c < 2; ++c)
      EXPECT_EQ(first[size_t(c * 12 + i)], last[size_t(i * 2 + c)]);
}

TEST(Preparation, ALayoutOfARowOfFeaturesHasNoEffect) {
  const FunctionPorts ports{{{"x", Role::Data, DType::F32, {1, 6}}}, {}};
  DatasetOptions options;
  options.preparation = *parsePreparation({}, {"channels-last"}, "", 0);
  StatusOr<Dataset> data = Dataset::create(
      {makeArray<float>("x", ElementType::F32, {1, 6}, {0, 1, 2, 3, 4, 5})},
      ports, options);
  ASSERT_FALSE(data.ok());
  EXPECT_EQ(data.status().getCode(), StatusCode::Usage);
  EXPECT_NE(data.status().message().find("--input-layout: input 'x'"),
            std::string::npos);
}

} // namespace
} // namespace mpc::runtime::train
