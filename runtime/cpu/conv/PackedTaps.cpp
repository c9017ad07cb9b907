// SPDX-License-Identifier: Apache-2.0
#include "runtime/cpu/conv/PackedTaps.h"
#include "runtime/FloatBits.h"
#include "runtime/cpu/Convert.h"
#include "runtime/cpu/Transpose.h"

#include <cstring>

namespace mpc::runtime {

/// Limits the taps of a lane that are transposed at once, unless a single row
/// has more.
static constexpr int64_t kTapsAtOnce = 512;

PackedTaps::PackedTaps(const SumAxis &axis, SumKind kind, int64_t tapTerms,
                       int64_t pixelElements)
    : kinds(size_t(std::min(axis.resultStep(), axis.result))), kind(kind),
      places(size_t(axis.kernel)) {
  const int64_t termWeights = isDots() ? 1 : kSumLanes;
  int64_t last = std::numeric_limits<int64_t>::min();
  firstPlace = std::numeric_limits<int64_t>::max();
  for (size_t at = 0; at < kinds.size(); ++at) {
    std::vector<std::pair<int64_t, size_t>> met; // places, and their taps
    for (int64_t tap = 0; tap < axis.kernel; ++tap)
      if (int64_t place; axis.meets(int64_t(at), tap, place))
        met.emplace_back(place, size_t(tap));
    std::sort(met.begin(), met.end());
    Kind &runs = kinds[at];
    for (size_t i = 0; i < met.size(); ++i) {
      const auto [place, tap] = met[i];
      if (i == 0 || place != met[i - 1].first + 1)
        runs.push_back({place, outputStep, 0});
      SumRun &run = runs.back();
      places[tap] = {run.weights, run.terms, true};
      run.terms += tapTerms;
      const int64_t terms = hasPairs() ? (run.terms + 1) / 2 * 2 : run.terms;
      outputStep = run.weights + terms * termWeights;
      firstPlace = std::min(firstPlace, place);
      last = std::max(last, place);
    }
  }
  if (last < firstPlace)
    firstPlace = last = 0; // no pixel of a row meets a tap
  span = last - firstPlace;
  for (Kind &runs : kinds)
    for (SumRun &run : runs)
      run.source = (run.source - firstPlace) * pixelElements;
}

bool PackedTaps::gainsByPairs() const {
  int64_t terms = 0, pairs = 0;
  for (const Kind &runs : kinds)
    for (const SumRun &run : runs) {
      terms += run.terms;
      pairs += (run.terms + 1) / 2;
    }
  return 4 * pairs <= 3 * terms;
}

/// Returns the index of a weight in a packed row of taps.
int64_t PackedTaps::weightOf(const TapPlace &tap, int64_t channel,
                             int64_t lane) const {
  const int64_t term = tap.firstTerm + channel;
  if (isDots())
    return lane * outputStep + tap.weights + term;
  if (hasPairs())
    return tap.weights + (term / 2 * kSumLanes + lane) * 2 + term % 2;
  return tap.weights + term * kSumLanes + lane;
}

int64_t PackedTaps::rowsAtOnce(int64_t rows) const {
  return std::min(rows,
                  std::max<int64_t>(1, kTapsAtOnce / int64_t(places.size())));
}

size_t PackedTaps::scratchBytes(int64_t rows) const {
  const auto taps = int64_t(places.size());
  return size_t(std::max(2 * kSumLanes * rowsAtOnce(rows), rows) * taps) *
         sizeof(float);
}

void PackedTaps::pack(const FilterLanes &filters, std::byte *to,
                      std::byte *scratch) const {
  auto *floats = reinterpret_cast<float *>(scratch);
  std::memset(to, 0, size_t(filters.rows * rowElements()) * elementBytes());
  if (isDots() || hasPairs())
    packSingly(filters, to, floats);
  else
    packVectors(filters, reinterpret_cast<float *>(to), floats);
}

/// Packs the weights of all lanes for a tap and a channel at once. In memory,
/// the taps of a filter are adjacent, so transposes some rows of taps first.
void PackedTaps::packVectors(const FilterLanes &filters, float *to,
                             float *scratch) const {
  const auto width = int64_t(places.size());
  const int64_t atOnce = rowsAtOnce(filters.rows);
  float *turned = scratch + kSumLanes * atOnce * width; // [tap][lane]
  std::fill_n(turned, kSumLanes * atOnce * width, 0.0f);
  for (int64_t first = 0; first < filters.rows; first += atOnce) {
    const int64_t rows = std::min(atOnce, filters.rows - first);
    const int64_t taps = rows * width;
    for (int64_t channel = 0; channel < filters.channels; ++channel) {
      for (int64_t lane = 0; lane < filters.lanes; ++lane) {
        const int64_t filter = filters.first + lane * filters.laneStep +
                               channel * filters.channelStep;
        widen(filters.operand->type,
              filters.operand->at((filter * filters.rows + first) * width),
              scratch + lane * taps, taps);
      }
      transpose(reinterpret_cast<const uint32_t *>(scratch), taps,
                reinterpret_cast<uint32_t *>(turned), kSumLanes, filters.lanes,
                taps);
      for (int64_t tap = 0; tap < width; ++tap) {
        const TapPlace &place = places[size_t(tap)];
        if (!place.isMet)
          continue;
        float *at = to + first * rowElements() + weightOf(place, channel, 0);
        for (int64_t row = 0; row < rows; ++row)
          std::memcpy(at + row * rowElements(),
                      turned + (row * width + tap) * kSumLanes,
                      kSumLanes * sizeof(float));
      }
    }
  }
}

/// Packs one weight after the other.
void PackedTaps::packSingly(const FilterLanes &filters, std::byte *to,
                            float *scratch) const {
  const auto width = int64_t(places.size());
  for (int64_t lane = 0; lane < filters.lanes; ++lane)
    for (int64_t channel = 0; channel < filters.channels; ++channel) {
      const int64_t filter = filters.first + lane * filters.laneStep +
                             channel * filters.channelStep;
      widen(filters.operand->type,
            filters.operand->at(filter * filters.rows * width), scratch,
            filters.rows * width);
      for (int64_t tap = 0; tap < width; ++tap) {
        const TapPlace &place = places[size_t(tap)];
        if (!place.isMet)
          continue;
        const int64_t at = weightOf(place, channel, lane);
        for (int64_t row = 0; row < filters.rows; ++row) {
          const float weight = scratch[row * width + tap];
          if (hasPairs())
            reinterpret_cast<uint16_t *>(to)[row * rowElements() + at] =
                floatToBF16(weight);
          else
            reinterpret_cast<float *>(to)[row * rowElements() + at] = weight;
        }
      }
    }
}

} // namespace mpc::runtime
