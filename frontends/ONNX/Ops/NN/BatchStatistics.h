// Tells whether a mean and a variance that a model computes are those of the
// channels of a value, as of a BatchNormalization without running statistics.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_NN_BATCHSTATISTICS_H
#define MPC_FRONTENDS_ONNX_OPS_NN_BATCHSTATISTICS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc::onnx_frontend {

/// Whether `mean` has, of every channel of `x` (its axis 1), the mean over all
/// other axes. `x` may have been reshaped and transposed before.
bool isMeanOfChannels(mlir::Value mean, mlir::Value x);

/// Whether `variance` has the population variance of every channel of `x`, as
/// the mean of squared distances from the mean.
bool isVarianceOfChannels(mlir::Value variance, mlir::Value x);

/// Whether an op computes `value` anew in every step: it is no variable, no
/// input and no constant, nor one of them in another type or shape.
bool isComputed(mlir::Value value);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_NN_BATCHSTATISTICS_H
