// Convolutions of f16 and f32 images with AMX, and their input gradients, which
// are convolutions of output gradients with reversed filters. Images are NHWC
// and strides 1.
//
// An image with its zero padding is a list of pixels, row after row. Each tap
// of the filter is a matrix product: the pixels from the tap's offset on, as
// they lie, times the tap's matrix of channels x filters. At the end of each
// image row, kernel - 1 surplus pixels are multiplied too. A step is 32
// channels, and a band is adjacent rows of one image.
//
// Phases:
//
//   gather  Gathers the filters in f32: a matrix of channels x filters per tap.
//   pack    Packs these matrices as right operands.
//   images  Takes some images, or a band of an image. Splits the pixels into
//           terms (AMXPanels.h) once for all taps, and multiplies tap after
//           tap. Then passes each row to the epilogue, or rounds it.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/amx/AMXPanels.h"
#include "runtime/cpu/onednn/OneDNN.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <cstring>

namespace mpc::runtime {
namespace {

/// Limits the bytes of a slice's sums, and of a slice's pixels after the split
/// into bf16 terms (AMXPanels.h). Both stay in the worker's cache.
constexpr int64_t kMaxSumsBytes = 512 << 10, kMaxTermsBytes = 768 << 10;
/// With at least this many images in the batch, there are at least this many
/// slices.
constexpr int64_t kFewestSlices = 8;

/// A convolution of images of height x width x channels with filters of
/// kernelHeight x kernelWidth taps.
struct BlockedConv {
  int64_t batch, channels, filters;
  int64_t height, width, outHeight, outWidth;
  int64_t kernelHeight, kernelWidth, dilationHeight, dilationWidth;
  int64_t padTop, padLeft;
  bool isGradient; ///< input gradient: the taps are read in reverse

  int64_t taps() const { return kernelHeight * kernelWidth; }
  int64_t steps() const { return channels / kPanelWidth; }
  int64_t extraRows() const { return dilationHeight * (kernelHeight - 1); }
  /// Pixels of a row including its zero padding.
  int64_t rowPixels() const {
    return outWidth + dilationWidth * (kernelWidth - 1);
  }
  /// The distance in pixels from an output pixel to the pixel that `tap` reads.
  int64_t offsetOf(int64_t tap) const {
    return tap / kernelWidth * dilationHeight * rowPixels() +
           tap % kernelWidth * dilationWidth;
  }
};

class AMXConv : public Contraction {
public:
  AMXConv(const BlockedConv &geometry, ConvOperands operands,
          const OneDNNConfig &config)
      : g(geometry), isPortable(!config.hasAMX), x(operands.x), w(operands.w),
        y(operands.y), epilogue(std::move(operands.epilogue)),
        terms(termsOf(w.type)), groupSteps(chunkStepsOf(terms)) {
    chooseSlices();
    layOutMemory();
  }

  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override;
  std::vector<void **> addresses() override {
    return addressesOf({&x, &w, &y}, epilogue);
  }

  /// Estimates the cycles that one thread takes for the whole step, with this
  /// routine and with oneDNN.
  double estimateCycles() const;
  double estimateLibraryCycles() const;

private:
  /// A band of one image: rows [row, row + rows) of the result, and the memory
  /// for their sums and for the pixels they read.
  struct Band {
    int64_t image, row, rows;
    float *sums;
    std::byte *terms; ///< [step][term][pixel][32 channels]
    bool *isLeftOut;  ///< [step][pixel]: true if no bf16 terms represent it
    bool *leavesOut;  ///< true if any pixel is left out
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
  /// Pixels whose sums are computed for `rows` rows of the result, including
  /// the surplus pixels at row ends.
  int64_t sumRows(int64_t rows) const {
    return (rows - 1) * g.rowPixels() + g.outWidth;
  }
  /// Padded pixels that `rows` rows of the result read, if the sums are rounded
  /// up to whole panels.
  int64_t pixels(int64_t rows) const {
    return wholePanels(sumRows(rows)) + g.offsetOf(g.taps() - 1);
  }
  int64_t sumsBytes(int64_t rows) const {
    return wholePanels(sumRows(rows)) * columns() * int64_t(sizeof(float));
  }
  int64_t termsBytes(int64_t rows) const {
    return g.steps() * terms * pixels(rows) * kPixelBytes;
  }
  int64_t bandBytes() const {
    return sumsBytes(bandRows) + termsBytes(bandRows) +
           int64_t(alignScratch(size_t(g.steps() * pixels(bandRows) + 1)));
  }
  int64_t bands() const { return (g.outHeight + bandRows - 1) / bandRows; }
  /// Offset in elements of the matrix of `tap`, from channel 32 * `step` on, in
  /// the gathered filters.
  int64_t matrixAt(int64_t tap, int64_t step) const {
    return (tap * g.channels + step * kPanelWidth) * columns();
  }

  static constexpr int64_t kPixelBytes = kPanelWidth * sizeof(uint16_t);

  const BlockedConv g;
  const bool isPortable;
  Operand x, w, y;
  EpilogueCall epilogue;
  const int64_t terms;      ///< per element
  const int64_t groupSteps; ///< steps of 32 channels multiplied at once
  int64_t bandRows = 1, bandsPerSlice = 1;
  size_t panelsOffset = 0, groupBytes = 0; ///< of packed filters, in shared
  size_t widenedOffset = 0; ///< of an image row in f32, in scratch
};

} // namespace

//===----------------------------------------------------------------------===//
// Preparation
//===----------------------------------------------------------------------===//

/// Chooses the work of a slice: as many rows of an image as fit the cache, or
/// as many whole images.
void AMXConv::chooseSlices() {
  auto fits = [&](int64_t rows, int64_t images) {
    return images * sumsBytes(rows) <= kMaxSumsBytes &&
           images * termsBytes(rows) <= kMaxTermsBytes;
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
  // Shared: the filters' matrices and panels, which all workers read.
  panelsOffset =
      alignScratch(size_t(g.taps() * g.channels * columns()) * sizeof(float));
  groupBytes = alignScratch(
      size_t(Panels::bytes(panelsOf(g.filters), groupSteps, terms)));
  sharedSize = panelsOffset + size_t(g.taps() * groups()) * groupBytes;
  // Per worker: the bands, and an image row in f32.
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

/// Copies channels [32 * step, 32 * step + 32) of all filters to f32 matrices
/// of channels x filters, one matrix per tap. In the source, the taps of a
/// filter's channel are contiguous.
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
                 panelsOf(g.filters), steps, terms));
}

//===----------------------------------------------------------------------===//
// Images
//===----------------------------------------------------------------------===//

/// Splits `count` pixels of an image, at most 32, into bf16 terms, and stores
/// the terms from pixel `pixel` of the band on.
void AMXConv::splitRun(const Band &band, const float *from, int64_t pixel,
                       int64_t count) const {
  alignas(64) float padded[kBlockElements];
  alignas(64) uint16_t block[3 * kBlockElements];
  const int64_t all = pixels(bandRows);
  for (int64_t step = 0; step < g.steps(); ++step, from += kPanelWidth) {
    // Blocks have 32 pixels, so fill up with zeros.
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
    // Split into 2 or 3 bf16 numbers. If no bf16 sum represents some value,
    // such as an infinity, all pixels of this run are left out here and
    // multiplied in f32 later.
    const bool could =
        splitBlock(BlockOrder::InRows, rows, leading, terms, block);
    std::fill_n(band.isLeftOut + step * all + pixel, count, !could);
    *band.leavesOut |= !could;
    // The first terms of all pixels lie together, then the second terms. Pixels
    // that no terms represent are stored as zeros.
    for (int64_t term = 0; term < terms; ++term) {
      std::byte *to =
          band.terms + ((step * terms + term) * all + pixel) * kPixelBytes;
      if (could)
        std::memcpy(to, block + term * kBlockElements,
                    size_t(count * kPixelBytes));
      else
        std::memset(to, 0, size_t(count * kPixelBytes));
    }
  }
}

/// Splits all pixels that a band reads, including the zero padding.
void AMXConv::splitBand(const Band &band, float *widened) const {
  // Clear first, since the padding is never written.
  const int64_t all = pixels(bandRows), rowPixels = g.rowPixels();
  std::memset(band.terms, 0, size_t(termsBytes(bandRows)));
  std::fill_n(band.isLeftOut, g.steps() * all, false);
  *band.leavesOut = false;
  // The columns of the image that lie within the padded rows.
  const int64_t firstColumn = std::max<int64_t>(0, -g.padLeft);
  const int64_t lastColumn = std::min(g.width, rowPixels - g.padLeft);
  for (int64_t i = 0; i < band.rows + g.extraRows(); ++i) {
    const int64_t row = band.row + i - g.padTop;
    if (row < 0 || row >= g.height)
      continue;
    const int64_t first = (band.image * g.height + row) * g.width * g.channels;
    // Widen 16-bit pixels to f32, row by row.
    const auto *from = reinterpret_cast<const float *>(source().at(first));
    if (source().type != DType::F32) {
      widen(source().type, source().at(first), widened, g.width * g.channels);
      from = widened;
    }
    for (int64_t column = firstColumn; column < lastColumn;
         column += kPanelWidth)
      splitRun(band, from + column * g.channels,
               i * rowPixels + g.padLeft + column,
               std::min(kPanelWidth, lastColumn - column));
  }
}

/// Adds the products of one tap and one step in f32, for those pixels and
/// filters that no bf16 terms represent.
void AMXConv::addLeftOut(const Band &band, int64_t tap, int64_t step,
                         const Panels &right, int64_t stepInGroup,
                         int64_t steps, const float *matrix) const {
  const int64_t all = pixels(bandRows), rowPixels = g.rowPixels();
  alignas(64) float wide[kPanelWidth];
  for (int64_t i = 0; i < sumRows(band.rows); ++i) {
    // A tap on the zero padding adds nothing.
    const int64_t pixel = i + g.offsetOf(tap);
    const int64_t row = band.row + pixel / rowPixels - g.padTop;
    const int64_t column = pixel % rowPixels - g.padLeft;
    if (row < 0 || row >= g.height || column < 0 || column >= g.width)
      continue;
    widen(source().type,
          source().at(((band.image * g.height + row) * g.width + column) *
                          g.channels +
                      step * kPanelWidth),
          wide, kPanelWidth);
    // The pixel, the filter block or both may be left out of the AMX product.
    // In each case, add the product once.
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

/// Multiplies the band's pixels by one tap, over one group of steps, and adds
/// the product to the band's sums.
void AMXConv::multiplyTap(const Band &band, int64_t tap, int64_t group,
                          const std::byte *shared) const {
  const int64_t all = pixels(bandRows), step = group * groupSteps;
  const int64_t steps = std::min(groupSteps, g.steps() - step);
  std::byte *packed = const_cast<std::byte *>(shared) + panelsOffset +
                      size_t(tap * groups() + group) * groupBytes;
  const Panels right = Panels::at(packed, panelsOf(g.filters), steps, terms);
  const LeftOperand left{band.terms + (step * terms * all + g.offsetOf(tap)) *
                                          kPixelBytes,
                         kPixelBytes, all * kPixelBytes,
                         terms * all * kPixelBytes, kPanelWidth * kPixelBytes};
  const ProductSums sums{band.sums, columns(), sumRows(band.rows), g.filters};
  (isPortable ? multiplyPanelsPortably : multiplyPanels)(
      left, right, steps, sums, tap == 0 && group == 0);

  // Add, in f32, the products that AMX left out because no bf16 terms represent
  // the pixel or the filter.
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

/// Passes the result rows to the epilogue, or rounds the rows to the result's
/// type. Drops the surplus pixels at row ends.
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

/// Returns band `index`, with its memory at `memory`.
AMXConv::Band AMXConv::bandAt(int64_t index, std::byte *memory) const {
  Band band;
  band.image = index / bands();
  band.row = index % bands() * bandRows;
  band.rows = std::min(bandRows, g.outHeight - band.row);
  band.sums = reinterpret_cast<float *>(memory);
  band.terms = memory + sumsBytes(bandRows);
  band.isLeftOut = reinterpret_cast<bool *>(band.terms + termsBytes(bandRows));
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
  // All bands use a tap's filters while they are in the cache.
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

/// Based on measured rates: AMX at four fifths of 512 bf16 products a cycle,
/// 1.5 cycles to split an element, and 8 cycles to gather and pack a filter
/// element. Every slice reads the packed filters at 8 bytes a cycle.
double AMXConv::estimateCycles() const {
  constexpr double kProducts = 0.8 * 512, kSplit = 1.5, kFilter = 8, kRead = 8;
  const double taps = double(g.taps()) * double(g.channels);
  const double weights = taps * double(columns());
  const double products = terms == 2 ? 4 : 6;
  const double band =
      double(wholePanels(sumRows(bandRows))) * weights * products / kProducts +
      double(pixels(bandRows) * g.channels) * kSplit;
  const double perSlice =
      weights * double(terms * int64_t(sizeof(uint16_t))) / kRead;
  return double(g.batch * bands()) * band + weights * kFilter +
         double(phaseSlices[2]) * perSlice;
}

/// Counts, along one axis, the pairs of an output pixel and a tap that read a
/// pixel of the image.
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

/// Estimates oneDNN's cycles: 20 multiply-adds a cycle, and none for the zero
/// padding.
double AMXConv::estimateLibraryCycles() const {
  constexpr double kProducts = 20;
  const double met =
      countMet(g.outHeight, g.height, g.kernelHeight, g.dilationHeight,
               g.padTop) *
      countMet(g.outWidth, g.width, g.kernelWidth, g.dilationWidth, g.padLeft);
  return double(g.batch) * met * double(g.channels) * double(g.filters) /
         kProducts;
}

/// Returns the two-dimensional convolution of a step.
static BlockedConv geometryOf(const ConvStep &step) {
  // A convolution along one axis has images that are one row high.
  auto at = [](const std::vector<int64_t> &values, size_t fromEnd,
               int64_t otherwise) {
    return fromEnd <= values.size() ? values[values.size() - fromEnd]
                                    : otherwise;
  };
  BlockedConv g;
  // The input gradient is a convolution of dy, so channels and filters swap.
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
  // The gradient reads the taps in reverse, so the paddings change.
  if (g.isGradient) {
    g.padTop = g.extraRows() - g.padTop;
    g.padLeft = g.dilationWidth * (g.kernelWidth - 1) - g.padLeft;
  }
  return g;
}

std::unique_ptr<Contraction> prepareAMXConv(const ConvStep &step,
                                            ConvOperands &operands,
                                            const OneDNNConfig &config) {
  // Images and filters must have the same type, which bf16 terms can represent.
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
  // The channels must be a multiple of 32, there must be at least 32 filters,
  // and the sums of one row must fit the cache.
  const BlockedConv geometry = geometryOf(step);
  const int64_t row = wholePanels(geometry.rowPixels()) *
                      std::max(geometry.channels, geometry.filters);
  if (geometry.channels % kPanelWidth != 0 || geometry.filters < kPanelWidth ||
      row * int64_t(sizeof(float)) > kMaxSumsBytes)
    return nullptr;
  ConvOperands copy = operands;
  auto conv = std::make_unique<AMXConv>(geometry, std::move(copy), config);
  // Dilations, small images and small batches make this routine slower than
  // oneDNN: rows between dilated taps are split in vain, and filters are packed
  // for few pixels.
  constexpr double kLeastGain = 0.7;
  const bool gains =
      conv->estimateCycles() < kLeastGain * conv->estimateLibraryCycles();
  return gains || config.emulatesAMX ? std::move(conv) : nullptr;
}

} // namespace mpc::runtime
