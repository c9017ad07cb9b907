// Channels of pixels copied out of images, to the width that a routine has
// pixels of.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONV_PIXELCOPIES_H
#define MPC_RUNTIME_CPU_CONV_PIXELCOPIES_H

#include "runtime/Tensor.h"

namespace mpc::runtime {

/// Some channels of some pixels, and the elements from one pixel to the next.
struct PixelChannels {
  int64_t pixels, channels, step;
};

/// Writes pixels of `width` floats: the channels of f32, bf16 or f16 widened,
/// then zeros.
void widenPixels(DType type, const void *source, const PixelChannels &from,
                 float *result, int64_t width);

/// Copies channels of 16 bits, then zeros.
void copyPixels(const uint16_t *source, const PixelChannels &from,
                uint16_t *result, int64_t width);

/// Rounds the first channels of pixels of `width` floats to f32, bf16 or f16.
void narrowPixels(DType type, const float *source, int64_t width,
                  const PixelChannels &to, void *result);

/// Channel c of group g of pixel p goes to c * channelStep + p * pixelStep + g.
struct GroupLanes {
  static constexpr int64_t kLanes = 16;
  int64_t channelStep, pixelStep;
};

/// Widens pixels of `groups` groups, `from.channels` channels each, to lanes.
/// Lanes without a group are zeros. `run` has room for a pixel.
void widenGroups(DType type, const void *source, const PixelChannels &from,
                 int64_t groups, float *run, float *result,
                 const GroupLanes &to);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONV_PIXELCOPIES_H
