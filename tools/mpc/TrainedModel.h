// Trained weights out: into a copy of an ONNX model, or as plain arrays.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_TRAINEDMODEL_H
#define MPC_TOOLS_MPC_TRAINEDMODEL_H

#include "compiler/Support/ExitCode.h"
#include "runtime/Session.h"

#include <string>

namespace mpc::tools {

/// Where trained weights go.
struct TrainedModelOptions {
  std::string output;      ///< .onnx, .safetensors or .npz; empty: nowhere
  std::string exportModel; ///< the ONNX model that receives them
};

/// Checks, before hours of training, that the output can be written: its
/// folder exists, and an ONNX output has a model to start from. `model` is what
/// is trained; it receives the weights where it is an ONNX file itself.
ExitCode resolve(TrainedModelOptions &options, const std::string &model);

/// Writes all parameters and statistics. The file appears whole or not at all;
/// where it cannot be written, the weights go to the current folder or the one
/// for temporary files, which is said, and the failure stays one.
ExitCode writeTrainedModel(const TrainedModelOptions &options,
                           runtime::Session &session);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_TRAINEDMODEL_H
