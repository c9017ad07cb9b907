// Packs filters in the order in which the sums of DirectSums.h read weights,
// for convolutions and image gradients.
//
// A row of taps is the taps of a filter along the innermost axis. Pixels of a
// result are of one kind if they meet the same taps (SumAxis.h). A run is a
// sequence of adjacent source pixels that a row of taps multiplies. A term is
// one product in the sum of a result element.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONV_PACKEDTAPS_H
#define MPC_RUNTIME_CPU_CONV_PACKEDTAPS_H

#include "runtime/cpu/Contraction.h"
#include "runtime/cpu/conv/DirectSums.h"
#include "runtime/cpu/conv/SumAxis.h"

namespace mpc::runtime {

/// Some of the filters of a step, each of `rows` rows of taps. The filter of
/// lane l and source channel c is filter `first + l * laneStep + c *
/// channelStep` of `operand`.
struct FilterLanes {
  const Operand *operand;
  int64_t rows, lanes, channels;
  int64_t first, laneStep, channelStep;
};

/// The places of weights in packed rows of taps, and the runs of each kind of
/// pixel.
class PackedTaps {
public:
  /// The runs that pixels of one kind meet in a row of taps.
  using Kind = std::vector<SumRun>;

  PackedTaps() = default;
  /// Finds the taps that each kind of pixel meets along `axis`. A source pixel
  /// has `tapTerms` terms per tap, and `pixelElements` elements in memory.
  PackedTaps(const SumAxis &axis, SumKind kind, int64_t tapTerms,
             int64_t pixelElements);

  /// False if many pairs contain only one term. Some CPUs multiply pairs at
  /// half the rate of floats.
  bool gainsByPairs() const;
  /// The elements of a packed row of taps: f32, or bf16 for kinds with pairs.
  int64_t rowElements() const {
    return outputStep * (isDots() ? kMostOutputs : 1);
  }
  size_t elementBytes() const {
    return hasPairs() ? sizeof(uint16_t) : sizeof(float);
  }
  size_t scratchBytes(int64_t rows) const;
  /// Packs `filters` to `to`, one row of taps after the other. Weights of
  /// missing lanes are zeros.
  void pack(const FilterLanes &filters, std::byte *to,
            std::byte *scratch) const;

  std::vector<Kind> kinds;
  int64_t outputStep = 0; ///< packed elements of a row of taps, per output
  /// The first source pixel that the first pixels of all kinds meet, and the
  /// distance from there to the last.
  int64_t firstPlace = 0, span = 0;

private:
  /// The position of a tap's weights in a packed row of taps. `weights` is the
  /// start of the run that contains the tap; `firstTerm` counts the terms of
  /// the run before the tap.
  struct TapPlace {
    int64_t weights = 0, firstTerm = 0;
    bool isMet = false;
  };
  bool isDots() const {
    return kind == SumKind::Dots || kind == SumKind::DotPairs;
  }
  bool hasPairs() const {
    return kind == SumKind::SharedPairs || kind == SumKind::DotPairs;
  }
  int64_t weightOf(const TapPlace &tap, int64_t channel, int64_t lane) const;
  int64_t rowsAtOnce(int64_t rows) const;
  void packVectors(const FilterLanes &filters, float *to, float *scratch) const;
  void packSingly(const FilterLanes &filters, std::byte *to,
                  float *scratch) const;

  SumKind kind = SumKind::Shared;
  std::vector<TapPlace> places; ///< by tap
};

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONV_PACKEDTAPS_H
