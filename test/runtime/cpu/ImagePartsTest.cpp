// Tests copies of a part of the channels of images.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/conv/ImageParts.h"
#include "test/runtime/cpu/GuardedMemory.h"

#include <gtest/gtest.h>

#include <numeric>

using namespace mpc::runtime;
using namespace mpc::runtime::test;

namespace {

/// Two images of 70 pixels and 24 channels, with the numbers 0, 1, 2, ...
class ImageParts : public testing::Test {
protected:
  ImageParts() : floats(2 * kPixels * kChannels) {
    std::iota(floats.begin(), floats.end(), 0.0f);
  }
  float at(int64_t image, int64_t pixel, int64_t channel) const {
    return floats[size_t((image * kPixels + pixel) * kChannels + channel)];
  }

  static constexpr int64_t kPixels = 70, kChannels = 24;
  std::vector<float> floats;
  const Operand operand{DType::F32, floats.data()};
};

TEST_F(ImageParts, AllChannelsAreReadInPlace) {
  const ImagePart all = {&operand, kPixels, kChannels, 0, kChannels};
  EXPECT_EQ(loadImages(all, DType::F32, 1, 1, nullptr),
            floats.data() + kPixels * kChannels);
}

TEST_F(ImageParts, SomeChannelsAreCopied) {
  for (At end : {At::Start, At::End}) {
    const ImagePart part = {&operand, kPixels, 5, 8, kChannels};
    const Guarded room(kPixels * 5 * sizeof(float), end, std::byte{0xff});
    const auto *copy = static_cast<const float *>(
        loadImages(part, DType::F32, 1, 1, room.data));
    for (int64_t pixel = 0; pixel < kPixels; ++pixel)
      for (int64_t channel = 0; channel < 5; ++channel)
        EXPECT_EQ(copy[pixel * 5 + channel], at(1, pixel, 8 + channel));
    EXPECT_TRUE(room.isIntact());
  }
}

TEST_F(ImageParts, BlocksFollowEachOther) {
  for (At end : {At::Start, At::End}) {
    const ImagePart part = {&operand, kPixels, 16, 8, kChannels};
    const Guarded room(2 * kPixels * 16 * sizeof(float), end, std::byte{0xff});
    const auto *copy =
        static_cast<const float *>(loadBlocked(part, 0, 2, 8, room.data));
    for (int64_t image = 0; image < 2; ++image)
      for (int64_t block = 0; block < 2; ++block)
        for (int64_t pixel = 0; pixel < kPixels; ++pixel)
          for (int64_t channel = 0; channel < 8; ++channel)
            EXPECT_EQ(*copy++, at(image, pixel, 8 + block * 8 + channel));
    EXPECT_TRUE(room.isIntact());
  }
}

} // namespace
