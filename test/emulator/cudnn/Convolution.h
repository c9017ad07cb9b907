// A convolution or its gradient as cuDNN defines them, on strided tensors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_CUDNN_CONVOLUTION_H
#define MPC_TEST_EMULATOR_CUDNN_CONVOLUTION_H

#include "test/emulator/cudnn/ABI.h"

#include <array>
#include <vector>

namespace mpc::emulator {

/// Dimensions are (N, C, spatial...) for x and y, (K, C / groups, spatial...)
/// for w.
struct ConvTensor {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::vector<int64_t> dims, strides;
  int64_t id = 0;
  int64_t alignment = 1;

  size_t elementBytes() const;
  int64_t elements() const;
  int64_t reach() const; ///< elements from the first to the last
  size_t bytes() const;  ///< from the first to the last element
};

struct Convolution {
  enum Kind { Forward, BackwardData, BackwardFilter };
  Kind kind = Forward;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  std::vector<int64_t> strides, dilations, prePaddings, postPaddings;
  ConvTensor x, w, y; ///< dx, dw and dy for gradients
  double alpha = 1, beta = 0;
  bool roundsToTF32 = false; ///< truncates f32 operands to ten fraction bits

  int64_t groups() const { return x.dims[1] / w.dims[1]; }
  /// The computed tensor.
  const ConvTensor &result() const {
    return kind == Forward ? y : kind == BackwardData ? x : w;
  }
};

/// Null, or the reason why the shapes do not match.
const char *checkShapes(const Convolution &conv);

/// Null, or the reason why no engine supports it.
const char *checkSupport(const Convolution &conv);

void convolve(const Convolution &conv, void *x, void *w, void *y);

} // namespace mpc::emulator

#endif // MPC_TEST_EMULATOR_CUDNN_CONVOLUTION_H
