// Computes the weight gradients of convolutions with wide filters or small
// groups. oneDNN computes these gradients element by element, or copies the
// image for each tap.
//
// A slice computes the gradients of some filters along one row of taps. For
// each row of the output gradient, the slice copies the row and the image row
// that the taps multiply to scratch, in f32 and with padding. In scratch, the
// taps of a row are adjacent, and so are the sums. The sums of a row stay in
// registers until the row ends. The lanes of a vector are the channels of
// adjacent taps. For small groups, such as depthwise filters, the lanes are 16
// groups.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/conv/PixelCopies.h"
#include "runtime/cpu/onednn/OneDNN.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <algorithm>
#include <cstring>

namespace mpc::runtime {
namespace {

/// If the lanes of a vector are groups, a vector has kGroupLanes groups, and a
/// group has at most kMostPerGroup filters and kMostPerGroup channels.
constexpr int64_t kGroupLanes = GroupLanes::kLanes;
constexpr int64_t kMostPerGroup = 4;
/// The approximate number of sums per filter in a slice, and the limit for the
/// floats of an image row in scratch.
constexpr int64_t kMaxSums = 1024, kMaxRow = int64_t(1) << 20;

/// One spatial axis.
struct Axis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
};

/// A row of the image and a row of the output gradient, both in scratch.
struct Rows {
  const float *image, *gradient;
  int64_t pixels;   ///< pixels of the gradient row
  int64_t stride;   ///< image pixels from one gradient pixel to the next
  int64_t dilation; ///< image pixels from one tap to the next
  int64_t channels; ///< floats of an image pixel
};

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

#define MPC_INLINE static inline __attribute__((always_inline))

template <int kLength>
struct Vector {
  typedef float type __attribute__((vector_size(kLength * sizeof(float))));
};

/// Adds the products of a gradient row and an image row to `sums`, which is
/// [kFilters][leading]. Sum i of filter f gets gradient[p][f] * image[p * step
/// + i] for each pixel p of the gradient row and each i in [0, count). `step`
/// is the floats between two image pixels.
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

/// Adds the products of a gradient row and an image row to the sums of taps
/// [first, first + kTaps). Lanes are groups: each tap has a sum per group.
template <int kTaps>
MPC_INLINE void addTaps(const Rows &rows, int64_t first, float *sums) {
  using V = typename Vector<kGroupLanes>::type;
  V row[kTaps] = {};
  for (int64_t pixel = 0; pixel < rows.pixels; ++pixel) {
    V gradient;
    std::memcpy(&gradient, rows.gradient + pixel * kGroupLanes, sizeof(V));
    const float *image =
        rows.image +
        (pixel * rows.stride + first * rows.dilation) * kGroupLanes;
    for (int tap = 0; tap < kTaps; ++tap) {
      V value;
      std::memcpy(&value, image + tap * rows.dilation * kGroupLanes, sizeof(V));
      row[tap] += value * gradient;
    }
  }
  for (int tap = 0; tap < kTaps; ++tap) {
    V old;
    float *to = sums + (first + tap) * kGroupLanes;
    std::memcpy(&old, to, sizeof(V));
    old += row[tap];
    std::memcpy(to, &old, sizeof(V));
  }
}

template <int kTaps>
MPC_INLINE void addGroupsBody(const Rows &rows, int64_t taps, float *sums) {
  int64_t tap = 0;
  for (; tap + kTaps <= taps; tap += kTaps)
    addTaps<kTaps>(rows, tap, sums);
  for (; tap < taps; ++tap)
    addTaps<1>(rows, tap, sums);
}

/// The loops for an instruction set, and their sizes.
struct Loops {
  int64_t filters, length; ///< filters and floats in one iteration of addRun
  void (*addRun)(const float *image, const Rows &rows, int64_t count,
                 float *sums, int64_t leading);
  void (*addGroups)(const Rows &rows, int64_t taps, float *sums);
};

#define MPC_DEFINE_LOOPS(suffix, attribute, length, filters, taps)             \
  attribute void addRun##suffix(const float *image, const Rows &rows,          \
                                int64_t count, float *sums, int64_t leading) { \
    addRunBody<length, filters>(image, rows, count, sums, leading);            \
  }                                                                            \
  attribute void addGroups##suffix(const Rows &rows, int64_t count,            \
                                   float *sums) {                              \
    addGroupsBody<taps>(rows, count, sums);                                    \
  }                                                                            \
  constexpr Loops kLoops##suffix = {filters, 2 * (length), addRun##suffix,     \
                                    addGroups##suffix};

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
  /// The work of a slice: some taps of a row of taps, either for some filters
  /// of one group, or for all filters of several groups.
  struct Part {
    int64_t group, groups;
    int64_t filter, filters; ///< within the group
    int64_t depthTap, rowTap;
    int64_t tap, taps;
  };
  /// The channels of each group that a slice copies to scratch. The layout is
  /// [pixel][channel], or [channel][pixel][group] if lanes are groups.
  struct Channels {
    int64_t perGroup;     ///< all channels of a group
    int64_t first, count; ///< the copied channels
    int64_t width;        ///< floats of a pixel in scratch
  };
  Part partOf(int64_t slice) const;
  bool prefersGroups() const;
  void copyRow(const Part &part, const Operand &operand, int64_t row,
               int64_t pixels, int64_t first, int64_t count,
               const Channels &channels, float *run, float *to) const;
  void addRow(const Part &part, const Rows &rows, float *sums) const;
  void write(const Part &part, const float *sums, float *run) const;

  const Loops &loops = chooseLoops();
  Operand x, w, y;
  Axis depth, height, width;
  int64_t batch, inChannels, outChannels, groups;
  int64_t inPerGroup, outPerGroup;
  bool lanesAreGroups;
  int64_t groupsPerSlice, groupSlices;
  int64_t filtersPerSlice, filterSlices; ///< within a group
  int64_t tapsPerSlice, tapSlices;       ///< within a row of taps
  /// Floats between the sums of two taps, and between the sums of two filters.
  /// With dilations, each tap is padded to whole vectors.
  int64_t tapSums, leading;
  int64_t imagePixels = 0; ///< pixels of an image row in scratch
  int64_t rowFloats = 0, gradientFloats = 0, sumFloats = 0, runFloats = 0;
};

} // namespace

DirectWeightGrad::DirectWeightGrad(const ConvStep &step,
                                   const ConvOperands &operands)
    : x(operands.x), w(operands.w), y(operands.y), batch(step.batch),
      inChannels(step.inChannels), outChannels(step.outChannels),
      groups(step.groups), inPerGroup(inChannels / groups),
      outPerGroup(outChannels / groups) {
  Axis *axes[] = {&width, &height, &depth};
  const size_t rank = step.kernel.size();
  for (size_t i = 0; i < rank; ++i)
    *axes[rank - 1 - i] = {step.inSpatial[i], step.outSpatial[i],
                           step.kernel[i],    step.strides[i],
                           step.dilations[i], step.padsBegin[i]};
  auto slicesOf = [](int64_t count, int64_t each) {
    return (count + each - 1) / each;
  };
  lanesAreGroups = prefersGroups();
  groupsPerSlice = lanesAreGroups ? kGroupLanes : 1;
  groupSlices = slicesOf(groups, groupsPerSlice);
  filtersPerSlice = lanesAreGroups ? outPerGroup : loops.filters;
  filterSlices = slicesOf(outPerGroup, filtersPerSlice);
  tapsPerSlice = lanesAreGroups ? width.kernel
                                : std::clamp<int64_t>(kMaxSums / inPerGroup, 1,
                                                      width.kernel);
  tapSlices = slicesOf(width.kernel, tapsPerSlice);
  phaseSlices = {groupSlices * filterSlices * depth.kernel * height.kernel *
                 tapSlices};

  // Vectors may read past the end of a row and write past the sums, so pad
  // both.
  auto wholeRuns = [&](int64_t floats) {
    return slicesOf(floats, loops.length) * loops.length;
  };
  tapSums = width.dilation == 1 ? inPerGroup : wholeRuns(inPerGroup);
  leading = lanesAreGroups ? tapsPerSlice * kGroupLanes
                           : wholeRuns(tapsPerSlice * tapSums);
  imagePixels =
      (width.out - 1) * width.stride + (tapsPerSlice - 1) * width.dilation + 1;
  rowFloats = imagePixels * inPerGroup * groupsPerSlice + loops.length;
  gradientFloats = width.out * filtersPerSlice * groupsPerSlice;
  sumFloats = filtersPerSlice * leading * (lanesAreGroups ? inPerGroup : 1);
  runFloats = std::max(tapsPerSlice,
                       groupsPerSlice * std::max(inPerGroup, outPerGroup));
  scratchSize =
      alignScratch(size_t(rowFloats + gradientFloats + sumFloats + runFloats) *
                   sizeof(float));
}

/// True if groups are small, and vectors of groups leave fewer lanes empty than
/// vectors of adjacent taps.
bool DirectWeightGrad::prefersGroups() const {
  auto ceilDiv = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  const int64_t taps = width.kernel;
  const int64_t runs = width.dilation == 1
                           ? ceilDiv(taps * inPerGroup, loops.length)
                           : taps * ceilDiv(inPerGroup, loops.length);
  const int64_t byRuns = groups * ceilDiv(outPerGroup, loops.filters) *
                         loops.filters * runs * loops.length;
  const int64_t byGroups = ceilDiv(groups, kGroupLanes) * kGroupLanes *
                           inPerGroup * outPerGroup * taps;
  return groups > 1 && std::max(inPerGroup, outPerGroup) <= kMostPerGroup &&
         byGroups < byRuns;
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
  part.filters = std::min(filtersPerSlice, outPerGroup - part.filter);
  part.group = slice / filterSlices * groupsPerSlice;
  part.groups = std::min(groupsPerSlice, groups - part.group);
  return part;
}

/// Copies pixels [first, first + count) of a row of `pixels` pixels to scratch.
/// Pixels outside the row become zeros. `run` is scratch for one pixel.
void DirectWeightGrad::copyRow(const Part &part, const Operand &operand,
                               int64_t row, int64_t pixels, int64_t first,
                               int64_t count, const Channels &channels,
                               float *run, float *to) const {
  const int64_t begin = std::clamp<int64_t>(-first, 0, count);
  const int64_t end = std::clamp<int64_t>(pixels - first, begin, count);
  const int64_t step = groups * channels.perGroup;
  const std::byte *from =
      operand.at((row * pixels + first + begin) * step +
                 part.group * channels.perGroup + channels.first);
  const int64_t planes = lanesAreGroups ? channels.count : 1;
  for (int64_t plane = 0; plane < planes; ++plane) {
    float *all = to + plane * count * channels.width;
    std::fill(all, all + begin * channels.width, 0.0f);
    std::fill(all + end * channels.width, all + count * channels.width, 0.0f);
  }
  if (begin == end)
    return;
  to += begin * channels.width;
  const PixelChannels taken = {end - begin, channels.count, step};
  if (lanesAreGroups)
    widenGroups(operand.type, from, taken, part.groups, run, to,
                {count * channels.width, channels.width});
  else
    widenPixels(operand.type, from, taken, to, channels.width);
}

void DirectWeightGrad::addRow(const Part &part, const Rows &rows,
                              float *sums) const {
  if (lanesAreGroups) {
    for (int64_t filter = 0; filter < part.filters; ++filter)
      for (int64_t channel = 0; channel < inPerGroup; ++channel) {
        Rows both = rows;
        both.image += channel * imagePixels * kGroupLanes;
        both.gradient += filter * rows.pixels * kGroupLanes;
        loops.addGroups(both, part.taps,
                        sums + (filter * inPerGroup + channel) * leading);
      }
    return;
  }
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

  const Channels ofImage = {inPerGroup, 0, inPerGroup,
                            lanesAreGroups ? kGroupLanes : inPerGroup};
  const Channels ofGradient = {outPerGroup, part.filter, part.filters,
                               lanesAreGroups ? kGroupLanes : filtersPerSlice};
  const int64_t pixels = lanesAreGroups
                             ? imagePixels
                             : (width.out - 1) * width.stride +
                                   (part.taps - 1) * width.dilation + 1;
  const Rows rows = {image,        gradient,       width.out,
                     width.stride, width.dilation, ofImage.width};
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
        copyRow(part, x, (n * depth.in + inDepth) * height.in + inRow, width.in,
                part.tap * width.dilation - width.pad, pixels, ofImage, run,
                image);
        copyRow(part, y, (n * depth.out + d) * height.out + h, width.out, 0,
                width.out, ofGradient, run, gradient);
        addRow(part, rows, sums);
      }
    }
  write(part, sums, run);
  return Status();
}

/// Writes the gradients of a part in OIHW. Gathers the taps of each filter and
/// channel in `run` first.
void DirectWeightGrad::write(const Part &part, const float *sums,
                             float *run) const {
  const int64_t rowTaps = depth.kernel * height.kernel;
  for (int64_t group = 0; group < part.groups; ++group)
    for (int64_t filter = 0; filter < part.filters; ++filter)
      for (int64_t channel = 0; channel < inPerGroup; ++channel) {
        for (int64_t tap = 0; tap < part.taps; ++tap)
          run[tap] = lanesAreGroups
                         ? sums[(filter * inPerGroup + channel) * leading +
                                tap * kGroupLanes + group]
                         : sums[filter * leading + tap * tapSums + channel];
        const int64_t first = (part.group + group) * outPerGroup + part.filter +
                              filter; // of all filters
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
