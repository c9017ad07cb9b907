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
/// Limits the channels of the result that a dot-product function computes in
/// one call.
constexpr int64_t kMostOutputs = 4;

/// One source row, and the weights of the row of taps that multiplies the
/// source row. Elements are f32, or bf16 for kinds with pairs.
struct SumRow {
  const void *source, *weights;
};

/// A run: `terms` adjacent source elements and the weights that multiply them.
/// `source` and `weights` are the offsets of the first in a SumRow.
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
  /// Like Shared, for the first 8 of the 16 sums. Weights are laid out for 16.
  SharedHalf,
  /// Like Shared, with two bf16 terms at a time; weights lie in pairs. If a run
  /// has an odd number of terms, the last pair of weights has a zero.
  SharedPairs,
  /// A term is 16 source elements times 16 weights, for 16 sums.
  Own,
  /// A term is one source element times one weight per output. Runs are whole
  /// vectors long.
  Dots,
  /// A term is one source element times one weight per output, all bf16; two
  /// terms are multiplied at once. Runs are whole vectors long.
  DotPairs
};

/// Returns n: each run of sums of `kind` must have a multiple of n terms.
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
