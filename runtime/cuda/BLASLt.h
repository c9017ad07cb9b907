// Computes matrix products with cuBLASLt.
//
// A step is row-major; the library's epilogues work on column-major results. A
// row-major matrix, read in column-major order, is its own transpose. So a step
// c = op(a) op(b) becomes c' = op(b)' op(a)' for the library: the operands
// swap, and the bias of a column of c is the library's bias of a row of c'.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_CUDA_BLASLT_H
#define MPC_RUNTIME_CUDA_BLASLT_H

#include "runtime/cuda/BLASLtABI.h"
#include "runtime/cuda/DeviceMemory.h"
#include "runtime/cuda/PreparedStep.h"
#include "runtime/cuda/SharedLibrary.h"

#include <memory>

namespace mpc::runtime::cuda {

/// The addresses of a matrix product's operands.
struct MatMulAddresses {
  DeviceOperand a, b, c;
  DeviceOperand bias, aux, biasGrad; ///< set if `fused` of the step uses them
};

class BLASLt {
public:
  /// Loads the newest library that creates a handle for the current context.
  static StatusOr<std::unique_ptr<BLASLt>> open(Workspace &workspace);
  ~BLASLt();

  /// Chooses an algorithm for a step. All runs of the step use this algorithm.
  StatusOr<std::unique_ptr<CUDAStep>> prepare(const MatMulStep &step,
                                              const MatMulAddresses &operands);

  /// Success, or a Device error with `what` and the library's text.
  Status check(BLASStatus status, const char *what) const;
  /// Returns a status in words, with its number.
  std::string describe(BLASStatus status) const;

  BLASLtFunctions call;
  BLASHandle handle = nullptr;
  Workspace &workspace;

private:
  static StatusOr<std::unique_ptr<BLASLt>> open(Workspace &workspace,
                                                LibraryNames names);
  explicit BLASLt(Workspace &workspace) : workspace(workspace) {}
};

} // namespace mpc::runtime::cuda

#endif // MPC_RUNTIME_CUDA_BLASLT_H
