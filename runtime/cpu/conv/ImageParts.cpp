// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/conv/ImageParts.h"
#include "runtime/cpu/conv/PixelCopies.h"

namespace mpc::runtime {

const void *loadImages(const ImagePart &part, DType type, int64_t first,
                       int64_t count, std::byte *room) {
  const DType from = part.operand->type;
  const bool isWhole = part.channels == part.step;
  if (isWhole && from == type)
    return part.at(first);
  const PixelChannels channels = {count * part.pixels, part.channels,
                                  part.step};
  if (from == type && type != DType::F32)
    copyPixels(reinterpret_cast<const uint16_t *>(part.at(first)), channels,
               reinterpret_cast<uint16_t *>(room), part.channels);
  else
    widenPixels(from, part.at(first), channels, reinterpret_cast<float *>(room),
                part.channels);
  return room;
}

const void *loadBlocked(const ImagePart &part, int64_t first, int64_t count,
                        int64_t width, std::byte *room) {
  constexpr int64_t kPixels = 64; // as the first cache holds
  const int64_t blocks = part.channels / width;
  auto *to = reinterpret_cast<float *>(room);
  for (int64_t image = first; image < first + count; ++image) {
    for (int64_t pixel = 0; pixel < part.pixels; pixel += kPixels)
      for (int64_t block = 0; block < blocks; ++block) {
        ImagePart channels = part;
        channels.first += block * width;
        widenPixels(part.operand->type, channels.at(image, pixel),
                    {std::min(kPixels, part.pixels - pixel), width, part.step},
                    to + (block * part.pixels + pixel) * width, width);
      }
    to += blocks * part.pixels * width;
  }
  return room;
}

} // namespace mpc::runtime
