// Computes the weight gradients of convolutions with few channels. The lanes of
// a vector are adjacent pixels of a row. oneDNN's lanes are channels, so most
// lanes are empty for such images.
//
// Phase 0 computes a partial sum of the gradient per slice of output rows. A
// slice copies rows to scratch in f32, one plane per channel. Phase 1 adds the
// partial sums in the order of the slices.
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

/// With more filters or shorter rows, oneDNN was as fast in measurements. The
/// channels are limited by splitChannels.
constexpr int64_t kMostFilters = 2, kMostChannels = 4, kFewestPlanePixels = 48;
/// Limits the gradients of all filters, which have a vector of sums each, and
/// the floats of copied rows. Both stay in a worker's cache.
constexpr int64_t kMostGradients = 4096, kMostRowFloats = int64_t(1) << 17;
/// Limits the slices of phase 0.
constexpr int64_t kMostSlices = 16;
/// A slice with fewer multiply-adds is not worth handing to another thread.
constexpr int64_t kFewestProducts = int64_t(1) << 18;
/// Floats that the widest vector may read behind the end of a row.
constexpr int64_t kMostLanes = 16;

/// One spatial axis.
struct PlaneAxis {
  int64_t in = 1, out = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;

  /// Returns the extent of the image that the taps of one window cover.
  int64_t window() const { return (kernel - 1) * dilation + 1; }
};

/// A row of one channel of the image, and a row of one filter's gradient.
struct RowPair {
  const float *image, *gradient;
  int64_t pixels;   ///< pixels of the gradient row
  int64_t dilation; ///< image pixels from one tap to the next
};

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

#define MPC_PLANAR_INLINE static inline __attribute__((always_inline))

template <int kLanes>
struct PlaneVector {
  typedef float type __attribute__((vector_size(kLanes * sizeof(float))));
  typedef int32_t bits __attribute__((vector_size(kLanes * sizeof(int32_t))));
};

/// Loads the lanes whose bits in `mask` are set. All other lanes are zero.
template <int kLanes>
MPC_PLANAR_INLINE void loadLanes(const float *from,
                                 const typename PlaneVector<kLanes>::bits &mask,
                                 typename PlaneVector<kLanes>::type &result) {
  typename PlaneVector<kLanes>::bits bits;
  std::memcpy(&bits, from, sizeof(bits));
  bits &= mask;
  std::memcpy(&result, &bits, sizeof(bits));
}

/// Adds the products of two rows to the sums of `kTaps` taps, a vector each.
/// Has `kChains` sums per tap, because an addition waits for the last addition
/// to the same sum.
template <int kLanes, int kTaps, int kChains>
MPC_PLANAR_INLINE void addPlaneTaps(const RowPair &rows, int64_t first,
                                    float *sums) {
  using V = typename PlaneVector<kLanes>::type;
  const float *image = rows.image + first * rows.dilation;
  V total[kChains][kTaps] = {};
  int64_t pixel = 0;
  for (; pixel + kChains * kLanes <= rows.pixels; pixel += kChains * kLanes)
    for (int chain = 0; chain < kChains; ++chain) {
      V gradient;
      const int64_t at = pixel + chain * kLanes;
      std::memcpy(&gradient, rows.gradient + at, sizeof(V));
      for (int tap = 0; tap < kTaps; ++tap) {
        V value;
        std::memcpy(&value, image + at + tap * rows.dilation, sizeof(V));
        total[chain][tap] += value * gradient;
      }
    }
  for (; pixel < rows.pixels; pixel += kLanes) {
    // The image may hold an infinity behind the row, and infinity times 0 is
    // NaN, so clear the lanes in both factors.
    typename PlaneVector<kLanes>::bits mask;
    for (int lane = 0; lane < kLanes; ++lane)
      mask[lane] = pixel + lane < rows.pixels ? -1 : 0;
    V gradient;
    loadLanes<kLanes>(rows.gradient + pixel, mask, gradient);
    for (int tap = 0; tap < kTaps; ++tap) {
      V value;
      loadLanes<kLanes>(image + pixel + tap * rows.dilation, mask, value);
      total[0][tap] += value * gradient;
    }
  }
  V old[kTaps];
  std::memcpy(old, sums + first * kLanes, sizeof(old));
  for (int chain = 0; chain < kChains; ++chain)
    for (int tap = 0; tap < kTaps; ++tap)
      old[tap] += total[chain][tap];
  std::memcpy(sums + first * kLanes, old, sizeof(old));
}

/// Adds the products of two rows to the sums of `taps` taps.
template <int kLanes>
MPC_PLANAR_INLINE void addPlaneRows(const RowPair &rows, int64_t taps,
                                    float *sums) {
  int64_t tap = 0;
  for (; tap + 8 <= taps; tap += 8)
    addPlaneTaps<kLanes, 8, 1>(rows, tap, sums);
  for (; tap + 3 <= taps; tap += 3)
    addPlaneTaps<kLanes, 3, 2>(rows, tap, sums);
  for (; tap < taps; ++tap)
    addPlaneTaps<kLanes, 1, 4>(rows, tap, sums);
}

/// The loop for an instruction set, and the floats of its vectors.
struct PlaneLoops {
  int64_t lanes;
  void (*addRows)(const RowPair &rows, int64_t taps, float *sums);
};

#define MPC_DEFINE_PLANE_LOOPS(suffix, attribute, lanes)                       \
  attribute void addPlaneRows##suffix(const RowPair &rows, int64_t taps,       \
                                      float *sums) {                           \
    addPlaneRows<lanes>(rows, taps, sums);                                     \
  }                                                                            \
  constexpr PlaneLoops kPlaneLoops##suffix = {lanes, addPlaneRows##suffix};

MPC_DEFINE_PLANE_LOOPS(AVX512, __attribute__((target("avx512f,fma"))), 16)
MPC_DEFINE_PLANE_LOOPS(AVX2, __attribute__((target("avx2,fma"))), 8)
MPC_DEFINE_PLANE_LOOPS(Baseline, , 4)

const PlaneLoops &choosePlaneLoops() {
  if (hostHasAVX512())
    return kPlaneLoopsAVX512;
  return hostHasFeature("avx2") && hostHasFeature("fma") ? kPlaneLoopsAVX2
                                                         : kPlaneLoopsBaseline;
}

/// Copies each channel of `count` pixels to a plane of `width` floats.
template <int kChannels>
void splitChannels(const float *pixels, int64_t count, float *planes,
                   int64_t width) {
  for (int64_t pixel = 0; pixel < count; ++pixel)
    for (int channel = 0; channel < kChannels; ++channel)
      planes[channel * width + pixel] = pixels[pixel * kChannels + channel];
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

class PlanarWeightGrad : public Contraction {
public:
  PlanarWeightGrad(const ConvStep &step, const ConvOperands &operands);
  bool fits() const { return rowFloats <= kMostRowFloats; }
  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override;
  std::vector<void **> addresses() override {
    return {&x.data, &w.data, &y.data};
  }

private:
  /// The parts of a worker's scratch memory. `rows` comes first in memory.
  struct Scratch {
    float *image;    ///< [slot of a row][channel][imageFloats]
    float *gradient; ///< [filter][gradientFloats]
    float *run;      ///< a row as stored, in f32
    float *sums;     ///< [gradient][lane]
    int64_t *rows;   ///< the row of the image in each slot; -1 if empty
  };
  Scratch divide(std::byte *scratch) const;
  void copyRow(const Operand &operand, int64_t row, int64_t pixels,
               int64_t channels, int64_t before, int64_t width, float *run,
               float *planes) const;
  void addRow(int64_t row, const Scratch &scratch) const;
  void addPartials(std::byte *partials) const;

  const PlaneLoops &loops = choosePlaneLoops();
  Operand x, w, y;
  PlaneAxis depth, height, width;
  int64_t batch, inChannels, outChannels;
  int64_t gradients;    ///< elements of the filters
  int64_t rows;         ///< rows of the gradient of all images
  int64_t rowsPerSlice; ///< rows of the gradient in a slice
  int64_t slots;        ///< image rows in scratch
  int64_t imageFloats = 0, gradientFloats = 0, runFloats = 0;
  int64_t rowFloats = 0; ///< floats of all rows in scratch
};

} // namespace

PlanarWeightGrad::PlanarWeightGrad(const ConvStep &step,
                                   const ConvOperands &operands)
    : x(operands.x), w(operands.w), y(operands.y), batch(step.batch),
      inChannels(step.inChannels), outChannels(step.outChannels) {
  PlaneAxis *axes[] = {&width, &height, &depth};
  const size_t rank = step.kernel.size();
  for (size_t i = 0; i < rank; ++i)
    *axes[rank - 1 - i] = {step.inSpatial[i], step.outSpatial[i],
                           step.kernel[i],    step.strides[i],
                           step.dilations[i], step.padsBegin[i]};
  gradients = outChannels * inChannels * numElements(step.kernel);
  rows = batch * depth.out * height.out;
  const int64_t products = width.out * gradients; // of one row
  rowsPerSlice = std::max((rows + kMostSlices - 1) / kMostSlices,
                          (kFewestProducts + products - 1) / products);
  const int64_t slices = (rows + rowsPerSlice - 1) / rowsPerSlice;
  phaseSlices = {slices, 1};

  // Limit every factor before the product, which could overflow.
  slots = height.window();
  imageFloats = (width.out - 1) + width.window() + kMostLanes;
  gradientFloats = width.out + kMostLanes;
  if (slots > kMostRowFloats || imageFloats > kMostRowFloats ||
      width.in > kMostRowFloats || depth.kernel > kMostGradients) {
    rowFloats = kMostRowFloats + 1;
    return;
  }
  slots *= depth.kernel;
  runFloats = std::max(width.in * inChannels, width.out * outChannels);
  rowFloats = slots * inChannels * imageFloats + outChannels * gradientFloats +
              runFloats;
  sharedSize = alignScratch(size_t(slices * gradients) * sizeof(float));
  scratchSize =
      alignScratch(size_t(slots) * sizeof(int64_t)) +
      alignScratch(size_t(rowFloats + gradients * loops.lanes) * sizeof(float));
}

PlanarWeightGrad::Scratch PlanarWeightGrad::divide(std::byte *scratch) const {
  Scratch parts;
  parts.rows = reinterpret_cast<int64_t *>(scratch);
  parts.sums = reinterpret_cast<float *>(
      scratch + alignScratch(size_t(slots) * sizeof(int64_t)));
  parts.image = parts.sums + gradients * loops.lanes;
  parts.gradient = parts.image + slots * inChannels * imageFloats;
  parts.run = parts.gradient + outChannels * gradientFloats;
  return parts;
}

/// Copies a row of `pixels` pixels to scratch: a plane of `width` floats for
/// each channel. The row begins at float `before`; zeros surround the row.
/// Pixels outside the plane are left out.
void PlanarWeightGrad::copyRow(const Operand &operand, int64_t row,
                               int64_t pixels, int64_t channels, int64_t before,
                               int64_t width, float *run, float *planes) const {
  const int64_t first = std::min(std::max<int64_t>(-before, 0), pixels);
  const int64_t begin = std::clamp<int64_t>(before, 0, width);
  const int64_t count = std::min(pixels - first, width - begin);
  for (int64_t channel = 0; channel < channels; ++channel) {
    float *plane = planes + channel * width;
    std::fill(plane, plane + begin, 0.0f);
    std::fill(plane + begin + count, plane + width, 0.0f);
  }
  const std::byte *from = operand.at((row * pixels + first) * channels);
  if (channels == 1)
    return widen(operand.type, from, planes + begin, count);
  widen(operand.type, from, run, count * channels);
  (channels == 2 ? splitChannels<2>
   : channels == 3
       ? splitChannels<3>
       : splitChannels<kMostChannels>)(run, count, planes + begin, width);
}

/// Adds the products of row `row` of the gradient, counted over all images, and
/// the image rows that its windows cover.
void PlanarWeightGrad::addRow(int64_t row, const Scratch &scratch) const {
  copyRow(y, row, width.out, outChannels, 0, gradientFloats, scratch.run,
          scratch.gradient);
  const int64_t h = row % height.out, d = row / height.out % depth.out;
  const int64_t image = row / height.out / depth.out;
  const int64_t rowTaps = depth.kernel * height.kernel;
  for (int64_t rowTap = 0; rowTap < rowTaps; ++rowTap) {
    const int64_t depthTap = rowTap / height.kernel;
    const int64_t inDepth =
        d * depth.stride + depthTap * depth.dilation - depth.pad;
    const int64_t inHeight = h * height.stride +
                             rowTap % height.kernel * height.dilation -
                             height.pad;
    if (inDepth < 0 || inDepth >= depth.in || inHeight < 0 ||
        inHeight >= height.in)
      continue;
    // Windows of adjacent rows share image rows, so keep the last copies.
    const int64_t inRow = (image * depth.in + inDepth) * height.in + inHeight;
    const int64_t slot =
        depthTap * height.window() + inHeight % height.window();
    float *planes = scratch.image + slot * inChannels * imageFloats;
    if (scratch.rows[slot] != inRow) {
      copyRow(x, inRow, width.in, inChannels, width.pad, imageFloats,
              scratch.run, planes);
      scratch.rows[slot] = inRow;
    }
    for (int64_t filter = 0; filter < outChannels; ++filter)
      for (int64_t channel = 0; channel < inChannels; ++channel) {
        const int64_t first =
            ((filter * inChannels + channel) * rowTaps + rowTap) * width.kernel;
        loops.addRows({planes + channel * imageFloats,
                       scratch.gradient + filter * gradientFloats, width.out,
                       width.dilation},
                      width.kernel, scratch.sums + first * loops.lanes);
      }
  }
}

Status PlanarWeightGrad::runSlice(size_t phase, int64_t slice,
                                  const SliceContext &context) {
  if (phase == 1) {
    addPartials(context.shared);
    return Status();
  }
  const Scratch scratch = divide(context.scratch);
  std::fill_n(scratch.rows, slots, int64_t(-1));
  std::fill_n(scratch.sums, gradients * loops.lanes, 0.0f);
  const int64_t first = slice * rowsPerSlice;
  const int64_t last = std::min(first + rowsPerSlice, rows);
  for (int64_t row = first; row < last; ++row)
    addRow(row, scratch);
  auto *partial = reinterpret_cast<float *>(context.shared) + slice * gradients;
  for (int64_t i = 0; i < gradients; ++i) {
    const float *lanes = scratch.sums + i * loops.lanes;
    float sum = 0;
    for (int64_t lane = 0; lane < loops.lanes; ++lane)
      sum += lanes[lane];
    partial[i] = sum;
  }
  return Status();
}

/// Adds the partial sums of all slices to those of the first slice, and writes
/// the result. The order of partial sums is the order of filters, OIHW.
void PlanarWeightGrad::addPartials(std::byte *partials) const {
  auto *sums = reinterpret_cast<float *>(partials);
  for (int64_t slice = 1; slice < phaseSlices[0]; ++slice)
    for (int64_t i = 0; i < gradients; ++i)
      sums[i] += sums[slice * gradients + i];
  narrow(w.type, sums, w.data, gradients);
}

std::unique_ptr<Contraction>
preparePlanarWeightGrad(const ConvStep &step, const ConvOperands &operands,
                        const OneDNNConfig &config) {
  // oneDNN has a vector of filters for each channel, so its time grows with the
  // channels alone. In bf16 it is as fast with one channel and two filters.
  const bool isNarrow = config.nativeBF16 && operands.x.type == DType::BF16 &&
                        operands.y.type == DType::BF16;
  const int64_t mostFilters =
      isNarrow ? std::min(kMostFilters, step.inChannels) : kMostFilters;
  if (step.kind != ConvKind::WeightGrad || operands.epilogue ||
      step.groups != 1 || step.batch == 0 || step.strides.back() != 1 ||
      step.inChannels > kMostChannels || step.outChannels > mostFilters ||
      step.outSpatial.back() < kFewestPlanePixels ||
      step.inChannels * step.outChannels * numElements(step.kernel) >
          kMostGradients)
    return nullptr;
  auto gradient = std::make_unique<PlanarWeightGrad>(step, operands);
  return gradient->fits() ? std::move(gradient) : nullptr;
}

} // namespace mpc::runtime
