// The loss of every sample, found in how a model computes the mean of all.
//
// Evaluation pads the last batch, so it needs what each sample adds to the
// mean: forward models with a loss of their own and ONNX Runtime's artifacts
// have only the mean.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_SAMPLELOSS_H
#define MPC_COMPILER_DIALECT_MPC_SAMPLELOSS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// A vector of `batch` losses whose mean is `loss`, built by `builder`; null
/// where `loss` is not seen to be the plain mean of something with a leading
/// axis of `batch`. Weighted means are not. Of a loss that ignores a label, the
/// mean is of the samples with another one.
mlir::Value buildSampleLoss(mlir::OpBuilder &builder, mlir::Value loss,
                            int64_t batch);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_SAMPLELOSS_H
