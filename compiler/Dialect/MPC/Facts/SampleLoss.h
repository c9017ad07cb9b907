// Builds what evaluation reports per sample: the sample's loss, derived from a
// model's mean loss, and whether the predicted class is the label.
//
// Evaluation pads the last batch, so it needs the contribution of each sample
// to the mean. Forward models with their own loss and ONNX Runtime's artifacts
// compute only the mean.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_SAMPLELOSS_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_SAMPLELOSS_H

#include "compiler/Dialect/MPC/MPC.h"

namespace mpc {

/// Builds a vector of `batch` losses whose mean is `loss`. Null unless `loss`
/// is recognized as the plain, unweighted mean of a value with a leading axis
/// of `batch`. With ignore_index, the mean is over the samples whose label is
/// not ignored.
mlir::Value buildSampleLoss(mlir::OpBuilder &builder, mlir::Value loss,
                            int64_t batch);

/// Returns the only loss over class labels in `block`: a
/// softmax_cross_entropy_loss or nll_loss whose labels are a block argument, at
/// most reshaped or converted. Several losses count as one if they read the
/// same scores and labels. Null if there is no such loss, or if several differ.
mlir::Operation *findLabelLoss(mlir::Block &block);

/// Builds, per label of `loss`, 1 if the greatest score is the label's, else 0.
/// `loss` comes from findLabelLoss. Null if there are more than
/// kMaxAccuracyClasses classes.
mlir::Value buildAccuracy(mlir::OpBuilder &builder, mlir::Operation *loss);

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_SAMPLELOSS_H
