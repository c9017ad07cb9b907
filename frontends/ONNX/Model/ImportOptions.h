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

/// The mode of BatchNormalization and Dropout in a forward model. A training
/// graph states the mode of each node itself.
enum class ImportMode { AsExported, Training, Evaluation };

/// The estimate of the variance of a batch that updates a running variance.
/// PyTorch and Keras use the unbiased variance, the ONNX specification uses the
/// population variance. Auto chooses by the tool that produced the model.
enum class RunningVariance { Auto, Unbiased, Population };

/// The batch axis of an input whose data is the same for every batch.
inline constexpr int64_t kNoBatchAxis = -1;

struct ImportOptions {
  /// Values of `--shape`. `--shape x=32x3x224x224` gives the shape of input x.
  /// If the name is a symbolic dimension instead of an input, the option gives
  /// its extent: `--shape N=32`.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// The value of `--batch-size`: the extent of the dynamic batch dimension of
  /// every input. nullopt if absent.
  std::optional<int64_t> batchSize;
  /// Values of `--batch-axis ids=1`: the axis of each input along which samples
  /// lie, or kNoBatchAxis. Inputs that are not listed have their samples along
  /// axis 0.
  std::map<std::string, int64_t> batchAxes;
  /// The mode of forward models. `mpc` sets Training if there is a loss and
  /// Evaluation if not; with `--as-exported` it leaves AsExported.
  ImportMode mode = ImportMode::AsExported;
  /// True if the import looks for training steps: a plain graph whose outputs
  /// are updated parameters or gradients then becomes @step and @eval. False
  /// with `--as-exported` or `--loss`: such a graph then becomes @forward.
  bool findsSteps = true;
  /// True if the import also finds training steps without optimizer nodes: an
  /// output has the form `w - rate * gradient` or the name of a gradient. `mpc
  /// run` sets false, and returns all outputs instead.
  bool findsSpeltOutSteps = true;
  /// The outputs and nodes that losses read, as `--loss` names them; "" for the
  /// only output. If given, the import leaves out an output that no loss reads
  /// and that mpc cannot compute, with a note. nullopt if all outputs are
  /// wanted.
  std::optional<std::vector<std::string>> lossSources;
  RunningVariance runningVariance = RunningVariance::Auto;
  /// True if the import reads the elements of large initializers. If false, the
  /// elements are zeros, for callers that need only shapes.
  bool readsValues = true;
  /// Patterns of `--train`: scalars with a matching name are trained. All other
  /// scalars are constants.
  std::vector<std::string> trainableScalars;
  /// Values that the user gives by name (`--weights`). A value for a graph
  /// input makes the input an initializer: a parameter, or integers that
  /// determine shapes. A value for an initializer replaces it. Floats are
  /// converted to the type that the model declares.
  TensorMap weights;
  /// Values of graph inputs that the import may use. An input becomes a
  /// constant only if a builder must know its value at import (a shape, axes,
  /// bounds).
  TensorMap offered;
  /// Output of the import, set by importModel: the names in `offered` whose
  /// values a builder needs. importModel then moves these values to `weights`
  /// and imports again.
  llvm::StringSet<> *demanded = nullptr;
  /// The names in `weights` that importModel moved from `offered`. Their values
  /// become constants, not state.
  llvm::StringSet<> bound;
  /// For each weights file, the names in it. The import fails if the model uses
  /// no name of a file.
  std::map<std::string, std::vector<std::string>> weightFiles;
  /// The file of the optimizer graph (`--optimizer-model`), for training
  /// artifacts or for a graph whose outputs are gradients. If empty, training
  /// artifacts use optimizer_model.onnx in their directory.
  std::string optimizerModel;
  /// The file of the evaluation graph. If empty, training artifacts use
  /// eval_model.onnx beside the training graph.
  std::string evalModel;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_IMPORTOPTIONS_H
