// Images in JPEG and PNG files as pixels, and their size changed.
//
// Files are hostile until proven otherwise: sizes are checked before anything
// is allocated, and what is damaged is an error.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_IMAGE_H
#define MPC_RUNTIME_TRAIN_DATA_IMAGE_H

#include "runtime/Status.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace mpc::runtime::train {

/// 8-bit pixels, row by row, the 1 or 3 channels of a pixel side by side.
struct Image {
  int64_t width = 0, height = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

/// The most pixels that an image may have, whatever its file is like.
inline constexpr int64_t kMaxPixels = int64_t(1) << 27;

/// The image of a JPEG or PNG file in RGB. Grey is three equal channels,
/// transparency is left out, 16 bits are cut to 8: what Pillow's
/// `convert("RGB")` does.
StatusOr<Image> decodeImage(std::string_view bytes);

/// The numbers of a PNG file's pixels, in one channel: indices of its palette,
/// or grey as it is, of at most 8 bits. What Pillow gives an array of.
StatusOr<Image> decodeMask(std::string_view bytes);

/// Whether the file begins as an image that decodeImage takes; reads no pixels.
Status checkImage(std::string_view bytes);

/// RGB as brightness, by the weights of ITU-R 601: Pillow's `convert("L")`.
Image toGrey(const Image &image);

/// Another size, bilinear over all pixels that a new one covers: what Pillow
/// and torchvision's Resize do, to the bit.
Image resize(const Image &image, int64_t width, int64_t height);

/// Another size, each pixel that of the nearest old one, which makes no numbers
/// that were not there: Pillow's NEAREST.
Image resizeNearest(const Image &image, int64_t width, int64_t height);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_IMAGE_H
