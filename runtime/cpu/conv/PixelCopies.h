// Copies some channels of pixels between an image and scratch memory. In
// scratch, pixels have only these channels, padded to a given width.
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

/// Copies pixels to scratch: widens the channels of each pixel (f32, bf16 or
/// f16) to floats, and fills up with zeros to `width` floats.
void widenPixels(DType type, const void *source, const PixelChannels &from,
                 float *result, int64_t width);

/// Copies pixels to scratch: the 16-bit channels of each pixel, filled up with
/// zeros to `width` elements.
void copyPixels(const uint16_t *source, const PixelChannels &from,
                uint16_t *result, int64_t width);

/// Copies pixels from scratch: rounds the first `to.channels` of the `width`
/// floats of each pixel to f32, bf16 or f16.
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
