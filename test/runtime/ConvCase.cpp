// Computes the sums of a convolution and of its gradients.
//
// SPDX-License-Identifier: Apache-2.0
#include "test/runtime/ConvCase.h"

namespace mpc::runtime::test {
namespace {

/// Steps a multi-index through `extents`. Returns false after the last.
bool advance(std::vector<int64_t> &index, const std::vector<int64_t> &extents) {
  for (size_t d = extents.size(); d-- > 0;) {
    if (++index[d] < extents[d])
      return true;
    index[d] = 0;
  }
  return false;
}

int64_t flatten(const std::vector<int64_t> &index,
                const std::vector<int64_t> &extents) {
  int64_t result = 0;
  for (size_t d = 0; d < extents.size(); ++d)
    result = result * extents[d] + index[d];
  return result;
}

} // namespace

/// Calls body(x, w, y) with the elements of every product.
template <typename Body>
void Conv::forEachProduct(Body body) const {
  int64_t inPerGroup = c.inChannels / c.groups;
  int64_t outPerGroup = c.outChannels / c.groups;
  int64_t xPixels = numElements(c.inSpatial);
  int64_t yPixels = numElements(outSpatial);
  int64_t taps = numElements(c.kernel);
  const bool channelsLast = hasInputChannelsLast();
  std::vector<int64_t> out(outSpatial.size());
  do {
    std::vector<int64_t> tap(c.kernel.size());
    do {
      std::vector<int64_t> in(out.size());
      bool inside = true;
      for (size_t d = 0; d < in.size(); ++d) {
        in[d] =
            out[d] * c.strides[d] + tap[d] * c.dilations[d] - c.padsBegin[d];
        inside = inside && in[d] >= 0 && in[d] < c.inSpatial[d];
      }
      if (!inside)
        continue;
      int64_t xPixel = flatten(in, c.inSpatial);
      int64_t yPixel = flatten(out, outSpatial);
      int64_t t = flatten(tap, c.kernel);
      for (int64_t n = 0; n < c.batch; ++n)
        for (int64_t o = 0; o < c.outChannels; ++o)
          for (int64_t i = 0; i < inPerGroup; ++i) {
            int64_t channel = o / outPerGroup * inPerGroup + i;
            int64_t filter = channelsLast ? (o * taps + t) * inPerGroup + i
                                          : (o * inPerGroup + i) * taps + t;
            body(static_cast<size_t>((n * xPixels + xPixel) * c.inChannels +
                                     channel),
                 static_cast<size_t>(filter),
                 static_cast<size_t>((n * yPixels + yPixel) * c.outChannels +
                                     o));
          }
    } while (advance(tap, c.kernel));
  } while (advance(out, outSpatial));
}

std::vector<DotProduct> Conv::reference(const std::string &kind) const {
  std::vector<double> xs = toDoubles(x), ws = toDoubles(w), ys = toDoubles(y);
  std::vector<DotProduct> result(
      static_cast<size_t>(operand(writtenBy(kind)).size()));
  const bool forward = kind == "forward", inputGrad = kind == "input_grad";
  forEachProduct([&](size_t xi, size_t wi, size_t yi) {
    if (forward)
      result[yi].add(xs[xi], ws[wi]);
    else if (inputGrad)
      result[xi].add(ys[yi], ws[wi]);
    else
      result[wi].add(xs[xi], ys[yi]);
  });
  return result;
}

} // namespace mpc::runtime::test
