// What is asked of an import.
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

/// The mode of BatchNormalization and Dropout in a forward model; training
/// graphs say themselves what is training.
enum class ImportMode { AsExported, Training, Evaluation };

/// Which variance of the batch a running variance takes up. PyTorch's and
/// Keras's is unbiased, the specification's the population variance; Auto goes
/// by the model's producer.
enum class RunningVariance { Auto, Unbiased, Population };

/// Of an input that is the same for every batch.
inline constexpr int64_t kNoBatchAxis = -1;

struct ImportOptions {
  /// Shapes of inputs, by name: `--shape x=32x3x224x224`. A name that is no
  /// input's but a symbolic dimension's binds that: `--shape N=32`.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Binds the dynamic batch dimension of every input: `--batch-size`.
  std::optional<int64_t> batchSize;
  /// The axes of inputs that samples are along, by name, or kNoBatchAxis; of
  /// others the first: `--batch-axis ids=1`.
  std::map<std::string, int64_t> batchAxes;
  /// Training where a loss is given, evaluation where none is, unless
  /// `--as-exported`.
  ImportMode mode = ImportMode::AsExported;
  /// Whether a plain graph whose outputs are updated parameters, or their
  /// gradients, becomes @step and @eval; otherwise @forward, as any other:
  /// `--as-exported`, and with `--loss`.
  bool findsSteps = true;
  /// Whether it does so without nodes of optimizers, too: where an output looks
  /// like `w - rate * gradient`, or has the name of a gradient. `mpc run` gives
  /// all outputs of such a graph instead.
  bool findsSpeltOutSteps = true;
  RunningVariance runningVariance = RunningVariance::Auto;
  /// Whether large initial values are read; zeros stand for them where shapes
  /// alone are of interest.
  bool readsValues = true;
  /// Scalars are the model's constants, but for those whose name matches one of
  /// these: `--train`.
  std::vector<std::string> trainableScalars;
  /// Values of graph inputs, by name, which are then read as initializers:
  /// parameters of a model that has them as inputs, integers that determine
  /// shapes. They also replace the values of initializers of the same name.
  /// Floats are converted to the type that the model declares.
  TensorMap weights;
  /// Values of graph inputs, by name, which become constants where a builder
  /// must know them (a shape, axes, bounds); the others stay inputs.
  TensorMap offered;
  /// Receives the names among them that the import asked for, which then
  /// belong among `weights`. Set by importModel.
  llvm::StringSet<> *demanded = nullptr;
  /// Names among `weights` that were asked for so: constants, no state. Set by
  /// importModel.
  llvm::StringSet<> bound;
  /// The names that each file of weights has, of which the model must take one.
  std::map<std::string, std::vector<std::string>> weightFiles;
  /// The optimizer graph of ONNX Runtime's artifacts, for a directory its
  /// optimizer_model.onnx by default, or of a graph with gradients as outputs:
  /// `--optimizer-model`.
  std::string optimizerModel;
  /// The evaluation graph; the eval_model.onnx beside the training graph by
  /// default.
  std::string evalModel;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_IMPORTOPTIONS_H
