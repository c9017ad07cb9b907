// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/onednn/ConvShapes.h"

#include <algorithm>

namespace mpc::runtime {

/// The bytes of an image that stay in a worker's cache, and the bytes of a
/// cache line.
static constexpr int64_t kCachedImageBytes = 512 << 10, kLineBytes = 64;

bool hasWholeWindows(const ConvStep &step) {
  for (size_t axis = 0; axis < step.kernel.size(); ++axis) {
    const int64_t window = step.dilations[axis] * (step.kernel[axis] - 1) + 1;
    // `first` is the start of the first window that does not begin in the
    // padding.
    const int64_t stride = step.strides[axis];
    const int64_t before = (step.padsBegin[axis] + stride - 1) / stride;
    const int64_t first = before * stride - step.padsBegin[axis];
    if (first + window > step.inSpatial[axis])
      return false;
  }
  return true;
}

bool isFarApart(const ConvStep &step) {
  constexpr int64_t kFar = int64_t(1) << 20;
  for (size_t axis = 0; axis < step.kernel.size(); ++axis)
    if (std::max({step.strides[axis], step.padsBegin[axis], step.padsEnd[axis],
                  step.dilations[axis] * (step.kernel[axis] - 1)}) > kFar)
      return true;
  return false;
}

int64_t groupsAtOnce(const ConvStep &step, DType type) {
  const int64_t in = step.inChannels / step.groups;
  const int64_t out = step.outChannels / step.groups;
  const int64_t inPixels = numElements(step.inSpatial);
  const int64_t outPixels = numElements(step.outSpatial);
  const int64_t group = sizeOf(type) * std::max(inPixels * in, outPixels * out);
  const bool isLarge = group * step.groups >= (step.kind == ConvKind::Forward
                                                   ? 2 * kLargeImageBytes
                                                   : kLargeImageBytes);
  const bool hasFewResults = inPixels >= 2 * outPixels;
  if (std::max(in, out) == 1 || !isLarge || step.kind == ConvKind::InputGrad ||
      (step.kind == ConvKind::Forward && !hasFewResults))
    return step.groups;
  int64_t atOnce = step.groups;
  for (int64_t count = step.groups; count > 0; --count) {
    if (step.groups % count != 0)
      continue;
    if (count * std::min(in, out) * sizeOf(type) < kLineBytes)
      break;
    atOnce = count;
    if (count * group <= kCachedImageBytes)
      break;
  }
  return atOnce;
}

ConvStep dropUnitAxes(const ConvStep &step) {
  ConvStep kept = step;
  std::vector<int64_t> *lists[] = {
      &kept.inSpatial, &kept.outSpatial, &kept.kernel, &kept.strides,
      &kept.dilations, &kept.padsBegin,  &kept.padsEnd};
  for (size_t axis = step.kernel.size(); axis-- > 0;) {
    const bool isUnit = step.inSpatial[axis] == 1 &&
                        step.outSpatial[axis] == 1 && step.kernel[axis] == 1 &&
                        step.padsBegin[axis] == 0 && step.padsEnd[axis] == 0;
    if (!isUnit || kept.kernel.size() == 1)
      continue;
    for (std::vector<int64_t> *list : lists)
      list->erase(list->begin() + ptrdiff_t(axis));
  }
  return kept;
}

ConvStep cutGroups(ConvStep step, int64_t groups) {
  step.inChannels = step.inChannels / step.groups * groups;
  step.outChannels = step.outChannels / step.groups * groups;
  step.groups = groups;
  return step;
}

ConvGeometry::ConvGeometry(const ConvStep &step)
    : strides(step.strides), padsBegin(step.padsBegin), padsEnd(step.padsEnd) {
  using Tag = dnnl::memory::format_tag;
  static const Tag imageTags[] = {Tag::nwc, Tag::nhwc, Tag::ndhwc};
  static const Tag eights[] = {Tag::nCw8c, Tag::nChw8c, Tag::nCdhw8c};
  static const Tag sixteens[] = {Tag::nCw16c, Tag::nChw16c, Tag::nCdhw16c};
  static const Tag tags[2][3] = {{Tag::oiw, Tag::oihw, Tag::oidhw},
                                 {Tag::goiw, Tag::goihw, Tag::goidhw}};
  static const Tag lastTags[2][3] = {{Tag::wio, Tag::hwio, Tag::dhwio},
                                     {Tag::wigo, Tag::hwigo, Tag::dhwigo}};
  size_t rank = step.kernel.size();
  bool grouped = step.groups > 1;
  imageTag = imageTags[rank - 1];
  blockedTags[0] = eights[rank - 1];
  blockedTags[1] = sixteens[rank - 1];
  weightsTag = tags[grouped][rank - 1];
  channelsLastTag = lastTags[grouped][rank - 1];
  if (grouped)
    weights.push_back(step.groups);
  weights.push_back(step.outChannels / step.groups);
  weights.push_back(step.inChannels / step.groups);
  weights.insert(weights.end(), step.kernel.begin(), step.kernel.end());
  for (int64_t dilation : step.dilations)
    dilations.push_back(dilation - 1); // the library counts the gaps
  xPixels = numElements(step.inSpatial);
  yPixels = numElements(step.outSpatial);
  xElements = xPixels * step.inChannels;
  yElements = yPixels * step.outChannels;
  wElements = numElements(weights);
}

} // namespace mpc::runtime
