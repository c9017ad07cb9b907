// Sums of products for neighbouring pixels of a convolution's result, in
// registers, by the instructions of the CPU at hand.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONV_DIRECTSUMS_H
#define MPC_RUNTIME_CPU_CONV_DIRECTSUMS_H

#include <cstdint>

namespace mpc::runtime {

/// Floats of a vector; each has its own sum.
constexpr int64_t kSumLanes = 16;
/// Outputs of one call for dot products, at most.
constexpr int64_t kMostOutputs = 4;

/// Rows of the source and of the weights that meet in a row of the result:
/// floats, or bf16 numbers of pairs.
struct SumRow {
  const void *source, *weights;
};

/// Neighbouring terms of a row, and how many elements lie before.
struct SumRun {
  int64_t source, weights, terms;
};

/// The terms of some pixels of the result, and the place of the sums.
struct PixelSums {
  const SumRow *rows;
  int64_t rowCount;
  const SumRun *runs;
  int64_t runCount;
  int64_t pixelStep;  ///< elements of the source from one pixel to the next
  int64_t outputStep; ///< elements of the weights from one output to the next
  float *result;
  int64_t resultStep; ///< floats of the result from one pixel to the next
};

enum class SumKind {
  /// A term is a number of the source and 16 weights, for as many sums.
  Shared,
  /// Shared numbers of bf16, two terms at a time: the weights are pairs. In a
  /// run
  /// with an odd number of terms, the last pair has a zero.
  SharedPairs,
  /// A term is 16 numbers of the source and 16 weights, for as many sums.
  Own,
  /// A term is a number of the source and a weight for each output. Runs are
  /// whole vectors long.
  Dots,
  /// Dot products of bf16.
  DotPairs
};

/// Terms that a run of `kind` has a multiple of.
constexpr int64_t wholeTerms(SumKind kind) {
  return kind == SumKind::Dots       ? kSumLanes
         : kind == SumKind::DotPairs ? 2 * kSumLanes
                                     : 1;
}

/// Floats of a vector of the CPU at hand.
int64_t floatLanes();

/// Writes the sums of `pixels` pixels.
using SumFunction = void (*)(const PixelSums &sums, int64_t pixels);

/// The fastest on this CPU; `outputs` are those of dot products. Pairs want
/// avx512bf16.
SumFunction chooseSums(SumKind kind, int64_t outputs);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONV_DIRECTSUMS_H
