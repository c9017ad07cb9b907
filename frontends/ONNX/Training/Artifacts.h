// Import of ONNX Runtime's training artifacts.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_ARTIFACTS_H
#define MPC_FRONTENDS_ONNX_TRAINING_ARTIFACTS_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// True for the training_model.onnx of ONNX Runtime's artifacts: it has inputs
/// that are buffers of gradients, which its nodes add to.
bool isTrainingArtifact(const Model &model);

/// training_model.onnx becomes @accumulate; the optimizer graph @update; the
/// evaluation graph, where there is one, @eval.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importArtifacts(const Model &training, const ImportOptions &options);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_ARTIFACTS_H
