// Where a forward model's inputs and outputs have the samples of a batch.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_SAMPLEAXES_H
#define MPC_TOOLS_MPC_MODEL_SAMPLEAXES_H

#include "frontends/ONNX/Import.h"

#include <map>
#include <string>

namespace mpc::tools {

/// Axes of samples by name; what is not there has none.
struct SampleAxes {
  std::map<std::string, int64_t> inputs, outputs;
};

/// Finds them by importing `model` once more for another batch than that of
/// `module`, which it became with `options`: extents that follow it are those
/// of samples. An output that follows it otherwise has no axis of samples. An
/// error where there is no other batch that the model can be imported for.
llvm::Expected<SampleAxes>
findSampleAxes(const onnx_frontend::Model &model,
               const onnx_frontend::ImportOptions &options,
               mlir::ModuleOp module);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_SAMPLEAXES_H
