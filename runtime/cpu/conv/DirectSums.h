// Sums products for adjacent pixels of a convolution's result in registers,
// with the instructions of the host CPU.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CPU_CONV_DIRECTSUMS_H
#define MPC_RUNTIME_CPU_CONV_DIRECTSUMS_H

#include <cstdint>

namespace mpc::runtime {

/// The lanes of a vector. Each lane holds its own sum.
constexpr int64_t kSumLanes = 16;
/// The most outputs of a call for dot products.
constexpr int64_t kMostOutputs = 4;

/// A source row and the weights of a row of taps, which are multiplied for a
/// row of the result. Elements are f32, or bf16 for pairs.
struct SumRow {
  const void *source, *weights;
};

/// `terms` adjacent terms of a row. `source` and `weights` are the offsets of
/// the first term.
struct SumRun {
  int64_t source, weights, terms;
};

/// The operands of the sums of adjacent pixels, and the address of the sums.
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
  /// A term is one source element times 16 weights, for 16 sums.
  Shared,
  /// Like Shared, with two bf16 terms at a time; weights lie in pairs. If a run
  /// has an odd number of terms, the last pair of weights has a zero.
  SharedPairs,
  /// A term is 16 source elements times 16 weights, for 16 sums.
  Own,
  /// A term is one source element times one weight per output. Runs are whole
  /// vectors long.
  Dots,
  /// Like Dots, for bf16.
  DotPairs
};

/// The number that divides the terms of each run of `kind`.
constexpr int64_t wholeTerms(SumKind kind) {
  return kind == SumKind::Dots       ? kSumLanes
         : kind == SumKind::DotPairs ? 2 * kSumLanes
                                     : 1;
}

/// Returns the number of floats in a vector of the host CPU.
int64_t floatLanes();

/// Computes and writes the sums of `pixels` adjacent pixels.
using SumFunction = void (*)(const PixelSums &sums, int64_t pixels);

/// Returns the fastest function for the host CPU. `outputs` matters only for
/// dot products. Kinds with pairs need avx512bf16.
SumFunction chooseSums(SumKind kind, int64_t outputs);

} // namespace mpc::runtime

#endif // MPC_RUNTIME_CPU_CONV_DIRECTSUMS_H
