// Decodes JPEG and PNG files to pixels, and resizes images.
//
// Files are untrusted: sizes are checked before anything is allocated, and
// damage is an error.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_TRAIN_DATA_IMAGE_H
#define MPC_RUNTIME_TRAIN_DATA_IMAGE_H

#include "runtime/Status.h"

#include <cstdint>
#include <string_view>
#include <vector>

namespace mpc::runtime::train {

/// 8-bit pixels, row by row, with the 1 or 3 channels of a pixel side by side.
struct Image {
  int64_t width = 0, height = 0, channels = 0;
  std::vector<uint8_t> pixels;
};

/// The largest number of pixels that an image may have.
inline constexpr int64_t kMaxPixels = int64_t(1) << 27;

/// Decodes a JPEG or PNG file to RGB like Pillow's `convert("RGB")`: grey
/// becomes three equal channels, transparency is dropped, and 16 bits are cut
/// to 8.
StatusOr<Image> decodeImage(std::string_view bytes);

/// Decodes a PNG mask to one channel with a number per pixel, like Pillow's
/// conversion to an array: the index of the palette, or grey of at most 8 bits.
StatusOr<Image> decodeMask(std::string_view bytes);

/// Checks the header of an image file: decodeImage must support the format and
/// the size. `bytes` may be only the beginning of the file. Decodes no pixels.
Status checkImage(std::string_view bytes);

/// Converts RGB to brightness by the weights of ITU-R 601, like Pillow's
/// `convert("L")`.
Image toGrey(const Image &image);

/// Resizes with a bilinear filter over all old pixels that a new pixel covers.
/// The result has the same bits as Pillow's and torchvision's Resize.
Image resize(const Image &image, int64_t width, int64_t height);

/// Resizes by taking the nearest old pixel, like Pillow's NEAREST, so that no
/// new numbers appear in a mask.
Image resizeNearest(const Image &image, int64_t width, int64_t height);

} // namespace mpc::runtime::train

#endif // MPC_RUNTIME_TRAIN_DATA_IMAGE_H
