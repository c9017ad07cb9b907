// Finds the axes along which a forward model's inputs and outputs have samples.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_SAMPLEAXES_H
#define MPC_TOOLS_MPC_MODEL_SAMPLEAXES_H

#include "frontends/ONNX/Import.h"

#include <map>
#include <string>

namespace mpc::tools {

/// Sample axes by name. Inputs and outputs without samples are missing.
struct SampleAxes {
  std::map<std::string, int64_t> inputs, outputs;
};

/// Finds the axes by importing `model` again for another batch size than that
/// of `module`, which `model` became with `options`. The axis whose extent
/// follows the batch size is the sample axis. An output that follows in another
/// way has no sample axis. An error if the model cannot be imported for another
/// batch size.
llvm::Expected<SampleAxes>
findSampleAxes(const onnx_frontend::Model &model,
               const onnx_frontend::ImportOptions &options,
               mlir::ModuleOp module);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_SAMPLEAXES_H
