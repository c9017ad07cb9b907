// Convolutions of f16 and f32 images by AMX, and the gradients of such images,
// which are convolutions of gradients with turned filters. NHWC, strides of 1.
//
// An image that has its zeros around it is a list of pixels, row after row. For
// one tap of the filter, rows of the result are rows of a product: the pixels
// from the tap's place on, as they lie, times the tap's channels x filters. At
// the end of each row some pixels too many are multiplied, kernel - 1 of them.
//
//   gather  filters as matrices of channels x filters for each tap, in f32
//   pack    these as right operands
//   images  some images or a band of one at a time: split into parts
//           (AMXPanels.h), once for all taps; multiplied tap after tap; handed
//           to the epilogue, or rounded, row by row
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/amx/AMXPanels.h"
#include "runtime/cpu/onednn/OneDNN.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <cstring>

namespace mpc::runtime {
namespace {

/// Sums of a slice, and parts of its images: bytes of a worker's cache.
constexpr int64_t kMaxSumsBytes = 512 << 10, kMaxPartsBytes = 768 << 10;
/// Slices a batch is cut into at least, where it has as many images.
constexpr int64_t kFewestSlices = 8;

/// The convolution that is done: of images of height x width x channels with
/// filters of kernelHeight x kernelWidth taps.
struct Geometry {
  int64_t batch, channels, filters;
  int64_t height, width, outHeight, outWidth;
  int64_t kernelHeight, kernelWidth, dilationHeight, dilationWidth;
  int64_t padTop, padLeft;
  bool isGradient; ///< of the images: filters are turned

  int64_t taps() const { return kernelHeight * kernelWidth; }
  int64_t steps() const { return channels / kPanelWidth; }
  int64_t extraRows() const { return dilationHeight * (kernelHeight - 1); }
  /// Pixels of a row with its zeros.
  int64_t rowPixels() const {
    return outWidth + dilationWidth * (kernelWidth - 1);
  }
  /// How far behind a pixel of the result the pixel lies that tap `tap` meets.
  int64_t offsetOf(int64_t tap) const {
    return tap / kernelWidth * dilationHeight * rowPixels() +
           tap % kernelWidth * dilationWidth;
  }
};

class AMXConv : public Contraction {
public:
  AMXConv(const Geometry &geometry, ConvOperands operands,
          const OneDNNConfig &config)
      : g(geometry), isPortable(!config.hasAMX), x(operands.x), w(operands.w),
        y(operands.y), epilogue(std::move(operands.epilogue)),
        parts(partsOf(w.type)), groupSteps(chunkStepsOf(parts)) {
    chooseSlices();
    layOutMemory();
  }

  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override;
  std::vector<void **> addresses() override {
    return addressesOf({&x, &w, &y}, epilogue);
  }

  /// Cycles of one thread, about: of its phases, and of the library's.
  double estimateCycles() const;
  double estimateLibraryCycles() const;

private:
  /// Rows [row, row + rows) of the result of one image, and its memory.
  struct Band {
    int64_t image, row, rows;
    float *sums;
    std::byte *parts; ///< [step][part][pixel][32 channels]
    bool *isLeftOut;  ///< [step][pixel]: zeros, since it is no sum of parts
    bool *leavesOut;  ///< any of them
  };

  const Operand &source() const { return g.isGradient ? y : x; }
  const Operand &result() const { return g.isGradient ? x : y; }

  void chooseSlices();
  void layOutMemory();
  Band bandAt(int64_t index, std::byte *memory) const;
  void gatherFilters(int64_t step, float *matrices) const;
  void packFilters(int64_t slice, const SliceContext &context) const;
  void runImages(int64_t slice, const SliceContext &context) const;
  void splitBand(const Band &band, float *widened) const;
  void splitRun(const Band &band, const float *from, int64_t pixel,
                int64_t count) const;
  void multiplyTap(const Band &band, int64_t tap, int64_t group,
                   const std::byte *shared) const;
  void addLeftOut(const Band &band, int64_t tap, int64_t step,
                  const Panels &right, int64_t stepInGroup, int64_t steps,
                  const float *matrix) const;
  void finish(const Band &band) const;

  int64_t groups() const { return (g.steps() + groupSteps - 1) / groupSteps; }
  int64_t columns() const { return wholePanels(g.filters); }
  /// Sums of `rows` rows, those at their ends too.
  int64_t sumRows(int64_t rows) const {
    return (rows - 1) * g.rowPixels() + g.outWidth;
  }
  /// Pixels that panels of the sums of `rows` rows meet.
  int64_t pixels(int64_t rows) const {
    return wholePanels(sumRows(rows)) + g.offsetOf(g.taps() - 1);
  }
  int64_t sumsBytes(int64_t rows) const {
    return wholePanels(sumRows(rows)) * columns() * int64_t(sizeof(float));
  }
  int64_t partsBytes(int64_t rows) const {
    return g.steps() * parts * pixels(rows) * kPixelBytes;
  }
  int64_t bandBytes() const {
    return sumsBytes(bandRows) + partsBytes(bandRows) +
           int64_t(alignScratch(size_t(g.steps() * pixels(bandRows) + 1)));
  }
  int64_t bands() const { return (g.outHeight + bandRows - 1) / bandRows; }
  /// The filters' matrix of tap `tap` from channel 32 * `step` on.
  int64_t matrixAt(int64_t tap, int64_t step) const {
    return (tap * g.channels + step * kPanelWidth) * columns();
  }

  static constexpr int64_t kPixelBytes = kPanelWidth * sizeof(uint16_t);

  const Geometry g;
  const bool isPortable;
  Operand x, w, y;
  EpilogueCall epilogue;
  const int64_t parts;      ///< of an element
  const int64_t groupSteps; ///< steps of the channels multiplied at once
  int64_t bandRows = 1, bandsPerSlice = 1;
  size_t panelsOffset = 0, groupBytes = 0; ///< of packed filters, shared
  size_t widenedOffset = 0;                ///< of a row in f32, a worker's
};

} // namespace

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

/// As many rows of an image as fit, or as many whole images.
void AMXConv::chooseSlices() {
  auto fits = [&](int64_t rows, int64_t images) {
    return images * sumsBytes(rows) <= kMaxSumsBytes &&
           images * partsBytes(rows) <= kMaxPartsBytes;
  };
  bandRows = g.outHeight;
  while (bandRows > 1 && !fits(bandRows, 1))
    bandRows = (bandRows + 1) / 2;
  const int64_t most = std::max<int64_t>(1, g.batch / kFewestSlices);
  while (bandRows == g.outHeight && bandsPerSlice < most &&
         fits(bandRows, bandsPerSlice + 1))
    ++bandsPerSlice;
}

void AMXConv::layOutMemory() {
  // The filters' matrices and panels, which all workers read.
  panelsOffset =
      alignScratch(size_t(g.taps() * g.channels * columns()) * sizeof(float));
  groupBytes = alignScratch(
      size_t(Panels::bytes(panelsOf(g.filters), groupSteps, parts)));
  sharedSize = panelsOffset + size_t(g.taps() * groups()) * groupBytes;
  // A worker's bands, and a row of an image in f32.
  widenedOffset = size_t(bandsPerSlice * bandBytes());
  scratchSize = widenedOffset;
  if (w.type != DType::F32)
    scratchSize += alignScratch(size_t(g.width * g.channels) * sizeof(float));
  const int64_t all = g.batch * bands();
  phaseSlices = {g.steps(), g.taps() * groups(),
                 (all + bandsPerSlice - 1) / bandsPerSlice};
}

//===----------------------------------------------------------------------===//
// Filters
//===----------------------------------------------------------------------===//

/// 32 channels of all filters: taps of a filter's channel lie side by side.
void AMXConv::gatherFilters(int64_t step, float *matrices) const {
  const int64_t taps = g.taps();
  for (int64_t filter = 0; filter < columns(); ++filter)
    for (int64_t i = 0; i < kPanelWidth; ++i) {
      const int64_t channel = step * kPanelWidth + i;
      const int64_t first = g.isGradient
                                ? (channel * g.filters + filter) * taps
                                : (filter * g.channels + channel) * taps;
      for (int64_t tap = 0; tap < taps; ++tap) {
        float &to = matrices[matrixAt(tap, step) + i * columns() + filter];
        to = 0;
        if (filter < g.filters)
          widen(w.type, w.at(first + (g.isGradient ? taps - 1 - tap : tap)),
                &to, 1);
      }
    }
}

void AMXConv::packFilters(int64_t slice, const SliceContext &context) const {
  const int64_t tap = slice / groups();
  const int64_t step = slice % groups() * groupSteps;
  const int64_t steps = std::min(groupSteps, g.steps() - step);
  const auto *matrices = reinterpret_cast<const float *>(context.shared);
  const PanelSource source{
      DType::F32,
      reinterpret_cast<const std::byte *>(matrices + matrixAt(tap, step)),
      columns(), false};
  packRightPanels(
      source, steps * kPanelWidth, columns(),
      Panels::at(context.shared + panelsOffset + size_t(slice) * groupBytes,
                 panelsOf(g.filters), steps, parts));
}

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

/// Parts of `count` pixels of an image, at most 32, from pixel `pixel` of the
/// band on.
void AMXConv::splitRun(const Band &band, const float *from, int64_t pixel,
                       int64_t count) const {
  alignas(64) float padded[kBlockElements];
  alignas(64) uint16_t block[3 * kBlockElements];
  const int64_t all = pixels(bandRows);
  for (int64_t step = 0; step < g.steps(); ++step, from += kPanelWidth) {
    // Blocks have 32 pixels: fewer get zeros behind them.
    const float *rows = from;
    int64_t leading = g.channels;
    if (count < kPanelWidth) {
      for (int64_t i = 0; i < count; ++i)
        std::memcpy(padded + i * kPanelWidth, from + i * g.channels,
                    kPanelWidth * sizeof(float));
      std::fill_n(padded + count * kPanelWidth,
                  (kPanelWidth - count) * kPanelWidth, 0.0f);
      rows = padded;
      leading = kPanelWidth;
    }
    // As sums of 2 or 3 bf16 numbers; what these cannot hold, such as
    // infinities, is noted and added in f32 later.
    const bool could =
        splitBlock(BlockOrder::InRows, rows, leading, parts, block);
    std::fill_n(band.isLeftOut + step * all + pixel, count, !could);
    *band.leavesOut |= !could;
    // Each part goes to its own plane; pixels that are left out are zeros
    // there.
    for (int64_t part = 0; part < parts; ++part) {
      std::byte *to =
          band.parts + ((step * parts + part) * all + pixel) * kPixelBytes;
      if (could)
        std::memcpy(to, block + part * kBlockElements,
                    size_t(count * kPixelBytes));
      else
        std::memset(to, 0, size_t(count * kPixelBytes));
    }
  }
}

/// Parts of all pixels that a band meets, zeros around the image with them.
void AMXConv::splitBand(const Band &band, float *widened) const {
  // Zeros first: the border of the image is never written.
  const int64_t all = pixels(bandRows), rowPixels = g.rowPixels();
  std::memset(band.parts, 0, size_t(partsBytes(bandRows)));
  std::fill_n(band.isLeftOut, g.steps() * all, false);
  *band.leavesOut = false;
  // Columns of the image that rows with their zeros have.
  const int64_t firstColumn = std::max<int64_t>(0, -g.padLeft);
  const int64_t lastColumn = std::min(g.width, rowPixels - g.padLeft);
  for (int64_t i = 0; i < band.rows + g.extraRows(); ++i) {
    const int64_t row = band.row + i - g.padTop;
    if (row < 0 || row >= g.height)
      continue;
    const int64_t first = (band.image * g.height + row) * g.width * g.channels;
    // Pixels are widened to f32 row by row where they are of 16 bits.
    const auto *from = reinterpret_cast<const float *>(source().at(first));
    if (source().type != DType::F32) {
      widen(source().type, source().at(first), widened, g.width * g.channels);
      from = widened;
    }
    // In runs of up to 32 pixels.
    for (int64_t column = firstColumn; column < lastColumn;
         column += kPanelWidth)
      splitRun(band, from + column * g.channels,
               i * rowPixels + g.padLeft + column,
               std::min(kPanelWidth, lastColumn - column));
  }
}

/// Adds what parts of a step leave out for one tap: pixel by pixel, in f32.
void AMXConv::addLeftOut(const Band &band, int64_t tap, int64_t step,
                         const Panels &right, int64_t stepInGroup,
                         int64_t steps, const float *matrix) const {
  const int64_t all = pixels(bandRows), rowPixels = g.rowPixels();
  alignas(64) float wide[kPanelWidth];
  for (int64_t i = 0; i < sumRows(band.rows); ++i) {
    // The pixel of the image that the tap meets, if it is none of the zeros.
    const int64_t pixel = i + g.offsetOf(tap);
    const int64_t row = band.row + pixel / rowPixels - g.padTop;
    const int64_t column = pixel % rowPixels - g.padLeft;
    if (row < 0 || row >= g.height || column < 0 || column >= g.width)
      continue;
    // The channels of one step at that pixel.
    widen(source().type,
          source().at(((band.image * g.height + row) * g.width + column) *
                          g.channels +
                      step * kPanelWidth),
          wide, kPanelWidth);
    // Either the pixel or a filter may have been left out; the product is added
    // once for both.
    const bool isOut = band.isLeftOut[step * all + pixel];
    for (int64_t panel = 0; panel < panelsOf(g.filters); ++panel) {
      if (!isOut && !right.isLeftOut[panel * steps + stepInGroup])
        continue;
      addBlockProduct(wide, matrix + panel * kPanelWidth, columns(),
                      band.sums + i * columns() + panel * kPanelWidth,
                      columns(), 1);
    }
  }
}

/// Adds the products of a tap and of a group of steps of the channels.
void AMXConv::multiplyTap(const Band &band, int64_t tap, int64_t group,
                          const std::byte *shared) const {
  const int64_t all = pixels(bandRows), step = group * groupSteps;
  const int64_t steps = std::min(groupSteps, g.steps() - step);
  std::byte *packed = const_cast<std::byte *>(shared) + panelsOffset +
                      size_t(tap * groups() + group) * groupBytes;
  const Panels right = Panels::at(packed, panelsOf(g.filters), steps, parts);
  const LeftOperand left{band.parts + (step * parts * all + g.offsetOf(tap)) *
                                          kPixelBytes,
                         kPixelBytes, all * kPixelBytes,
                         parts * all * kPixelBytes, kPanelWidth * kPixelBytes};
  const ProductSums sums{band.sums, columns(), sumRows(band.rows), g.filters};
  (isPortable ? multiplyPanelsPortably : multiplyPanels)(
      left, right, steps, sums, tap == 0 && group == 0);

  // What the image or the filters leave out.
  const bool *marks = right.isLeftOut;
  const bool leavesOut =
      *band.leavesOut || std::any_of(marks, marks + panelsOf(g.filters) * steps,
                                     [](bool mark) { return mark; });
  if (!leavesOut)
    return;
  const auto *matrices = reinterpret_cast<const float *>(shared);
  for (int64_t i = 0; i < steps; ++i)
    addLeftOut(band, tap, step + i, right, i, steps,
               matrices + matrixAt(tap, step + i));
}

/// Hands rows of the result on, without what lies behind their ends.
void AMXConv::finish(const Band &band) const {
  for (int64_t i = 0; i < band.rows; ++i) {
    float *sums = band.sums + i * g.rowPixels() * columns();
    const int64_t pixel =
        (band.image * g.outHeight + band.row + i) * g.outWidth;
    if (epilogue) {
      epilogue(sums, pixel, g.outWidth, 0, g.filters, columns());
      continue;
    }
    for (int64_t j = 0; j < g.outWidth; ++j)
      narrow(result().type, sums + j * columns(),
             result().at((pixel + j) * g.filters), g.filters);
  }
}

/// Band `index` of all, whose memory starts at `memory`.
AMXConv::Band AMXConv::bandAt(int64_t index, std::byte *memory) const {
  Band band;
  band.image = index / bands();
  band.row = index % bands() * bandRows;
  band.rows = std::min(bandRows, g.outHeight - band.row);
  band.sums = reinterpret_cast<float *>(memory);
  band.parts = memory + sumsBytes(bandRows);
  band.isLeftOut = reinterpret_cast<bool *>(band.parts + partsBytes(bandRows));
  band.leavesOut = band.isLeftOut + g.steps() * pixels(bandRows);
  return band;
}

void AMXConv::runImages(int64_t slice, const SliceContext &context) const {
  const int64_t first = slice * bandsPerSlice;
  const int64_t last = std::min(first + bandsPerSlice, g.batch * bands());
  auto forEachBand = [&](auto call) {
    for (int64_t index = first; index < last; ++index)
      call(bandAt(index, context.scratch + (index - first) * bandBytes()));
  };
  auto *widened = reinterpret_cast<float *>(context.scratch + widenedOffset);
  forEachBand([&](const Band &band) { splitBand(band, widened); });
  // A tap's filters stay in the cache for all bands.
  for (int64_t tap = 0; tap < g.taps(); ++tap)
    for (int64_t group = 0; group < groups(); ++group)
      forEachBand([&](const Band &band) {
        multiplyTap(band, tap, group, context.shared);
      });
  forEachBand([&](const Band &band) { finish(band); });
}

Status AMXConv::runSlice(size_t phase, int64_t slice,
                         const SliceContext &context) {
  if (phase == 0)
    gatherFilters(slice, reinterpret_cast<float *>(context.shared));
  else if (phase == 1)
    packFilters(slice, context);
  else
    runImages(slice, context);
  return Status();
}

//===----------------------------------------------------------------------===//
// Choice
//===----------------------------------------------------------------------===//

/// Of measured rates: tiles at four fifths of 512 products of bf16 a cycle, 1.5
/// cycles to split an element, 8 to gather and pack one of the filters, and 8
/// bytes a cycle of packed filters, which every slice reads.
double AMXConv::estimateCycles() const {
  constexpr double kProducts = 0.8 * 512, kSplit = 1.5, kFilter = 8, kRead = 8;
  const double taps = double(g.taps()) * double(g.channels);
  const double weights = taps * double(columns());
  const double products = parts == 2 ? 4 : 6;
  const double band =
      double(wholePanels(sumRows(bandRows))) * weights * products / kProducts +
      double(pixels(bandRows) * g.channels) * kSplit;
  const double perSlice =
      weights * double(parts * int64_t(sizeof(uint16_t))) / kRead;
  return double(g.batch * bands()) * band + weights * kFilter +
         double(phaseSlices[2]) * perSlice;
}

/// Pixels of the result, of one axis, that meet the image at each tap.
static double countMet(int64_t out, int64_t in, int64_t kernel,
                       int64_t dilation, int64_t pad) {
  double met = 0;
  for (int64_t tap = 0; tap < kernel; ++tap) {
    const int64_t shift = tap * dilation - pad;
    met += double(std::max<int64_t>(0, std::min(out, in - shift) -
                                           std::max<int64_t>(0, -shift)));
  }
  return met;
}

/// At 20 products a cycle, none of zeros around an image.
double AMXConv::estimateLibraryCycles() const {
  constexpr double kProducts = 20;
  const double met =
      countMet(g.outHeight, g.height, g.kernelHeight, g.dilationHeight,
               g.padTop) *
      countMet(g.outWidth, g.width, g.kernelWidth, g.dilationWidth, g.padLeft);
  return double(g.batch) * met * double(g.channels) * double(g.filters) /
         kProducts;
}

/// The convolution of a step, in two dimensions.
static Geometry geometryOf(const ConvStep &step) {
  // A convolution along one axis is one of images that are one row high.
  auto at = [](const std::vector<int64_t> &values, size_t fromEnd,
               int64_t otherwise) {
    return fromEnd <= values.size() ? values[values.size() - fromEnd]
                                    : otherwise;
  };
  Geometry g;
  // The gradient by the input is a convolution of dy: channels and filters
  // exchange.
  g.isGradient = step.kind == ConvKind::InputGrad;
  g.batch = step.batch;
  g.channels = g.isGradient ? step.outChannels : step.inChannels;
  g.filters = g.isGradient ? step.inChannels : step.outChannels;
  const auto &in = g.isGradient ? step.outSpatial : step.inSpatial;
  const auto &out = g.isGradient ? step.inSpatial : step.outSpatial;
  g.height = at(in, 2, 1);
  g.width = at(in, 1, 1);
  g.outHeight = at(out, 2, 1);
  g.outWidth = at(out, 1, 1);
  g.kernelHeight = at(step.kernel, 2, 1);
  g.kernelWidth = at(step.kernel, 1, 1);
  g.dilationHeight = at(step.dilations, 2, 1);
  g.dilationWidth = at(step.dilations, 1, 1);
  g.padTop = at(step.padsBegin, 2, 0);
  g.padLeft = at(step.padsBegin, 1, 0);
  // A gradient's pixels meet the taps the other way round.
  if (g.isGradient) {
    g.padTop = g.extraRows() - g.padTop;
    g.padLeft = g.dilationWidth * (g.kernelWidth - 1) - g.padLeft;
  }
  return g;
}

std::unique_ptr<Contraction> prepareAMXConv(const ConvStep &step,
                                            ConvOperands &operands,
                                            const OneDNNConfig &config) {
  // Images and filters of one type that is a sum of parts.
  const DType type = operands.w.type;
  const bool isGradient = step.kind == ConvKind::InputGrad;
  const DType other = isGradient ? operands.y.type : operands.x.type;
  const bool hasTypes =
      type == other && (type == DType::F32 || type == DType::F16);
  const bool hasUnitStrides =
      std::all_of(step.strides.begin(), step.strides.end(),
                  [](int64_t stride) { return stride == 1; });
  if (!(config.hasAMX || config.emulatesAMX) || !hasTypes ||
      step.kind == ConvKind::WeightGrad || step.groups != 1 ||
      !hasUnitStrides || step.kernel.size() > 2 ||
      step.filterLayout != FilterLayout::OIHW)
    return nullptr;
  // Whole steps of channels, a panel of filters, and one row that fits.
  const Geometry geometry = geometryOf(step);
  const int64_t row = wholePanels(geometry.rowPixels()) *
                      std::max(geometry.channels, geometry.filters);
  if (geometry.channels % kPanelWidth != 0 || geometry.filters < kPanelWidth ||
      row * int64_t(sizeof(float)) > kMaxSumsBytes)
    return nullptr;
  ConvOperands copy = operands;
  auto conv = std::make_unique<AMXConv>(geometry, std::move(copy), config);
  // Dilations, small images and few of them make it slower than the library's:
  // rows between taps are split in vain, and filters are packed for few pixels.
  constexpr double kLeastGain = 0.7;
  const bool gains =
      conv->estimateCycles() < kLeastGain * conv->estimateLibraryCycles();
  return gains || config.emulatesAMX ? std::move(conv) : nullptr;
}

} // namespace mpc::runtime
