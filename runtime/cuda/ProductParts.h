// Splits products whose rows are not whole vectors.
//
// cuBLASLt's fast kernels require rows of whole 16 bytes. The start of each
// row, which `plan-pad-rows` aligns, and the length of the row both matter.
// GPT-2's scores have 50257 columns. A product of 50256 columns and one of the
// last column should take a fifth of the time of one product (predicted;
// docs/measured/gpu.md).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_PRODUCTPARTS_H
#define MPC_RUNTIME_CUDA_PRODUCTPARTS_H

#include "runtime/cuda/BLASLt.h"

#include <vector>

namespace mpc::runtime::cuda {

/// A part of a larger product: a range of rows, of columns or of the depth.
struct ProductPart {
  MatMulStep step;
  MatMulAddresses operands;
  bool adds = false; ///< adds to the result of an earlier part
};

/// The fewest operations of a product that is worth splitting. At 95 instead of
/// 600 TFLOP/s, 4e9 operations take 35 us longer (H100); an empty call takes
/// about 10 us.
inline constexpr double kLeastSplitWork = 4e9;

/// Returns the parts of a product in the order of computation. A single part
/// if rows are whole vectors, or if splitting would not help.
///
/// Example: c [8192, 50257] = a [8192, 768] b^T [50257, 768] becomes columns 0
/// to 50255 and column 50256. If the depth is split, the long part adds to the
/// result of the short part. So the short sum is rounded to c's type once
/// more, and overflows to infinity if c's type cannot hold it.
std::vector<ProductPart> splitProduct(const MatMulStep &step,
                                      const MatMulAddresses &operands,
                                      double leastWork = kLeastSplitWork);

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_PRODUCTPARTS_H
