// What evaluation reports of every sample: its loss, found in how a model
// computes the mean of all, and whether its label was predicted.
//
// Evaluation pads the last batch, so it needs what each sample adds to the
// mean: forward models with a loss of their own and ONNX Runtime's artifacts
// have only the mean.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_SAMPLELOSS_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_SAMPLELOSS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// A vector of `batch` losses whose mean is `loss`, built by `builder`; null
/// where `loss` is not seen to be the plain mean of something with a leading
/// axis of `batch`. Weighted means are not. With ignore_index, the mean is
/// over the samples whose label is another one.
mlir::Value buildSampleLoss(mlir::OpBuilder &builder, mlir::Value loss,
                            int64_t batch);

/// The loss over class labels that `block` has exactly one of: a
/// softmax_cross_entropy_loss or nll_loss whose labels are an argument of the
/// block, reshaped or converted at most. Null where there is none, or several,
/// of which no one is what the model predicts.
mlir::Operation *findLabelLoss(mlir::Block &block);

/// For every label of `loss`, a result of findLabelLoss: 1 where the greatest
/// score is the label's, else 0. Null where there are more classes than
/// mpc.accuracy can tell apart.
mlir::Value buildAccuracy(mlir::OpBuilder &builder, mlir::Operation *loss);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_SAMPLELOSS_H
