// Computes convolutions and image gradients of any groups, strides and
// dilations, for the shapes that oneDNN computes slowly: element by element,
// with a copy of the image for each tap, or with mostly empty vectors.
//
// A step computes a result from a source: the output from the image, or the
// image gradient from the output gradient. The lanes of a vector are channels
// of the result within a group, or one channel of 16 groups. If the result has
// few channels and the source many, lanes are channels of the source instead.
//
// Phase 0 packs the filters in the order of the lanes. A slice of phase 1
// computes some pixels of some rows of the result. First, the slice copies its
// part of the source, with padding, to scratch, unless it can read the source
// in place. Then it sums all taps of a few adjacent pixels in registers.
//
// A pixel of the result meets a tap if the tap multiplies a source pixel in
// the pixel's sum. In a gradient with stride s along an axis, pixels i and i +
// s meet the same taps, and pixels in between meet other taps. So there are s
// kinds of pixels. A slice computes all its pixels of one kind together.
// PackedTaps.h explains rows of taps, runs and terms.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/conv/DirectSums.h"
#include "runtime/cpu/conv/PackedTaps.h"
#include "runtime/cpu/conv/PixelCopies.h"
#include "runtime/cpu/conv/SumAxis.h"
#include "runtime/cpu/onednn/OneDNN.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <cstring>

namespace mpc::runtime {
namespace {

/// Limits the bytes of a slice's source rows and of a slice's sums, so that
/// both stay in a worker's cache.
constexpr int64_t kSourceBytes = 512 << 10, kResultBytes = 256 << 10;
/// Limits the elements of a source row, the kinds of pixels, and the taps of a
/// row. Convolutions beyond the limits are left to oneDNN.
constexpr int64_t kMostElements = int64_t(1) << 20, kMostKinds = 64,
                  kMostTaps = 4096;
/// This routine is faster if it processes at most kGain times as many vectors
/// as oneDNN. With fewer pixels than kFewestPixels, packing the filters takes
/// too long.
constexpr double kGain = 0.6;
constexpr int64_t kFewestPixels = 256;
/// The routine of oneDNN that computes image gradients with strides on AVX2
/// takes up to twice as long as this routine if sums have at most kFewTerms
/// terms.
constexpr int64_t kFewTerms = 256;
/// The number of slices to aim for, if the result has enough rows.
constexpr int64_t kWantedSlices = 16;

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

class DirectConv : public Contraction {
public:
  DirectConv(const ConvStep &step, const ConvOperands &operands,
             const OneDNNConfig &config);
  bool fits() const { return hasRoom; }
  bool beatsLibrary(const OneDNNConfig &config) const;
  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override;
  std::vector<void **> addresses() override {
    return addressesOf({&x, &w, &y}, epilogue);
  }

private:
  /// The lanes of a vector: channels of the result, groups, or channels of the
  /// source (the terms of a sum).
  enum class Lanes { Channels, Groups, Terms };
  /// The channels of the result in the lanes: `lanes` channels of a group from
  /// `channel` on, or channel `channel` of `lanes` groups from `group` on.
  struct Block {
    int64_t group, channel, lanes;
  };
  const Operand &source() const { return isGradient ? y : x; }
  const Operand &result() const { return isGradient ? x : y; }
  int64_t channels() const { return groups * perGroup; }
  bool lanesAreGroups() const { return lanes == Lanes::Groups; }
  int64_t lanesPerGroup() const { return lanesAreGroups() ? groups : perGroup; }
  int64_t lanesPerBlock() const {
    return lanes == Lanes::Terms ? kMostOutputs : kSumLanes;
  }
  Block blockOf(int64_t index) const;
  /// The channel of a block's first lane, counted from the first of all groups.
  int64_t resultChannel(const Block &block) const {
    return block.group * perGroup + block.channel;
  }

  void chooseLanes(int64_t all);
  double termVectors(int64_t lanes) const;
  void chooseSums(const OneDNNConfig &config);
  PackedTaps findTaps(SumKind kind);
  void chooseSlices(const OneDNNConfig &config);
  void packWeights(int64_t slice, const SliceContext &context) const;
  void runBand(int64_t slice, const SliceContext &context) const;
  void copyRow(const Block &block, int64_t row, int64_t first, int64_t count,
               float *run, std::byte *to) const;
  void spreadLanes(const float *vectors, int64_t vector, int64_t pixels,
                   const Block &block, float *to, int64_t step) const;
  void finish(const float *pixelSums, int64_t pixel, int64_t pixels) const;

  int64_t rowElements(int64_t pixels) const {
    // Elements from the first to the last source pixel that `pixels` pixels of
    // one kind meet, including pixels in between that no tap meets.
    return metPixels(pixels) * sourceLanes;
  }
  int64_t metPixels(int64_t pixels) const {
    return (pixels - 1) * width.sourceStep() + taps.span + 1;
  }
  int64_t rowsOfTaps() const { return depth.kernel * height.kernel; }
  int64_t bytesOf(int64_t elements) const {
    return elements * (hasPairs ? sizeof(uint16_t) : sizeof(float));
  }
  /// True if the sums of a block can go to the result before other blocks are
  /// computed.
  bool isDirect() const {
    return !epilogue && (hasFloats() || !lanesAreGroups() || perGroup == 1);
  }
  bool isStridedGradient() const {
    return depth.resultStep() * height.resultStep() * width.resultStep() > 1;
  }
  /// True if the channels of `block` fit half as many lanes, and the CPU's
  /// vectors are short enough to gain by it.
  bool fillsHalfVectors(const Block &block) const {
    return lanes == Lanes::Channels && !hasPairs &&
           block.lanes <= kSumLanes / 2 && floatLanes() <= kSumLanes / 2;
  }
  bool hasFloats() const { return result().type == DType::F32; }
  bool readsInPlace(int64_t start, int64_t pixels) const {
    return lanes != Lanes::Groups && groups == 1 &&
           sourceLanes == sumChannels &&
           source().type == (hasPairs ? DType::BF16 : DType::F32) &&
           start >= 0 && start + metPixels(pixels) <= width.source;
  }

  const bool isGradient;
  Operand x, w, y;
  EpilogueCall epilogue;
  SumAxis depth, height, width;
  int64_t batch, groups;
  int64_t perGroup;    ///< channels of the result in a group
  int64_t sumChannels; ///< channels of the source in a group
  int64_t outPerGroup, inPerGroup;
  int64_t metTaps; ///< number of taps that a pixel of the result meets
  Lanes lanes = Lanes::Channels;
  bool hasPairs = false; ///< source and weights are bf16
  /// Number of Blocks for all lanes of one group, and of all Blocks. If lanes
  /// are groups, `laneBlocks` counts the Blocks for one channel of all groups.
  int64_t laneBlocks, blocks;
  int64_t sourceLanes;            ///< elements of a source pixel in scratch
  SumFunction sums[kMostOutputs]; ///< sums[i] computes i + 1 outputs at once
  SumFunction halfSums = runtime::chooseSums(SumKind::SharedHalf, 1);

  bool hasRoom = true;
  PackedTaps taps;
  /// The planes along the depth axis that a slice computes, and the number of
  /// bands into which the planes of an image are divided.
  int64_t bandPlanes = 1, planeBands = 1;
  int64_t bandRows = 1, rowBands = 1;
  /// A row of the result is divided into `parts` parts. A slice computes one
  /// part, `partPixels` pixels of each kind.
  int64_t partPixels = 1, parts = 1;
  size_t resultOffset = 0, laneOffset = 0, runOffset = 0, rowsOffset = 0;
};

} // namespace

DirectConv::DirectConv(const ConvStep &step, const ConvOperands &operands,
                       const OneDNNConfig &config)
    : isGradient(step.kind == ConvKind::InputGrad), x(operands.x),
      w(operands.w), y(operands.y), epilogue(operands.epilogue),
      batch(step.batch), groups(step.groups),
      outPerGroup(step.outChannels / step.groups),
      inPerGroup(step.inChannels / step.groups) {
  SumAxis *axes[] = {&width, &height, &depth};
  const size_t rank = step.kernel.size();
  for (SumAxis *axis : axes)
    axis->isGradient = isGradient;
  for (size_t i = 0; i < rank; ++i) {
    const int64_t in = step.inSpatial[i], out = step.outSpatial[i];
    *axes[rank - 1 - i] = {isGradient ? out : in,
                           isGradient ? in : out,
                           step.kernel[i],
                           step.strides[i],
                           step.dilations[i],
                           step.padsBegin[i],
                           isGradient};
  }
  perGroup = isGradient ? inPerGroup : outPerGroup;
  sumChannels = isGradient ? outPerGroup : inPerGroup;
  hasRoom = width.kernel <= kMostTaps && width.resultStep() <= kMostKinds &&
            rowsOfTaps() <= kMostTaps;
  if (!hasRoom)
    return;
  chooseLanes(numElements(step.kernel));
  chooseSums(config);
  chooseSlices(config);
}

/// Returns the vectors per pixel and tap if lanes are terms. The final sum
/// across a vector counts as three vectors.
double DirectConv::termVectors(int64_t lanesOfTerms) const {
  constexpr double kAcross = 3;
  return double(channels()) * (double(ceilDiv(sumChannels, lanesOfTerms)) +
                               kAcross / double(metTaps));
}

/// Chooses channels, groups or terms as lanes: the choice that needs the fewest
/// vectors per pixel and tap.
void DirectConv::chooseLanes(int64_t all) {
  metTaps = all;
  for (const SumAxis *axis : {&depth, &height, &width})
    metTaps = ceilDiv(metTaps, axis->resultStep());
  const int64_t asChannels =
      groups * ceilDiv(perGroup, kSumLanes) * sumChannels;
  const int64_t asGroups = perGroup * sumChannels * ceilDiv(groups, kSumLanes);
  lanes = termVectors(kSumLanes) < double(std::min(asChannels, asGroups))
              ? Lanes::Terms
          : asGroups < asChannels ? Lanes::Groups
                                  : Lanes::Channels;
  laneBlocks = ceilDiv(lanesPerGroup(), lanesPerBlock());
  blocks = laneBlocks * (lanesAreGroups() ? perGroup : groups);
}

/// True for the shapes for which this routine was faster than oneDNN in
/// measurements. oneDNN fills vectors with result channels of one group, and
/// bf16 pairs with source channels.
bool DirectConv::beatsLibrary(const OneDNNConfig &config) const {
  const int64_t pixels = batch * depth.result * height.result * width.result;
  if (pixels < kFewestPixels)
    return false;
  if (lanes == Lanes::Terms && groups == 1) {
    // An AMX tile computes sixteen results in the time of one.
    if (config.hasAMX && hasPairs && perGroup > 1)
      return false;
    const int64_t floats = floatLanes(), each = hasPairs ? 2 : 1;
    const double library =
        double(ceilDiv(perGroup, floats) * sumChannels) / double(each);
    return termVectors(each * floats) <= kGain * library;
  }
  if (lanesAreGroups())
    return groups >= kSumLanes && perGroup * sumChannels > 1 &&
           perGroup * sumChannels <= 4;
  if (isStridedGradient() && floatLanes() == kSumLanes / 2)
    return groups == 1 && perGroup % (kSumLanes / 2) == 0 &&
           metTaps * sumChannels <= kFewTerms;
  return hasPairs && groups == 1 && sumChannels == 1 && perGroup <= kSumLanes &&
         metTaps >= 25;
}

/// Returns the packed order of the weights for sums of `kind`, and sets
/// `sourceLanes`.
PackedTaps DirectConv::findTaps(SumKind kind) {
  sourceLanes = sumChannels;
  if (lanesAreGroups())
    sourceLanes *= kSumLanes;
  if (lanes == Lanes::Terms)
    sourceLanes = ceilDiv(sumChannels, wholeTerms(kind)) * wholeTerms(kind);
  return {width, kind, lanes == Lanes::Terms ? sourceLanes : sumChannels,
          sourceLanes};
}

void DirectConv::chooseSums(const OneDNNConfig &config) {
  const bool mayPair = config.nativeBF16 && !lanesAreGroups() &&
                       source().type == DType::BF16 && w.type == DType::BF16;
  const bool isDots = lanes == Lanes::Terms;
  // Try pairs of bf16 terms first. Use single terms if runs are too short for
  // pairs to pay.
  SumKind kind = isDots ? SumKind::DotPairs : SumKind::SharedPairs;
  if (mayPair)
    taps = findTaps(kind);
  hasPairs = mayPair && taps.gainsByPairs();
  if (!hasPairs) {
    kind = lanesAreGroups() ? SumKind::Own
           : isDots         ? SumKind::Dots
                            : SumKind::Shared;
    taps = findTaps(kind);
  }
  for (int64_t outputs = 1; outputs <= kMostOutputs; ++outputs)
    sums[outputs - 1] = runtime::chooseSums(kind, outputs);
}

void DirectConv::chooseSlices(const OneDNNConfig &config) {
  const int64_t kindCount = int64_t(taps.kinds.size());
  const int64_t all = ceilDiv(width.result, width.resultStep());
  auto resultElements = [&]() -> int64_t {
    if (isDirect())
      return 0;
    return bandPlanes * bandRows * partPixels * kindCount * channels();
  };
  auto sourceElements = [&] {
    return depth.countMet(bandPlanes) * height.countMet(bandRows) *
           rowElements(partPixels);
  };
  // Halve the pixels until the sums and the source of one row fit the cache.
  partPixels = all;
  auto isLarge = [&] {
    return resultElements() * int64_t(sizeof(float)) > kResultBytes ||
           bytesOf(rowElements(partPixels)) > kSourceBytes / 4;
  };
  while (partPixels > 16 && isLarge())
    partPixels = ceilDiv(partPixels, 2);
  parts = ceilDiv(all, partPixels);
  hasRoom = rowElements(partPixels) <= kMostElements &&
            resultElements() <= kMostElements;
  if (!hasRoom)
    return;

  // Take as many rows as fit the cache, then planes, but leave enough slices.
  const int64_t wanted = std::min(kWantedSlices, 4 * int64_t(config.workers));
  auto fits = [&] {
    return bytesOf(sourceElements()) <= kSourceBytes &&
           resultElements() * int64_t(sizeof(float)) <= kResultBytes;
  };
  auto slices = [&] {
    planeBands = ceilDiv(depth.result, bandPlanes);
    rowBands = ceilDiv(height.result, bandRows);
    return batch * planeBands * rowBands * parts;
  };
  bandRows = height.result;
  while (bandRows > 1 && !fits())
    bandRows = ceilDiv(bandRows, 2);
  while (bandRows > 4 && slices() < wanted)
    bandRows = ceilDiv(bandRows, 2);
  while (bandPlanes < depth.result) {
    const int64_t before = bandPlanes;
    bandPlanes = std::min(2 * bandPlanes, depth.result);
    if (fits() && slices() >= wanted)
      continue;
    bandPlanes = before;
    break;
  }
  phaseSlices = {blocks, slices()};
  hasRoom = sourceElements() <= 8 * kMostElements;

  auto floats = [](int64_t count) {
    return alignScratch(size_t(count) * sizeof(float));
  };
  // Scratch holds source rows, sums of all channels, sums of a block, a pixel
  // and a list of rows. In phase 0, scratch holds filters.
  resultOffset = alignScratch(size_t(bytesOf(sourceElements())));
  laneOffset = resultOffset + floats(resultElements());
  runOffset = laneOffset + floats(partPixels * kSumLanes);
  rowsOffset = runOffset + floats(sourceLanes);
  scratchSize =
      std::max(rowsOffset + alignScratch(size_t(rowsOfTaps()) * sizeof(SumRow)),
               alignScratch(taps.scratchBytes(rowsOfTaps())));
  sharedSize =
      alignScratch(size_t(bytesOf(blocks * rowsOfTaps() * taps.rowElements())));
}

DirectConv::Block DirectConv::blockOf(int64_t index) const {
  const int64_t first = index % laneBlocks * lanesPerBlock();
  const int64_t count = std::min(lanesPerBlock(), lanesPerGroup() - first);
  index /= laneBlocks;
  return lanesAreGroups() ? Block{first, index, count}
                          : Block{index, first, count};
}

Status DirectConv::runSlice(size_t phase, int64_t slice,
                            const SliceContext &context) {
  if (phase == 0)
    packWeights(slice, context);
  else
    runBand(slice, context);
  return Status();
}

/// Packs the weights of one Block.
void DirectConv::packWeights(int64_t slice, const SliceContext &context) const {
  const Block block = blockOf(slice);
  const int64_t filter = block.group * outPerGroup * inPerGroup +
                         block.channel * (isGradient ? 1 : inPerGroup);
  const FilterLanes filters = {&w,
                               rowsOfTaps(),
                               block.lanes,
                               sumChannels,
                               filter,
                               lanesAreGroups() ? outPerGroup * inPerGroup
                               : isGradient     ? 1
                                                : inPerGroup,
                               isGradient ? inPerGroup : 1};
  taps.pack(filters,
            context.shared + slice * bytesOf(rowsOfTaps() * taps.rowElements()),
            context.scratch);
}

/// Copies pixels [first, first + count) of a source row to scratch, in the
/// layout [pixel][channel], or [pixel][channel][lane] if lanes are groups.
/// Pixels outside the row become zeros. `run` is scratch for one pixel.
void DirectConv::copyRow(const Block &block, int64_t row, int64_t first,
                         int64_t count, float *run, std::byte *to) const {
  const Operand &from = source();
  const int64_t begin = std::clamp<int64_t>(-first, 0, count);
  const int64_t end = std::clamp<int64_t>(width.source - first, begin, count);
  auto bytesOfPixels = [&](int64_t pixels) {
    return bytesOf(pixels * sourceLanes);
  };
  std::memset(to, 0, size_t(bytesOfPixels(begin)));
  std::memset(to + bytesOfPixels(end), 0, size_t(bytesOfPixels(count - end)));
  if (begin == end)
    return;
  to += bytesOfPixels(begin);
  // The channels of a source pixel are laid out as [group][channel].
  const int64_t step = groups * sumChannels;
  const std::byte *at = from.at((row * width.source + first + begin) * step +
                                block.group * sumChannels);
  const PixelChannels pixels = {end - begin, sumChannels, step};
  auto *floats = reinterpret_cast<float *>(to);
  if (lanesAreGroups())
    widenGroups(from.type, at, pixels, block.lanes, run, floats,
                {kSumLanes, sourceLanes});
  else if (hasPairs)
    copyPixels(reinterpret_cast<const uint16_t *>(at), pixels,
               reinterpret_cast<uint16_t *>(to), sourceLanes);
  else
    widenPixels(from.type, at, pixels, floats, sourceLanes);
}

void DirectConv::runBand(int64_t slice, const SliceContext &context) const {
  const int64_t part = slice % parts;
  slice /= parts;
  const int64_t firstRow = slice % rowBands * bandRows;
  slice /= rowBands;
  const int64_t firstPlane = slice % planeBands * bandPlanes;
  const int64_t image = slice / planeBands;
  const SumBand rows(height, firstRow,
                     std::min(bandRows, height.result - firstRow));
  const SumBand planes(depth, firstPlane,
                       std::min(bandPlanes, depth.result - firstPlane));
  // `firstOfKind` counts the pixels of one kind, `first` all pixels of a row.
  const int64_t kindCount = int64_t(taps.kinds.size()),
                step = width.resultStep();
  const int64_t firstOfKind = part * partPixels, first = firstOfKind * step;
  const int64_t pixels = std::min(partPixels * step, width.result - first);

  auto *ownSums = reinterpret_cast<float *>(context.scratch + resultOffset);
  auto *someLanes = reinterpret_cast<float *>(context.scratch + laneOffset);
  auto *run = reinterpret_cast<float *>(context.scratch + runOffset);
  auto *list = reinterpret_cast<SumRow *>(context.scratch + rowsOffset);
  const int64_t leading = bytesOf(rowElements(partPixels));
  const int64_t start = taps.firstPlace + firstOfKind * width.sourceStep();
  const bool isInPlace = readsInPlace(start, ceilDiv(pixels, step));
  auto sourceRow = [&](int64_t plane, int64_t row) {
    return (image * depth.source + plane) * height.source + row;
  };
  auto copyAt = [&](int64_t plane, int64_t row) {
    return context.scratch +
           ((plane - planes.low) * rows.places + row - rows.low) * leading;
  };
  auto pixelAt = [&](int64_t plane, int64_t row) {
    return ((image * depth.result + planes.first + plane) * height.result +
            rows.first + row) *
               width.result +
           first;
  };
  // Sums go to the result itself if no other block changes them.
  auto sumsAt = [&](int64_t plane, int64_t row) {
    return isDirect()
               ? reinterpret_cast<float *>(
                     result().at(pixelAt(plane, row) * channels()))
               : ownSums + (plane * rows.count + row) * pixels * channels();
  };
  for (int64_t index = 0; index < blocks; ++index) {
    const Block block = blockOf(index);
    const bool hasSameSource = lanesAreGroups()
                                   ? index >= laneBlocks && laneBlocks == 1
                                   : index % laneBlocks != 0;
    for (int64_t i = 0; i < planes.places && !isInPlace && !hasSameSource; ++i)
      for (int64_t j = 0; j < rows.places; ++j)
        if (planes.isMet[size_t(i)] && rows.isMet[size_t(j)])
          copyRow(block, sourceRow(planes.low + i, rows.low + j), start,
                  metPixels(ceilDiv(pixels, step)), run,
                  copyAt(planes.low + i, rows.low + j));
    // Store whole vectors of adjacent channels directly, others by way of
    // scratch.
    const bool isHalf = fillsHalfVectors(block);
    const int64_t vector = lanes == Lanes::Terms ? block.lanes
                           : isHalf              ? kSumLanes / 2
                                                 : kSumLanes;
    const bool isNarrowed = isDirect() && !hasFloats();
    const bool isPart = !isNarrowed && block.lanes == vector &&
                        (!lanesAreGroups() || perGroup == 1);
    const SumFunction sumPixels = lanes == Lanes::Terms ? sums[block.lanes - 1]
                                  : isHalf              ? halfSums
                                                        : sums[0];
    for (int64_t at = 0; at < planes.count * rows.count; ++at) {
      const int64_t plane = at / rows.count, row = at % rows.count;
      int64_t count = 0;
      for (int64_t depthTap = 0; depthTap < depth.kernel; ++depthTap)
        for (int64_t rowTap = 0; rowTap < height.kernel; ++rowTap) {
          int64_t inPlane, inRow;
          if (!depth.meets(planes.first + plane, depthTap, inPlane) ||
              !depth.holds(inPlane) ||
              !height.meets(rows.first + row, rowTap, inRow) ||
              !height.holds(inRow))
            continue;
          const int64_t weightsRow =
              (index * depth.kernel + depthTap) * height.kernel + rowTap;
          list[count++] = {
              isInPlace
                  ? source().at(
                        (sourceRow(inPlane, inRow) * width.source + start) *
                        sumChannels)
                  : copyAt(inPlane, inRow),
              context.shared + bytesOf(weightsRow * taps.rowElements())};
        }
      for (int64_t kind = 0; kind < kindCount; ++kind) {
        const int64_t ofKind = (pixels - kind + step - 1) / step;
        const PackedTaps::Kind &runs = taps.kinds[size_t(kind)];
        if (ofKind <= 0)
          continue;
        float *to = isNarrowed ? nullptr
                               : sumsAt(plane, row) + kind * channels() +
                                     resultChannel(block);
        const int64_t toStep = step * channels();
        sumPixels({list, count, runs.data(), int64_t(runs.size()),
                   width.sourceStep() * sourceLanes, taps.outputStep,
                   isPart ? to : someLanes, isPart ? toStep : vector},
                  ofKind);
        if (isPart)
          continue;
        if (isNarrowed)
          narrowPixels(result().type, someLanes, vector,
                       {ofKind, block.lanes, toStep},
                       result().at((pixelAt(plane, row) + kind) * channels() +
                                   resultChannel(block)));
        else
          spreadLanes(someLanes, vector, ofKind, block, to, toStep);
      }
    }
  }

  // If slices have whole rows, the rows of a plane are adjacent and finished at
  // once.
  const int64_t together = parts == 1 ? rows.count : 1;
  for (int64_t plane = 0; plane < planes.count && !isDirect(); ++plane)
    for (int64_t row = 0; row < rows.count; row += together)
      finish(sumsAt(plane, row), pixelAt(plane, row), together * pixels);
}

/// Copies sums from vectors of `vector` lanes to the channels that the lanes
/// stand for. `to` is the channel of the first lane; `step` is the distance
/// between pixels.
void DirectConv::spreadLanes(const float *vectors, int64_t vector,
                             int64_t pixels, const Block &block, float *to,
                             int64_t step) const {
  const int64_t next = lanesAreGroups() ? perGroup : 1;
  for (int64_t pixel = 0; pixel < pixels; ++pixel)
    for (int64_t lane = 0; lane < block.lanes; ++lane)
      to[pixel * step + lane * next] = vectors[pixel * vector + lane];
}

/// Passes the sums of all channels of some pixels to the epilogue, or rounds
/// the sums to the result.
void DirectConv::finish(const float *pixelSums, int64_t pixel,
                        int64_t pixels) const {
  if (epilogue)
    epilogue(const_cast<float *>(pixelSums), pixel, pixels, 0, channels(),
             channels());
  else
    narrow(result().type, pixelSums, result().at(pixel * channels()),
           pixels * channels());
}

static std::unique_ptr<DirectConv> makeDirectConv(const ConvStep &step,
                                                  const ConvOperands &operands,
                                                  const OneDNNConfig &config) {
  if (step.kind == ConvKind::WeightGrad)
    return nullptr;
  auto conv = std::make_unique<DirectConv>(step, operands, config);
  return conv->fits() ? std::move(conv) : nullptr;
}

std::unique_ptr<Contraction> prepareDirectConv(const ConvStep &step,
                                               const ConvOperands &operands,
                                               const OneDNNConfig &config) {
  return makeDirectConv(step, operands, config);
}

std::unique_ptr<Contraction>
prepareFasterDirectConv(const ConvStep &step, const ConvOperands &operands,
                        const OneDNNConfig &config) {
  auto conv = makeDirectConv(step, operands, config);
  return conv && conv->beatsLibrary(config) ? std::move(conv) : nullptr;
}

} // namespace mpc::runtime
