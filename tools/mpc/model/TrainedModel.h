// Writes trained weights into a copy of an ONNX model, or as a file of arrays.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_TRAINEDMODEL_H
#define MPC_TOOLS_MPC_MODEL_TRAINEDMODEL_H

#include "compiler/Dialect/MPC/Facts/Adapters.h"
#include "compiler/Support/ExitCode.h"
#include "frontends/ONNX/Export/AdapterNodes.h"
#include "frontends/ONNX/Export/Export.h"
#include "runtime/train/data/Array.h"
#include "runtime/train/trainee/Trainee.h"

#include <memory>
#include <string>
#include <vector>

namespace mpc::tools {

/// The flags that say where and how trained weights are written.
struct TrainedModelOptions {
  std::string output;      ///< .onnx, .safetensors or .npz; may be empty
  std::string exportModel; ///< the ONNX model to copy; empty for the one that
                           ///< is trained
  std::vector<std::string> noRepair; ///< repairs of exportModel to skip
  bool trainedOnly = false;          ///< leave out arrays that do not change
  bool unmerged = false;             ///< keep adapters as nodes of their own
};

/// Checks the flags before the model is compiled: the folder of the output must
/// exist, and an output .onnx needs a model to copy. `model` is the trained
/// file, which is also the default model to copy if ONNX.
ExitCode resolve(TrainedModelOptions &options, const std::string &model);

/// Writes the weights at the end of a run. Before the run, checks the flags and
/// reads the model to copy.
class TrainedModelWriter {
public:
  explicit TrainedModelWriter(const TrainedModelOptions &options);
  ~TrainedModelWriter();

  /// Call before machine code is generated. Finds, in the model to copy, an
  /// initializer for each variable of the model; an error if there is none. The
  /// model is `compiled`, which is not changed, or --export-model, which is
  /// read here.
  ExitCode prepare(const runtime::train::TraineeInfo &info,
                   std::shared_ptr<onnx_frontend::Model> compiled);

  /// Call after compiling, with the model that `prepare` got, which nobody else
  /// may use any longer. Ignores the model if --export-model names another.
  ExitCode takeModel(std::shared_ptr<onnx_frontend::Model> compiled);

  /// Sets the metadata that a written model gets. A model of --export-model
  /// with other outputs than the trained one gets no loss and no metrics.
  void setRecord(std::map<std::string, std::string> entries);

  /// Writes parameters and statistics. Adapters are merged into the weights
  /// that they adapt, or, with --trained-only, written as PEFT does. The file
  /// is complete, or does not appear. If writing fails, saves the weights as
  /// .safetensors beside the output, in the current folder or in the folder of
  /// temporary files, names the file in a warning, and returns the failure.
  ExitCode write(runtime::train::Trainee &trainee);

private:
  ExitCode write(std::vector<runtime::train::Array> &state);
  /// Returns the adapters that become nodes of the written model.
  std::vector<onnx_frontend::AdapterNodes> listNodes() const;

  const TrainedModelOptions &options;
  /// Names of the variables that `write` leaves out.
  std::vector<std::string> leftOut;
  std::vector<Adapter> adapters;
  onnx_frontend::ShapeMap shapes, adapterShapes;
  /// Names of the outputs of the trained model.
  std::vector<std::string> outputs;
  std::unique_ptr<mlir::MLIRContext> context;
  std::unique_ptr<onnx_frontend::ExportModel> model;
};

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_TRAINEDMODEL_H
