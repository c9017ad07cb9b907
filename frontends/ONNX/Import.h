// ONNX in: a file, checked, becomes a module of mpc ops.
//
// Nothing of a file is used before it was checked; a bad file is a list of
// located findings with an exit code, never a crash. The kinds of models
// become:
//
// | model | functions |
// |---|---|
// | forward | @forward(inputs, state) -> (outputs, new statistics) |
// | ONNX Runtime training artifacts | @accumulate, @update, @eval |
// | with training_info | @step with mpc.gradient, @eval |
// | one graph with updated parameters or gradients as outputs | @step, @eval |
//
// State becomes mpc.variables, named as in the model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORT_H
#define MPC_FRONTENDS_ONNX_IMPORT_H

#include "frontends/ONNX/Model/Error.h"
#include "frontends/ONNX/Model/ImportOptions.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace mpc::onnx_frontend {

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

/// What was done to the samples that the model was trained on, as
/// `ExportModel::setPreparation` left it; empty where the file does not say.
std::string readPreparation(const Model &model);

/// What a model is and needs, without importing it: for `mpc inspect`.
struct ModelSummary {
  std::string producer;
  int64_t irVersion = 0;
  /// Domain ("" is ONNX's own) and version.
  std::vector<std::pair<std::string, int64_t>> opsets;
  /// Name and type: "x", "f32[N,1,28,28]".
  std::vector<std::pair<std::string, std::string>> inputs, outputs;
  /// Ops by name with their count; domain first where it is not ONNX's own.
  std::map<std::string, int64_t> ops;
  int64_t initializers = 0;
  int64_t parameters = 0; ///< elements of float initializers
  bool hasTrainingInfo = false;
};
llvm::Expected<ModelSummary> summarizeModel(const Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORT_H
