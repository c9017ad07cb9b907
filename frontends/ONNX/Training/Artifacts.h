// Imports ONNX Runtime's training artifacts.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_ARTIFACTS_H
#define MPC_FRONTENDS_ONNX_TRAINING_ARTIFACTS_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// True for a node that adds a gradient to a buffer, its first input.
bool isAccumulator(const proto::NodeProto &node);

/// True for the training_model.onnx of ONNX Runtime's artifacts: nodes add
/// gradients to buffers.
bool isTrainingArtifact(const Model &model);

/// Imports training_model.onnx as @accumulate, the optimizer graph as @update
/// and the evaluation graph, if any, as @eval.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importArtifacts(const Model &training, const ImportOptions &options);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_ARTIFACTS_H
