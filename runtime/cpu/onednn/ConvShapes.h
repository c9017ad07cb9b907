// Describes convolutions to oneDNN, and finds properties of their shapes on
// which oneDNN's correctness and speed depend.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_ONEDNN_CONVSHAPES_H
#define MPC_RUNTIME_CPU_ONEDNN_CONVSHAPES_H

#include "runtime/Plan.h"
#include "runtime/cpu/onednn/OneDNN.h"

namespace mpc::runtime {

/// An image of at least this many bytes is large.
constexpr int64_t kLargeImageBytes = 1 << 20;

/// True if, along every axis, at least one window lies within the image,
/// without padding. False, for example, for 3 taps at stride 2 over 3 pixels
/// with 1 pixel of padding on either side.
///
/// If no window does, oneDNN's convolution kernels compute wrong gradients for
/// some taps (oneDNN 2.6: bf16 of any rank, f32 of three axes), or write past
/// the end of the result. If the weights have the output channels last, oneDNN
/// multiplies matrices in f32 instead, and the result is right.
bool hasWholeWindows(const ConvStep &step);

/// True if a stride, a padding or the distance between the first and last tap
/// exceeds a million pixels. In bf16, oneDNN then takes minutes for a weight
/// gradient, although most of the work is padding. With AMX tiles, oneDNN fails
/// to prepare the input gradient, or writes past the end of the result (oneDNN
/// 3.2).
bool isFarApart(const ConvStep &step);

/// Returns the number of groups to convolve at once. In NHWC, the groups of a
/// pixel are adjacent, and oneDNN reads the whole image again for each group.
/// If the image is large, a slice first copies the channels of some groups, few
/// enough to fit the cache. Forward convolutions are divided only if strides
/// leave at most half as many pixels: otherwise copying the results takes as
/// long as the division saves.
int64_t groupsAtOnce(const ConvStep &step, DType type);

/// Returns `step` without the spatial axes that have one pixel and one tap, but
/// with at least one axis. Operands stay as they are. oneDNN's loops run along
/// the last axis: an image of 512 x 1 pixels, which exporters write for a
/// sequence, took two to five times as long as a sequence of 512.
ConvStep dropUnitAxes(const ConvStep &step);

/// Returns `step` with only `groups` of its groups.
ConvStep cutGroups(ConvStep step, int64_t groups);

/// The shapes and layouts of a step as oneDNN's types.
struct ConvGeometry {
  dnnl::memory::dims weights, strides, dilations, padsBegin, padsEnd;
  dnnl::memory::format_tag imageTag, weightsTag, channelsLastTag;
  dnnl::memory::format_tag blockedTags[2]; ///< blocks of 8, and of 16 channels
  int64_t xElements = 1, yElements = 1;    ///< elements of one image
  int64_t xPixels = 1, yPixels = 1;        ///< pixels of one image
  int64_t wElements = 1;

  explicit ConvGeometry(const ConvStep &step);
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_ONEDNN_CONVSHAPES_H
