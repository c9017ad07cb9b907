// Trained weights out: into a copy of an ONNX model, or as plain arrays.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_TRAINEDMODEL_H
#define MPC_TOOLS_MPC_MODEL_TRAINEDMODEL_H

#include "compiler/Support/ExitCode.h"
#include "frontends/ONNX/Export/Export.h"
#include "runtime/train/trainee/Trainee.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::tools {

/// Where trained weights go.
struct TrainedModelOptions {
  std::string output;       ///< .onnx, .safetensors or .npz; empty: nowhere
  std::string exportModel;  ///< the ONNX model that receives them; empty: the
                            ///< one that is compiled
  bool trainedOnly = false; ///< of arrays: not what the run leaves as it was
};

/// Checks, before the model is compiled, that the output can be written: its
/// folder exists, and an ONNX output has a model to start from. `model` is what
/// is trained; it receives the weights where it is an ONNX file itself.
ExitCode resolve(TrainedModelOptions &options, const std::string &model);

/// Writes a run's weights at its end, from what is read before its beginning.
class TrainedModelWriter {
public:
  explicit TrainedModelWriter(const TrainedModelOptions &options);
  ~TrainedModelWriter();

  /// Before anything is compiled: finds places for the weights among `state` in
  /// the model that receives them, and refuses one that has none. That is
  /// the one that the options name, which is read here for the only time, or
  /// else `compiled`, which stays as it is.
  ExitCode prepare(const std::vector<runtime::train::Port> &state,
                   std::shared_ptr<onnx_frontend::Model> compiled);

  /// Takes the model that was compiled and is no longer used, unless the
  /// options name another. It must be the one that was given to `prepare`.
  ExitCode takeModel(std::shared_ptr<onnx_frontend::Model> compiled);

  /// What is done to the samples of the run, as `describePreparation` has it: a
  /// model that is written says it.
  void setPreparation(const std::string &text);

  /// Writes parameters and statistics. The file appears whole or not at
  /// all; where it cannot be written, the weights go into a .safetensors file
  /// beside it, in the current folder or the one for temporary files, which is
  /// said, and the failure stays one.
  ExitCode write(runtime::train::Trainee &trainee);

private:
  const TrainedModelOptions &options;
  /// Names of variables that are left out.
  std::vector<std::string> leftOut;
  onnx_frontend::ShapeMap shapes;
  std::unique_ptr<mlir::MLIRContext> context;
  std::unique_ptr<onnx_frontend::ExportModel> model;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_TRAINEDMODEL_H
