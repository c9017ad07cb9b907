// ONNX in: a file, checked, becomes a module of mpc ops.
//
// Nothing of a file is used before it was checked; a bad file is a list of
// located findings with an exit code, never a crash. The three kinds of models
// become:
//
// | model | functions |
// |---|---|
// | forward | @forward(inputs, state) -> (outputs, new statistics) |
// | ONNX Runtime training artifacts | @accumulate, @update, @eval |
// | with training_info | @step with mpc.gradient, @eval |
//
// State becomes mpc.variables, named as in the model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORT_H
#define MPC_FRONTENDS_ONNX_IMPORT_H

#include "frontends/ONNX/Error.h"
#include "frontends/ONNX/HostTensor.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <memory>
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

struct ImportOptions {
  /// Shapes of inputs, by name: `--shape x=32x3x224x224`. A name that is no
  /// input's but a symbolic dimension's binds that: `--shape N=32`.
  std::map<std::string, std::vector<int64_t>> shapes;
  /// Binds the dynamic first dimension of every input: `--batch-size`.
  std::optional<int64_t> batchSize;
  /// Training where a loss is given, evaluation where none is, unless
  /// `--as-exported`.
  ImportMode mode = ImportMode::AsExported;
  RunningVariance runningVariance = RunningVariance::Auto;
  /// Scalars are the model's constants, but for those whose name matches one of
  /// these: `--train`.
  std::vector<std::string> trainableScalars;
  /// Values of graph inputs, by name, which are then read as initializers:
  /// parameters of a model that has them as inputs, integers that determine
  /// shapes. They also replace the values of initializers of the same name.
  /// Floats are converted to the type that the model declares.
  TensorMap weights;
  /// The names that each file of weights has, of which the model must take one.
  std::map<std::string, std::vector<std::string>> weightFiles;
  /// The optimizer graph of ONNX Runtime's artifacts: `--optimizer-model`; for
  /// a directory its optimizer_model.onnx by default.
  std::string optimizerModel;
  /// The evaluation graph; the eval_model.onnx beside the training graph by
  /// default.
  std::string evalModel;
};

/// A file in memory, which several ask: what a run compiles, describes and
/// writes back is then one model, whatever becomes of the file meanwhile.
class Model;

/// Reads the file at `path`, or the training graph in a directory of training
/// artifacts; "-" is standard input.
llvm::Expected<std::shared_ptr<Model>> readModel(llvm::StringRef path,
                                                 mlir::MLIRContext *context);

/// Imports the model; of training artifacts also the graphs beside it, which
/// are read now. The mpc and func dialects must be loaded into the context that
/// the model was read in, or be loadable.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importModel(const Model &model, const ImportOptions &options);

/// The initializers of an ONNX file by name, for `--weights F.onnx`.
llvm::Expected<TensorMap> readWeights(llvm::StringRef path,
                                      mlir::MLIRContext *context);

/// Which model it is.
struct ModelIdentity {
  std::string hash;  ///< XXH3 of the file's bytes, as 16 hexadecimal digits
  int64_t opset = 0; ///< of ONNX's own domain; 0 where that is not imported
};
ModelIdentity identifyModel(const Model &model);

/// What a model is and needs, without importing it: for `mpc inspect`.
struct ModelSummary {
  std::string producer;
  int64_t irVersion = 0;
  /// Domain ("" is ONNX's own) and version.
  std::vector<std::pair<std::string, int64_t>> opsets;
  /// "x: f32[N,1,28,28]".
  std::vector<std::string> inputs, outputs;
  /// Ops by name with their count; domain first where it is not ONNX's own.
  std::map<std::string, int64_t> ops;
  int64_t initializers = 0;
  int64_t parameters = 0; ///< elements of float initializers
  bool hasTrainingInfo = false;
};
llvm::Expected<ModelSummary> summarizeModel(const Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORT_H
