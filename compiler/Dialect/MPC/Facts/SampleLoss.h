// Builds the values that evaluation reports per sample: the sample's loss, and
// whether the predicted class is the label.
//
// Evaluation pads the last batch and must leave out the padding, so it needs
// the loss of each sample. Models with their own loss, and ONNX Runtime's
// artifacts, compute only the mean.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_SAMPLELOSS_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_SAMPLELOSS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// Builds a vector of `batch` losses, one per sample, whose mean is `loss`.
/// Null unless `loss` is recognized as a plain, unweighted mean of values with
/// `batch` samples on axis 0. With ignore_index, the mean is over the samples
/// whose label is not ignored.
mlir::Value buildSampleLoss(mlir::OpBuilder &builder, mlir::Value loss,
                            int64_t batch);

/// Returns the only loss over class labels in `block`: a
/// softmax_cross_entropy_loss or nll_loss whose labels are a block argument, at
/// most reshaped or converted. Several losses on the same scores and labels
/// count as one; the last is returned. Null if there is no loss, or if they
/// differ.
mlir::Operation *findLabelLoss(mlir::Block &block);

/// Builds a tensor of the shape of the labels of `loss`: 1 if the score of the
/// label's class is the greatest, else 0. `loss` comes from findLabelLoss. Null
/// if there are more than kMaxAccuracyClasses classes.
mlir::Value buildAccuracy(mlir::OpBuilder &builder, mlir::Operation *loss);
/// Like the former, for `scores` with classes on axis 1. The new op has the
/// phase and the location of `op`.
mlir::Value buildAccuracy(mlir::OpBuilder &builder, mlir::Operation *op,
                          mlir::Value scores, mlir::Value labels);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_SAMPLELOSS_H
