// Gradients of wide and of depthwise filters, where the library has nothing
// better than loops over single elements or copies of the image for each tap.
//
// A slice makes some filters' gradients along one row of taps. It goes through
// the rows of the gradient that is read: each, and the row of the image that
// its taps meet, is put into scratch in f32, with its padding. The taps of a
// row then lie side by side, and so do their sums. A row's sums stay in
// registers and are added to those of the rows before.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/onednn/OneDNN.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <algorithm>
#include <cstring>

namespace mpc::runtime {
namespace {

/// Channels that lie side by side in a depthwise row.
constexpr int64_t kChannelLanes = 16;
/// Sums of one filter that a slice makes, about, and floats of a row at most.
constexpr int64_t kMaxSums = 1024, kMaxRow = int64_t(1) << 20;

/// One spatial axis.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
};

/// A row of the image and one of the gradient, as a slice has them in scratch.
struct Rows {
  const float *image, *gradient;
  int64_t pixels;   ///< of the gradient's row
  int64_t stride;   ///< from one of them to the next, in pixels of the image
  int64_t dilation; ///< from one tap to the next
  int64_t channels; ///< of the image
};

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

#define MPC_INLINE static inline __attribute__((always_inline))

template <int kLength>
struct Vector {
  typedef float type __attribute__((vector_size(kLength * sizeof(float))));
};

/// Adds to `kFilters` rows of `leading` sums each the products of a gradient
/// that has so many channels and of `count` floats of the image that start with
/// its pixel.
template <int kLength, int kFilters>
MPC_INLINE void addRunBody(const float *image, const Rows &rows, int64_t count,
                           float *sums, int64_t leading) {
  using V = typename Vector<kLength>::type;
  const int64_t step = rows.stride * rows.channels;
  for (int64_t first = 0; first < count; first += 2 * kLength) {
    V row[kFilters][2] = {};
    for (int64_t pixel = 0; pixel < rows.pixels; ++pixel) {
      V taps[2];
      std::memcpy(taps, image + pixel * step + first, sizeof(taps));
      const float *gradient = rows.gradient + pixel * kFilters;
      for (int filter = 0; filter < kFilters; ++filter) {
        row[filter][0] += taps[0] * gradient[filter];
        row[filter][1] += taps[1] * gradient[filter];
      }
    }
    for (int filter = 0; filter < kFilters; ++filter) {
      V old[2];
      float *to = sums + filter * leading + first;
      std::memcpy(old, to, sizeof(old));
      old[0] += row[filter][0];
      old[1] += row[filter][1];
      std::memcpy(to, old, sizeof(old));
    }
  }
}

/// Adds to the sums of `kTaps` taps from `first` on, each of all lanes.
template <int kTaps>
MPC_INLINE void addTaps(const Rows &rows, int64_t first, float *sums) {
  using V = typename Vector<kChannelLanes>::type;
  V row[kTaps] = {};
  for (int64_t pixel = 0; pixel < rows.pixels; ++pixel) {
    V gradient;
    std::memcpy(&gradient, rows.gradient + pixel * kChannelLanes, sizeof(V));
    const float *image =
        rows.image +
        (pixel * rows.stride + first * rows.dilation) * kChannelLanes;
    for (int tap = 0; tap < kTaps; ++tap) {
      V value;
      std::memcpy(&value, image + tap * rows.dilation * kChannelLanes,
                  sizeof(V));
      row[tap] += value * gradient;
    }
  }
  for (int tap = 0; tap < kTaps; ++tap) {
    V old;
    float *to = sums + (first + tap) * kChannelLanes;
    std::memcpy(&old, to, sizeof(V));
    old += row[tap];
    std::memcpy(to, &old, sizeof(V));
  }
}

template <int kTaps>
MPC_INLINE void addDepthwiseBody(const Rows &rows, int64_t taps, float *sums) {
  int64_t tap = 0;
  for (; tap + kTaps <= taps; tap += kTaps)
    addTaps<kTaps>(rows, tap, sums);
  for (; tap < taps; ++tap)
    addTaps<1>(rows, tap, sums);
}

/// The size of a CPU's registers.
struct Loops {
  int64_t filters, length; ///< a run's filters, and floats it takes at a time
  void (*addRun)(const float *image, const Rows &rows, int64_t count,
                 float *sums, int64_t leading);
  void (*addDepthwise)(const Rows &rows, int64_t taps, float *sums);
};

#define MPC_DEFINE_LOOPS(suffix, attribute, length, filters, taps)             \
  attribute void addRun##suffix(const float *image, const Rows &rows,          \
                                int64_t count, float *sums, int64_t leading) { \
    addRunBody<length, filters>(image, rows, count, sums, leading);            \
  }                                                                            \
  attribute void addDepthwise##suffix(const Rows &rows, int64_t count,         \
                                      float *sums) {                           \
    addDepthwiseBody<taps>(rows, count, sums);                                 \
  }                                                                            \
  constexpr Loops kLoops##suffix = {filters, 2 * (length), addRun##suffix,     \
                                    addDepthwise##suffix};

MPC_DEFINE_LOOPS(AVX512, __attribute__((target("avx512f,fma"))), 16, 8, 8)
MPC_DEFINE_LOOPS(AVX2, __attribute__((target("avx2,fma"))), 8, 4, 4)
MPC_DEFINE_LOOPS(Baseline, , 4, 4, 2)

const Loops &chooseLoops() {
  if (hostHasAVX512())
    return kLoopsAVX512;
  return hostHasFeature("avx2") && hostHasFeature("fma") ? kLoopsAVX2
                                                         : kLoopsBaseline;
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

class DirectWeightGrad : public Contraction {
public:
  DirectWeightGrad(const ConvStep &step, const ConvOperands &operands);
  bool fits() const { return rowFloats <= kMaxRow; }
  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override;
  std::vector<void **> addresses() override {
    return {&x.data, &w.data, &y.data};
  }

private:
  /// The part of one slice: filters of a group, or channels of a depthwise
  /// image, along a row of taps.
  struct Part {
    int64_t group, filter, filters; ///< the first counts from the group's first
    int64_t depthTap, rowTap;
    int64_t tap, taps;
  };
  Part partOf(int64_t slice) const;
  void copyRow(const Operand &operand, int64_t row, int64_t pixels,
               int64_t first, int64_t count, int64_t channels, int64_t channel,
               int64_t copied, int64_t width, float *to) const;
  void addRow(const Part &part, const Rows &rows, float *sums) const;
  void write(const Part &part, const float *sums, float *run) const;

  const Loops &loops = chooseLoops();
  Operand x, w, y;
  Axis depth, height, width;
  int64_t batch, inChannels, outChannels, groups;
  int64_t inPerGroup, outPerGroup;
  bool depthwise;
  int64_t filtersPerSlice, filterSlices; ///< of a group
  int64_t tapsPerSlice, tapSlices;       ///< of a row of taps
  /// Sums of a tap, which with dilations is a run by itself, and of a filter.
  int64_t tapSums, leading;
  int64_t rowFloats = 0, gradientFloats = 0, sumFloats = 0;
};

} // namespace

DirectWeightGrad::DirectWeightGrad(const ConvStep &step,
                                   const ConvOperands &operands)
    : x(operands.x), w(operands.w), y(operands.y), batch(step.batch),
      inChannels(step.inChannels), outChannels(step.outChannels),
      groups(step.groups), inPerGroup(inChannels / groups),
      outPerGroup(outChannels / groups),
      depthwise(groups > 1 && inPerGroup == 1 && outPerGroup == 1) {
  Axis *axes[] = {&width, &height, &depth};
  const size_t rank = step.kernel.size();
  for (size_t i = 0; i < rank; ++i)
    *axes[rank - 1 - i] = {step.inSpatial[i], step.outSpatial[i],
                           step.kernel[i],    step.strides[i],
                           step.dilations[i], step.padsBegin[i]};
  auto slicesOf = [](int64_t count, int64_t each) {
    return (count + each - 1) / each;
  };
  // Depthwise channels stand for the filters of one group.
  filtersPerSlice = depthwise ? kChannelLanes : loops.filters;
  filterSlices = slicesOf(depthwise ? groups : outPerGroup, filtersPerSlice);
  tapsPerSlice =
      depthwise ? width.kernel
                : std::clamp<int64_t>(kMaxSums / inPerGroup, 1, width.kernel);
  tapSlices = slicesOf(width.kernel, tapsPerSlice);
  phaseSlices = {(depthwise ? 1 : groups) * filterSlices * depth.kernel *
                 height.kernel * tapSlices};

  // The vectors of a run may end behind the row and the sums.
  const int64_t channels = depthwise ? kChannelLanes : inPerGroup;
  auto wholeRuns = [&](int64_t floats) {
    return slicesOf(floats, loops.length) * loops.length;
  };
  tapSums = width.dilation == 1 ? inPerGroup : wholeRuns(inPerGroup);
  leading = depthwise ? kChannelLanes : wholeRuns(tapsPerSlice * tapSums);
  rowFloats = ((width.out - 1) * width.stride +
               (tapsPerSlice - 1) * width.dilation + 1) *
                  channels +
              loops.length;
  gradientFloats = width.out * filtersPerSlice;
  sumFloats = (depthwise ? tapsPerSlice : filtersPerSlice) * leading;
  const int64_t runFloats = tapsPerSlice;
  scratchSize =
      alignScratch(size_t(rowFloats + gradientFloats + sumFloats + runFloats) *
                   sizeof(float));
}

DirectWeightGrad::Part DirectWeightGrad::partOf(int64_t slice) const {
  Part part;
  part.tap = slice % tapSlices * tapsPerSlice;
  part.taps = std::min(tapsPerSlice, width.kernel - part.tap);
  slice /= tapSlices;
  part.rowTap = slice % height.kernel;
  slice /= height.kernel;
  part.depthTap = slice % depth.kernel;
  slice /= depth.kernel;
  part.filter = slice % filterSlices * filtersPerSlice;
  part.filters = std::min(filtersPerSlice,
                          (depthwise ? groups : outPerGroup) - part.filter);
  part.group = slice / filterSlices;
  return part;
}

/// Copies `count` pixels from `first` on, which may lie outside of a row of
/// `pixels`, of each `copied` channels from `channel` on, to pixels of `width`.
void DirectWeightGrad::copyRow(const Operand &operand, int64_t row,
                               int64_t pixels, int64_t first, int64_t count,
                               int64_t channels, int64_t channel,
                               int64_t copied, int64_t width, float *to) const {
  const int64_t begin = std::clamp<int64_t>(-first, 0, count);
  const int64_t end = std::clamp<int64_t>(pixels - first, begin, count);
  std::fill(to, to + begin * width, 0.0f);
  std::fill(to + end * width, to + count * width, 0.0f);
  const int64_t from = (row * pixels + first) * channels + channel;
  if (copied == channels && copied == width) {
    if (end > begin)
      widen(operand.type, operand.at(from + begin * channels),
            to + begin * width, (end - begin) * width);
    return;
  }
  for (int64_t pixel = begin; pixel < end; ++pixel) {
    float *target = to + pixel * width;
    widen(operand.type, operand.at(from + pixel * channels), target, copied);
    std::fill(target + copied, target + width, 0.0f);
  }
}

void DirectWeightGrad::addRow(const Part &part, const Rows &rows,
                              float *sums) const {
  if (depthwise)
    return loops.addDepthwise(rows, part.taps, sums);
  if (width.dilation == 1)
    return loops.addRun(rows.image, rows, part.taps * inPerGroup, sums,
                        leading);
  for (int64_t tap = 0; tap < part.taps; ++tap)
    loops.addRun(rows.image + tap * width.dilation * inPerGroup, rows,
                 inPerGroup, sums + tap * tapSums, leading);
}

Status DirectWeightGrad::runSlice(size_t phase, int64_t slice,
                                  const SliceContext &context) {
  const Part part = partOf(slice);
  auto *image = reinterpret_cast<float *>(context.scratch);
  float *gradient = image + rowFloats, *sums = gradient + gradientFloats;
  float *run = sums + sumFloats;
  std::fill(sums, sums + sumFloats, 0.0f);

  // Channels of both images, and how many of them a pixel has in scratch.
  const int64_t inChannel = depthwise ? part.filter : part.group * inPerGroup;
  const int64_t inCopied = depthwise ? part.filters : inPerGroup;
  const int64_t inWidth = depthwise ? kChannelLanes : inPerGroup;
  const int64_t outChannel = part.group * outPerGroup + part.filter;
  const int64_t pixels =
      (width.out - 1) * width.stride + (part.taps - 1) * width.dilation + 1;
  const Rows rows = {image,        gradient,       width.out,
                     width.stride, width.dilation, inWidth};
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t d = 0; d < depth.out; ++d) {
      const int64_t inDepth =
          d * depth.stride + part.depthTap * depth.dilation - depth.pad;
      if (inDepth < 0 || inDepth >= depth.in)
        continue;
      for (int64_t h = 0; h < height.out; ++h) {
        const int64_t inRow =
            h * height.stride + part.rowTap * height.dilation - height.pad;
        if (inRow < 0 || inRow >= height.in)
          continue;
        copyRow(x, (n * depth.in + inDepth) * height.in + inRow, width.in,
                part.tap * width.dilation - width.pad, pixels, inChannels,
                inChannel, inCopied, inWidth, image);
        copyRow(y, (n * depth.out + d) * height.out + h, width.out, 0,
                width.out, outChannels, outChannel, part.filters,
                filtersPerSlice, gradient);
        addRow(part, rows, sums);
      }
    }
  write(part, sums, run);
  return Status();
}

/// Writes a part's gradients as OIHW, each filter's and channel's taps in `run`
/// first.
void DirectWeightGrad::write(const Part &part, const float *sums,
                             float *run) const {
  const int64_t rowTaps = depth.kernel * height.kernel;
  for (int64_t filter = 0; filter < part.filters; ++filter)
    for (int64_t channel = 0; channel < inPerGroup; ++channel) {
      for (int64_t tap = 0; tap < part.taps; ++tap)
        run[tap] = depthwise ? sums[tap * leading + filter]
                             : sums[filter * leading + tap * tapSums + channel];
      const int64_t first =
          part.group * outPerGroup + part.filter + filter; // of all filters
      const int64_t row = (first * inPerGroup + channel) * rowTaps +
                          part.depthTap * height.kernel + part.rowTap;
      narrow(w.type, run, w.at(row * width.kernel + part.tap), part.taps);
    }
}

std::unique_ptr<Contraction>
prepareDirectWeightGrad(const ConvStep &step, const ConvOperands &operands) {
  if (step.kind != ConvKind::WeightGrad || operands.epilogue)
    return nullptr;
  auto gradient = std::make_unique<DirectWeightGrad>(step, operands);
  return gradient->fits() ? std::move(gradient) : nullptr;
}

} // namespace mpc::runtime
