// Finds the axes along which samples lie in the inputs and outputs of a forward
// model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_SAMPLEAXES_H
#define MPC_TOOLS_MPC_MODEL_SAMPLEAXES_H

#include "frontends/ONNX/Import.h"

#include <map>
#include <string>

namespace mpc::tools {

/// The sample axis of each input and output, by name. Inputs and outputs
/// without samples are missing.
struct SampleAxes {
  std::map<std::string, int64_t> inputs, outputs;
};

/// Finds the axes by a second import of `model`, for another batch size.
/// `module` is the result of the first import, with `options`. The axis whose
/// extent equals the batch size in both imports is the sample axis. An output
/// whose shape changes in another way has none. An error if the second import
/// fails.
llvm::Expected<SampleAxes>
findSampleAxes(const onnx_frontend::Model &model,
               const onnx_frontend::ImportOptions &options,
               mlir::ModuleOp module);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_SAMPLEAXES_H
