// Reads a part of the channels of images, such as the channels of some groups.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONV_IMAGEPARTS_H
#define MPC_RUNTIME_CPU_CONV_IMAGEPARTS_H

#include "runtime/cpu/Contraction.h"

namespace mpc::runtime {

/// A part of the channels of images: channels [first, first + channels) of
/// pixels that have `step` channels.
struct ImagePart {
  const Operand *operand;
  int64_t pixels, channels, first, step;

  std::byte *at(int64_t image, int64_t pixel = 0) const {
    return operand->at((image * pixels + pixel) * step + first);
  }
};

/// Returns `count` images of `part` from image `first` on, with elements of
/// `type`. If the channels are not adjacent or have another type, copies or
/// widens the images to `room`.
const void *loadImages(const ImagePart &part, DType type, int64_t first,
                       int64_t count, std::byte *room);

/// Copies `count` images of `part` from image `first` on to `room`, as f32 in
/// blocks of `width` channels: [image][block][pixel][channel].
const void *loadBlocked(const ImagePart &part, int64_t first, int64_t count,
                        int64_t width, std::byte *room);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONV_IMAGEPARTS_H
