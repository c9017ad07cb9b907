// Parts a product whose rows no vector of a library divides.
//
// cuBLASLt's fast kernels want rows of whole 16 bytes: not only where each row
// begins, which `plan-pad-rows` sees to, but how long it is. GPT-2's scores
// have 50257 columns: a product of 50256 and one of the last column are to take
// a fifth of what one of 50257 takes (predicted; docs/measured/gpu.md).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_PRODUCTPIECES_H
#define MPC_RUNTIME_CUDA_PRODUCTPIECES_H

#include "runtime/cuda/BLASLt.h"

#include <vector>

namespace mpc::runtime::cuda {

/// A product of some rows, columns or depth of another.
struct ProductPiece {
  MatMulStep step;
  MatMulAddresses operands;
  bool adds = false; ///< to what an earlier piece wrote there
};

/// Operations of a product below which a second call costs more than it saves:
/// at 95 in place of 600 TFLOP/s 4e9 of them take 35 us longer (H100), a call
/// with nothing to do about 10.
inline constexpr double kLeastPartedWork = 4e9;

/// The pieces of a product, in the order in which they are done: one, where
/// rows are whole vectors, or where pieces would not help.
///
/// Example: c [8192, 50257] = a [8192, 768] b^T [50257, 768] becomes columns 0
/// to 50255 and column 50256. Depth is parted so that the long piece adds to
/// what the short one wrote: that rounds the short one's sum to c's type once
/// more, and makes it infinite where it has no place there.
std::vector<ProductPiece> partProduct(const MatMulStep &step,
                                      const MatMulAddresses &operands,
                                      double leastWork = kLeastPartedWork);

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_PRODUCTPIECES_H
