// Writes trained weights: into a copy of an ONNX model, or as plain arrays.
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

/// The destination of trained weights.
struct TrainedModelOptions {
  std::string output;      ///< .onnx, .safetensors or .npz; empty: nowhere
  std::string exportModel; ///< the ONNX model that receives them; empty: the
                           ///< one that is compiled
  std::vector<std::string> noRepair; ///< repairs to leave out of exportModel
  bool trainedOnly = false; ///< of arrays: not what the run leaves as it was
};

/// Checks before compiling that the output can be written: its folder exists,
/// and an ONNX output has a model to start from. `model` is the model to train,
/// which receives the weights if it is an ONNX file.
ExitCode resolve(TrainedModelOptions &options, const std::string &model);

/// Writes the weights at the end of a run. Reads before the run what writing
/// needs.
class TrainedModelWriter {
public:
  explicit TrainedModelWriter(const TrainedModelOptions &options);
  ~TrainedModelWriter();

  /// Call before compiling. Finds places for `state` in the model that receives
  /// the weights, and refuses a model without places. The model comes from the
  /// options, and is read only here, or is `compiled`, which stays unchanged.
  ExitCode prepare(const std::vector<runtime::train::Port> &state,
                   std::shared_ptr<onnx_frontend::Model> compiled);

  /// Takes over the compiled model, which nobody else may use any longer,
  /// unless the options name another. Must be the model that `prepare` got.
  ExitCode takeModel(std::shared_ptr<onnx_frontend::Model> compiled);

  /// Sets how the samples of the run are prepared, as text of
  /// `describePreparation`. A written model records the text.
  void setPreparation(const std::string &text);

  /// Writes parameters and statistics. The file appears whole or not at all.
  /// After a failure, the weights go into a .safetensors file beside the
  /// output, in the current folder or in the folder for temporary files; a
  /// warning names the file, and the failure is still returned.
  ExitCode write(runtime::train::Trainee &trainee);

private:
  const TrainedModelOptions &options;
  /// Names of the variables that `write` leaves out.
  std::vector<std::string> leftOut;
  onnx_frontend::ShapeMap shapes;
  std::unique_ptr<mlir::MLIRContext> context;
  std::unique_ptr<onnx_frontend::ExportModel> model;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_TRAINEDMODEL_H
