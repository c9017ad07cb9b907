// The options of an import.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_IMPORTOPTIONS_H
#define MPC_FRONTENDS_ONNX_MODEL_IMPORTOPTIONS_H

#include "frontends/ONNX/Model/HostTensor.h"

#include "llvm/ADT/StringSet.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace mpc::onnx_frontend {

/// The mode of BatchNormalization and Dropout in a forward model. Training
/// graphs state their own modes.
enum class ImportMode { AsExported, Training, Evaluation };

/// The batch variance that updates a running variance. PyTorch and Keras use
/// the unbiased variance, the ONNX specification the population variance. Auto
/// decides by the model's producer.
enum class RunningVariance { Auto, Unbiased, Population };

/// The batch axis of an input that is the same for every batch.
inline constexpr int64_t kNoBatchAxis = -1;

struct ImportOptions {
  /// Shapes of inputs by name: `--shape x=32x3x224x224`. A name that is a
  /// symbolic dimension, not an input, binds the dimension: `--shape N=32`.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Binds the dynamic batch dimension of every input: `--batch-size`.
  std::optional<int64_t> batchSize;
  /// Sample axes of inputs by name, or kNoBatchAxis: `--batch-axis ids=1`. Axis
  /// 0 for inputs that are not listed.
  std::map<std::string, int64_t> batchAxes;
  /// The tool chooses Training with a loss and Evaluation without, unless
  /// `--as-exported`.
  ImportMode mode = ImportMode::AsExported;
  /// True if a plain graph whose outputs are updated parameters or gradients
  /// becomes @step and @eval. Otherwise it becomes @forward, as with
  /// `--as-exported` or `--loss`.
  bool findsSteps = true;
  /// True if steps are also recognised without optimizer nodes: an output looks
  /// like `w - rate * gradient` or has the name of a gradient. `mpc run` clears
  /// this flag and returns all outputs instead.
  bool findsSpeltOutSteps = true;
  RunningVariance runningVariance = RunningVariance::Auto;
  /// True if large initial values are read. Otherwise zeros replace them, for
  /// callers that need only shapes.
  bool readsValues = true;
  /// Patterns of scalars to train: `--train`. Other scalars are constants.
  std::vector<std::string> trainableScalars;
  /// Values of graph inputs by name, read as initializers: parameters among a
  /// model's inputs, or integers for shapes. Also replace initializers of the
  /// same name. Floats are converted to the type that the model declares.
  TensorMap weights;
  /// Values of graph inputs by name. An input becomes a constant only if a
  /// builder needs the value (a shape, axes, bounds).
  TensorMap offered;
  /// Receives the names in `offered` needed by the import; importModel then
  /// moves the values to `weights` and imports again. Set by importModel.
  llvm::StringSet<> *demanded = nullptr;
  /// Names in `weights` that came from `offered`: constants, not state. Set by
  /// importModel.
  llvm::StringSet<> bound;
  /// Names by file of weights. The model must use at least one name of each
  /// file.
  std::map<std::string, std::vector<std::string>> weightFiles;
  /// The optimizer graph of ONNX Runtime artifacts, or for a graph whose
  /// outputs are gradients: `--optimizer-model`. Default for a directory: its
  /// optimizer_model.onnx.
  std::string optimizerModel;
  /// The evaluation graph. Default: eval_model.onnx beside the training graph.
  std::string evalModel;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_IMPORTOPTIONS_H
