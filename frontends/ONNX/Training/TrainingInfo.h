// Imports models with training_info.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_TRAINING_TRAININGINFO_H
#define MPC_FRONTENDS_ONNX_TRAINING_TRAININGINFO_H

#include "frontends/ONNX/Importer/Importer.h"

namespace mpc::onnx_frontend {

/// Imports the inference graph and the training algorithm together as @step,
/// and imports @eval. Gradient becomes mpc.gradient.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importTrainingInfo(const Model &model, const ImportOptions &options);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_TRAINING_TRAININGINFO_H
