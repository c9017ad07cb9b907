// Copies some channels of pixels between images and scratch, where pixels have
// another width.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONV_PIXELCOPIES_H
#define MPC_RUNTIME_CPU_CONV_PIXELCOPIES_H

#include "runtime/Tensor.h"

namespace mpc::runtime {

/// `channels` channels of `pixels` pixels in an image. Pixels are `step`
/// elements apart.
struct PixelChannels {
  int64_t pixels, channels, step;
};

/// Writes pixels of `width` floats: the channels (f32, bf16 or f16), widened,
/// then zeros.
void widenPixels(DType type, const void *source, const PixelChannels &from,
                 float *result, int64_t width);

/// Writes pixels of `width` 16-bit elements: the channels, then zeros.
void copyPixels(const uint16_t *source, const PixelChannels &from,
                uint16_t *result, int64_t width);

/// Rounds the first `to.channels` channels of pixels of `width` floats to f32,
/// bf16 or f16.
void narrowPixels(DType type, const float *source, int64_t width,
                  const PixelChannels &to, void *result);

/// A layout with groups in lanes. Channel c of group g of pixel p goes to
/// c * channelStep + p * pixelStep + g.
struct GroupLanes {
  static constexpr int64_t kLanes = 16;
  int64_t channelStep, pixelStep;
};

/// Widens pixels of `groups` groups, `from.channels` channels each, to lanes.
/// Lanes without a group are zeros. `run` is scratch for one pixel.
void widenGroups(DType type, const void *source, const PixelChannels &from,
                 int64_t groups, float *run, float *result,
                 const GroupLanes &to);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONV_PIXELCOPIES_H
