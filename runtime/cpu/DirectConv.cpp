// Convolutions, and gradients of images, of any groups, strides and dilations,
// where the library has nothing better than loops over single elements or
// copies of the image for each tap.
//
// A step is one of a source image and a result. The lanes of a vector are
// channels of the result within a group, or of 16 groups the channels at the
// same place. The filters are put into that order first (phase 0). Then a slice
// makes some pixels of some rows of the result (phase 1): it puts what they
// meet of the source into scratch in f32, with its padding, and sums up all
// taps of a few neighbouring pixels in registers.
//
// A gradient meets the taps the other way round. Along an axis with strides its
// pixels are of as many kinds, each of which meets other taps; pixels of one
// kind are done together.
//
// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/CPUFeatures.h"
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/onednn/OneDNN.h"
#include "runtime/cpu/onednn/OneDNNProvider.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace mpc::runtime {
namespace {

constexpr int64_t kSumLanes = 16;
/// Bytes of a slice's source and result that stay in a worker's cache.
constexpr int64_t kSourceBytes = 512 << 10, kResultBytes = 256 << 10;
/// Floats of a row of the source, kinds of pixels, and taps of a row at most.
constexpr int64_t kMostFloats = int64_t(1) << 20, kMostKinds = 64,
                  kMostTaps = 4096;
/// Slices that a step is cut into, where it has as many rows.
constexpr int64_t kWantedSlices = 16;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

/// Rows of the source and of the filters that meet in a row of the result.
struct MetRow {
  const float *source, *weights;
};
/// A tap of such a row: how many floats lie before it.
struct MetTap {
  int64_t source, weights;
};

/// The terms of some pixels of the result.
struct PixelSums {
  const MetRow *rows;
  int64_t rowCount;
  const MetTap *taps;
  int64_t tapCount;
  int64_t channels;  ///< of the source, to sum over
  int64_t pixelStep; ///< floats from one pixel's source to the next one's
};

typedef float SumVector __attribute__((vector_size(kSumLanes * sizeof(float))));

/// Sums of `kPixels` pixels from `pixel` on. `kBroadcasts`: a channel of the
/// source is one number for all lanes.
template <int kPixels, bool kBroadcasts>
static inline __attribute__((always_inline)) void
sumPixels(const PixelSums &sums, int64_t pixel, float *result) {
  SumVector total[kPixels] = {};
  for (int64_t row = 0; row < sums.rowCount; ++row)
    for (int64_t tap = 0; tap < sums.tapCount; ++tap) {
      const float *source = sums.rows[row].source + sums.taps[tap].source +
                            pixel * sums.pixelStep;
      const float *weights = sums.rows[row].weights + sums.taps[tap].weights;
      for (int64_t channel = 0; channel < sums.channels; ++channel) {
        SumVector weight;
        std::memcpy(&weight, weights + channel * kSumLanes, sizeof(weight));
        for (int i = 0; i < kPixels; ++i) {
          const float *from = source + i * sums.pixelStep;
          if (kBroadcasts) {
            total[i] += from[channel] * weight;
          } else {
            SumVector value;
            std::memcpy(&value, from + channel * kSumLanes, sizeof(value));
            total[i] += value * weight;
          }
        }
      }
    }
  std::memcpy(result + pixel * kSumLanes, total, sizeof(total));
}

template <int kPixels, bool kBroadcasts>
static inline __attribute__((always_inline)) void
sumAllPixels(const PixelSums &sums, int64_t pixels, float *result) {
  int64_t pixel = 0;
  for (; pixel + kPixels <= pixels; pixel += kPixels)
    sumPixels<kPixels, kBroadcasts>(sums, pixel, result);
  for (; pixel + kPixels / 2 <= pixels; pixel += kPixels / 2)
    sumPixels<kPixels / 2, kBroadcasts>(sums, pixel, result);
  for (; pixel < pixels; ++pixel)
    sumPixels<1, kBroadcasts>(sums, pixel, result);
}

using SumFunction = void (*)(const PixelSums &sums, int64_t pixels,
                             float *result);

#define MPC_DEFINE_SUMS(suffix, attribute, pixels)                             \
  attribute void sumShared##suffix(const PixelSums &sums, int64_t count,       \
                                   float *result) {                            \
    sumAllPixels<pixels, true>(sums, count, result);                           \
  }                                                                            \
  attribute void sumOwn##suffix(const PixelSums &sums, int64_t count,          \
                                float *result) {                               \
    sumAllPixels<pixels, false>(sums, count, result);                          \
  }

MPC_DEFINE_SUMS(AVX512, __attribute__((target("avx512f,fma"))), 8)
MPC_DEFINE_SUMS(AVX2, __attribute__((target("avx2,fma"))), 4)
MPC_DEFINE_SUMS(Baseline, , 2)

SumFunction chooseSums(bool broadcasts) {
  if (hostHasAVX512())
    return broadcasts ? sumSharedAVX512 : sumOwnAVX512;
  if (hostHasFeature("avx2") && hostHasFeature("fma"))
    return broadcasts ? sumSharedAVX2 : sumOwnAVX2;
  return broadcasts ? sumSharedBaseline : sumOwnBaseline;
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

/// A spatial axis of source and result.
struct SumAxis {
  int64_t source = 1, result = 1, kernel = 1, stride = 1, dilation = 1, pad = 0;
  bool isGradient = false;

  /// From one pixel of a kind to the next: in the result, in the source.
  int64_t resultStep() const { return isGradient ? stride : 1; }
  int64_t sourceStep() const { return isGradient ? 1 : stride; }

  /// The place in the source that tap `tap` of result `at` meets, which may lie
  /// outside; false if there is none between the strides.
  bool meets(int64_t at, int64_t tap, int64_t &place) const {
    if (!isGradient) {
      place = at * stride + tap * dilation - pad;
      return true;
    }
    place = at + pad - tap * dilation;
    if (place % stride != 0)
      return false;
    place /= stride;
    return true;
  }
  bool holds(int64_t place) const { return place >= 0 && place < source; }
};

class DirectConv : public Contraction {
public:
  DirectConv(const ConvStep &step, const ConvOperands &operands);
  bool fits() const { return hasRoom; }
  Status runSlice(size_t phase, int64_t slice,
                  const SliceContext &context) override;
  std::vector<void **> addresses() override {
    return addressesOf({&x, &w, &y}, epilogue);
  }

private:
  /// Lanes of the result: 16 channels of a group, or groups and a channel.
  struct Block {
    int64_t group, channel, lanes;
  };
  /// Pixels of one width that start at the same place between strides.
  struct Kind {
    std::vector<MetTap> taps; ///< `source` counts pixels from the first
  };

  const Operand &source() const { return isGradient ? y : x; }
  const Operand &result() const { return isGradient ? x : y; }
  int64_t lanesPerBlock() const { return lanesAreGroups ? groups : perGroup; }
  Block blockOf(int64_t index) const;
  int64_t resultChannel(const Block &block, int64_t lane) const {
    return lanesAreGroups ? (block.group + lane) * perGroup + block.channel
                          : block.group * perGroup + block.channel + lane;
  }

  void findTaps();
  void chooseSlices();
  void packWeights(int64_t slice, const SliceContext &context) const;
  void runRows(int64_t slice, const SliceContext &context) const;
  void copyRow(const Block &block, int64_t row, int64_t first, int64_t count,
               float *run, float *to) const;
  void finish(const float *sums, int64_t pixel, int64_t pixels) const;

  int64_t rowFloats(int64_t pixels) const {
    // Pixels of the source that so many of each kind meet, and gaps.
    return ((pixels - 1) * width.sourceStep() + span + 1) * sourceLanes;
  }
  int64_t packedRow() const { return width.kernel * sumChannels * kSumLanes; }

  const bool isGradient;
  Operand x, w, y;
  EpilogueCall epilogue;
  SumAxis depth, height, width;
  int64_t batch, groups;
  int64_t perGroup;    ///< channels of the result
  int64_t sumChannels; ///< of the source in a group
  int64_t outPerGroup, inPerGroup;
  bool lanesAreGroups;
  int64_t laneBlocks, blocks; ///< of the result's channels
  int64_t sourceLanes;        ///< floats of a pixel of the source in scratch
  SumFunction sum;

  bool hasRoom = true;
  std::vector<Kind> kinds;
  int64_t firstPlace = 0, span = 0;  ///< of the taps of all kinds
  int64_t bandRows = 1, bands = 1;   ///< rows of the result
  int64_t partPixels = 1, parts = 1; ///< of each kind in a row
  int64_t sourceRows = 1;            ///< of a band, in scratch
  size_t resultOffset = 0, laneOffset = 0, runOffset = 0, rowsOffset = 0;
};

} // namespace

DirectConv::DirectConv(const ConvStep &step, const ConvOperands &operands)
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
  // The one that leaves fewer lanes empty.
  auto blocksOf = [](int64_t lanes) {
    return (lanes + kSumLanes - 1) / kSumLanes;
  };
  lanesAreGroups = perGroup * blocksOf(groups) < groups * blocksOf(perGroup);
  laneBlocks = blocksOf(lanesPerBlock());
  blocks = laneBlocks * (lanesAreGroups ? perGroup : groups);
  sourceLanes = sumChannels * (lanesAreGroups ? kSumLanes : 1);
  sum = chooseSums(!lanesAreGroups);
  findTaps();
  if (hasRoom)
    chooseSlices();
}

/// The taps that pixels of each kind meet, from where the source of the first
/// pixel starts on.
void DirectConv::findTaps() {
  hasRoom = width.kernel <= kMostTaps && width.resultStep() <= kMostKinds &&
            depth.kernel * height.kernel <= kMostTaps;
  if (!hasRoom)
    return;
  kinds.resize(size_t(std::min(width.resultStep(), width.result)));
  int64_t last = std::numeric_limits<int64_t>::min();
  firstPlace = std::numeric_limits<int64_t>::max();
  for (size_t kind = 0; kind < kinds.size(); ++kind)
    for (int64_t tap = 0; tap < width.kernel; ++tap) {
      int64_t place;
      if (!width.meets(int64_t(kind), tap, place))
        continue;
      firstPlace = std::min(firstPlace, place);
      last = std::max(last, place);
      kinds[kind].taps.push_back({place, tap * sumChannels * kSumLanes});
    }
  if (last < firstPlace)
    firstPlace = last = 0; // no pixel of a row meets any
  span = last - firstPlace;
  for (Kind &kind : kinds)
    for (MetTap &tap : kind.taps)
      tap.source = (tap.source - firstPlace) * sourceLanes;
}

void DirectConv::chooseSlices() {
  const int64_t channels = groups * perGroup;
  auto ceilDiv = [](int64_t a, int64_t b) { return (a + b - 1) / b; };
  // Some pixels of each kind, few enough for sums and source of one row.
  const int64_t kindCount = int64_t(kinds.size());
  const int64_t all = ceilDiv(width.result, width.resultStep());
  partPixels = all;
  auto isLarge = [&] {
    return partPixels * kindCount * channels * int64_t(sizeof(float)) >
               kResultBytes ||
           rowFloats(partPixels) * int64_t(sizeof(float)) > kSourceBytes / 4;
  };
  while (partPixels > 16 && isLarge())
    partPixels = ceilDiv(partPixels, 2);
  parts = ceilDiv(all, partPixels);
  hasRoom = rowFloats(partPixels) <= kMostFloats &&
            partPixels * kindCount * channels <= kMostFloats;
  if (!hasRoom)
    return;

  // Rows of the source that `rows` of the result meet at most.
  auto countRows = [&](int64_t rows) {
    const int64_t window = (height.kernel - 1) * height.dilation + 1;
    const int64_t met = isGradient ? (rows - 1 + window - 1) / height.stride + 1
                                   : (rows - 1) * height.stride + window;
    return depth.kernel * std::min(met, height.source);
  };
  auto fits = [&](int64_t rows) {
    return countRows(rows) * rowFloats(partPixels) * int64_t(sizeof(float)) <=
               kSourceBytes &&
           rows * partPixels * kindCount * channels * int64_t(sizeof(float)) <=
               kResultBytes;
  };
  bandRows = height.result;
  while (bandRows > 1 && !fits(bandRows))
    bandRows = ceilDiv(bandRows, 2);
  while (bandRows > 4 &&
         batch * depth.result * parts * ceilDiv(height.result, bandRows) <
             kWantedSlices)
    bandRows = ceilDiv(bandRows, 2);
  bands = ceilDiv(height.result, bandRows);
  sourceRows = countRows(bandRows);
  hasRoom = sourceRows * rowFloats(partPixels) <= 8 * kMostFloats;

  auto floats = [](int64_t count) {
    return alignScratch(size_t(count) * sizeof(float));
  };
  // The source's rows, the sums of all channels, those of some lanes, a pixel,
  // a list of rows; phase 0 has a filter's taps there.
  resultOffset = floats(sourceRows * rowFloats(partPixels));
  laneOffset =
      resultOffset + floats(bandRows * partPixels * kindCount * channels);
  runOffset = laneOffset + floats(partPixels * kSumLanes);
  rowsOffset = runOffset + floats(sourceLanes);
  const int64_t taps = depth.kernel * height.kernel * width.kernel;
  scratchSize =
      std::max(rowsOffset + alignScratch(size_t(depth.kernel * height.kernel) *
                                         sizeof(MetRow)),
               floats(taps));
  sharedSize = floats(blocks * depth.kernel * height.kernel * packedRow());
  phaseSlices = {blocks, batch * depth.result * bands * parts};
}

DirectConv::Block DirectConv::blockOf(int64_t index) const {
  const int64_t first = index % laneBlocks * kSumLanes;
  const int64_t lanes = std::min(kSumLanes, lanesPerBlock() - first);
  index /= laneBlocks;
  return lanesAreGroups ? Block{first, index, lanes}
                        : Block{index, first, lanes};
}

Status DirectConv::runSlice(size_t phase, int64_t slice,
                            const SliceContext &context) {
  if (phase == 0)
    packWeights(slice, context);
  else
    runRows(slice, context);
  return Status();
}

/// The filters of a block as [row of taps][tap][channel][lane].
void DirectConv::packWeights(int64_t slice, const SliceContext &context) const {
  const Block block = blockOf(slice);
  const int64_t taps = depth.kernel * height.kernel * width.kernel;
  auto *run = reinterpret_cast<float *>(context.scratch);
  float *to = reinterpret_cast<float *>(context.shared) +
              slice * depth.kernel * height.kernel * packedRow();
  for (int64_t lane = 0; lane < kSumLanes; ++lane)
    for (int64_t channel = 0; channel < sumChannels; ++channel) {
      std::fill(run, run + taps, 0.0f);
      if (lane < block.lanes) {
        const int64_t group = block.group + (lanesAreGroups ? lane : 0);
        const int64_t mine = block.channel + (lanesAreGroups ? 0 : lane);
        const int64_t out = isGradient ? channel : mine;
        const int64_t in = isGradient ? mine : channel;
        widen(w.type,
              w.at(((group * outPerGroup + out) * inPerGroup + in) * taps), run,
              taps);
      }
      for (int64_t tap = 0; tap < taps; ++tap)
        to[(tap * sumChannels + channel) * kSumLanes + lane] = run[tap];
    }
}

/// Copies `count` pixels of the block's source from `first` on, which may lie
/// outside of the row, as [pixel][channel] or [pixel][channel][lane]. `run` has
/// room for a pixel.
void DirectConv::copyRow(const Block &block, int64_t row, int64_t first,
                         int64_t count, float *run, float *to) const {
  const Operand &from = source();
  const int64_t begin = std::clamp<int64_t>(-first, 0, count);
  const int64_t end = std::clamp<int64_t>(width.source - first, begin, count);
  std::fill(to, to + begin * sourceLanes, 0.0f);
  std::fill(to + end * sourceLanes, to + count * sourceLanes, 0.0f);
  const int64_t channels = groups * sumChannels;
  const int64_t element =
      (row * width.source + first) * channels + block.group * sumChannels;
  if (!lanesAreGroups && groups == 1) {
    if (end > begin)
      widen(from.type, from.at(element + begin * channels),
            to + begin * sourceLanes, (end - begin) * channels);
    return;
  }
  // Groups lie side by side, each with its channels.
  const int64_t copied = (lanesAreGroups ? block.lanes : 1) * sumChannels;
  for (int64_t pixel = begin; pixel < end; ++pixel) {
    float *target = to + pixel * sourceLanes;
    const int64_t at = element + pixel * channels;
    if (!lanesAreGroups || sumChannels == 1) {
      widen(from.type, from.at(at), target, copied);
      std::fill(target + copied, target + sourceLanes, 0.0f);
      continue;
    }
    widen(from.type, from.at(at), run, copied);
    for (int64_t channel = 0; channel < sumChannels; ++channel)
      for (int64_t lane = 0; lane < kSumLanes; ++lane)
        target[channel * kSumLanes + lane] =
            lane < block.lanes ? run[lane * sumChannels + channel] : 0;
  }
}

void DirectConv::runRows(int64_t slice, const SliceContext &context) const {
  const int64_t part = slice % parts;
  slice /= parts;
  const int64_t firstRow = slice % bands * bandRows;
  const int64_t rows = std::min(bandRows, height.result - firstRow);
  slice /= bands;
  const int64_t plane = slice % depth.result, image = slice / depth.result;
  // Pixels of each kind, and of the result's rows.
  const int64_t kindCount = int64_t(kinds.size()), step = width.resultStep();
  const int64_t firstOfKind = part * partPixels, first = firstOfKind * step;
  const int64_t pixels = std::min(partPixels * step, width.result - first);
  const int64_t channels = groups * perGroup;

  // The first and last row of the source that the band meets.
  int64_t low = height.source, high = -1;
  for (int64_t row = firstRow; row < firstRow + rows; ++row)
    for (int64_t tap = 0; tap < height.kernel; ++tap) {
      int64_t place;
      if (height.meets(row, tap, place) && height.holds(place)) {
        low = std::min(low, place);
        high = std::max(high, place);
      }
    }
  const int64_t met = std::max<int64_t>(0, high - low + 1);

  auto *copies = reinterpret_cast<float *>(context.scratch);
  auto *result = reinterpret_cast<float *>(context.scratch + resultOffset);
  auto *lanes = reinterpret_cast<float *>(context.scratch + laneOffset);
  auto *run = reinterpret_cast<float *>(context.scratch + runOffset);
  auto *list = reinterpret_cast<MetRow *>(context.scratch + rowsOffset);
  const auto *packed = reinterpret_cast<const float *>(context.shared);
  const int64_t leading = rowFloats(partPixels);
  const int64_t start = firstPlace + firstOfKind * width.sourceStep();
  for (int64_t index = 0; index < blocks; ++index) {
    const Block block = blockOf(index);
    const bool isCopied = !lanesAreGroups && index % laneBlocks != 0;
    const bool hasSameGroups =
        lanesAreGroups && index >= laneBlocks && laneBlocks == 1;
    for (int64_t tap = 0; tap < depth.kernel; ++tap) {
      int64_t place;
      if (isCopied || hasSameGroups || !depth.meets(plane, tap, place) ||
          !depth.holds(place))
        continue;
      for (int64_t row = 0; row < met; ++row)
        copyRow(block,
                (image * depth.source + place) * height.source + low + row,
                start, leading / sourceLanes, run,
                copies + (tap * met + row) * leading);
    }
    for (int64_t row = 0; row < rows; ++row) {
      int64_t count = 0;
      for (int64_t depthTap = 0; depthTap < depth.kernel; ++depthTap)
        for (int64_t rowTap = 0; rowTap < height.kernel; ++rowTap) {
          int64_t inPlane, inRow;
          if (!depth.meets(plane, depthTap, inPlane) || !depth.holds(inPlane) ||
              !height.meets(firstRow + row, rowTap, inRow) ||
              !height.holds(inRow))
            continue;
          const int64_t weightsRow =
              (index * depth.kernel + depthTap) * height.kernel + rowTap;
          list[count++] = {copies + (depthTap * met + inRow - low) * leading,
                           packed + weightsRow * packedRow()};
        }
      for (int64_t kind = 0; kind < kindCount; ++kind) {
        const int64_t ofKind = (pixels - kind + step - 1) / step;
        const std::vector<MetTap> &taps = kinds[size_t(kind)].taps;
        if (ofKind <= 0)
          continue;
        sum({list, count, taps.data(), int64_t(taps.size()), sumChannels,
             width.sourceStep() * sourceLanes},
            ofKind, lanes);
        for (int64_t pixel = 0; pixel < ofKind; ++pixel) {
          float *to = result + (row * pixels + pixel * step + kind) * channels;
          const float *from = lanes + pixel * kSumLanes;
          if (!lanesAreGroups || perGroup == 1)
            std::memcpy(to + resultChannel(block, 0), from,
                        size_t(block.lanes) * sizeof(float));
          else
            for (int64_t lane = 0; lane < block.lanes; ++lane)
              to[resultChannel(block, lane)] = from[lane];
        }
      }
    }
  }

  const int64_t firstPixel =
      ((image * depth.result + plane) * height.result + firstRow) *
          width.result +
      first;
  if (parts == 1)
    return finish(result, firstPixel, rows * pixels);
  for (int64_t row = 0; row < rows; ++row)
    finish(result + row * pixels * channels, firstPixel + row * width.result,
           pixels);
}

/// Hands sums of whole pixels to the epilogue, or rounds them.
void DirectConv::finish(const float *sums, int64_t pixel,
                        int64_t pixels) const {
  const int64_t channels = groups * perGroup;
  if (epilogue)
    epilogue(const_cast<float *>(sums), pixel, pixels, 0, channels, channels);
  else
    narrow(result().type, sums, result().at(pixel * channels),
           pixels * channels);
}

std::unique_ptr<Contraction> prepareDirectConv(const ConvStep &step,
                                               const ConvOperands &operands) {
  if (step.kind == ConvKind::WeightGrad)
    return nullptr;
  auto conv = std::make_unique<DirectConv>(step, operands);
  return conv->fits() ? std::move(conv) : nullptr;
}

} // namespace mpc::runtime
