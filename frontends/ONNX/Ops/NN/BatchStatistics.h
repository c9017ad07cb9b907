// Recognizes a mean and a variance that a model computes per channel, as for a
// BatchNormalization without running statistics.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_NN_BATCHSTATISTICS_H
#define MPC_FRONTENDS_ONNX_OPS_NN_BATCHSTATISTICS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc::onnx_frontend {

/// True if `mean` holds the mean of every channel of `x` (axis 1) over all
/// other axes. `x` may be reshaped and transposed before the reduction.
bool isMeanOfChannels(mlir::Value mean, mlir::Value x);

/// True if `variance` holds the population variance of every channel of `x`,
/// computed as the mean of squared distances from the mean.
bool isVarianceOfChannels(mlir::Value variance, mlir::Value x);

/// True if ops compute `value` anew in every step: it is not a variable, input
/// or constant, nor a cast or reshape of one.
bool isComputed(mlir::Value value);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_NN_BATCHSTATISTICS_H
