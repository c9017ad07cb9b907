// Imports ONNX: checks a file and converts it to a module of mpc ops.
//
// No part of a file is used before it is checked. A bad file yields a list of
// located errors with an exit code, never a crash. The functions of the module
// depend on the kind of model:
//
// | model | functions |
// |---|---|
// | forward | @forward(inputs, state) -> (outputs, new statistics) |
// | ONNX Runtime training artifacts | @accumulate, @update, @eval |
// | with training_info | @step with mpc.gradient, @eval |
// | one graph with updated parameters or gradients as outputs | @step, @eval |
//
// State becomes mpc.variables with the names of the model.
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

/// An ONNX file in memory, read once. So mpc compiles, describes and writes the
/// same model, even if the file changes meanwhile.
class Model;

/// Reads the file at `path` ("-" is standard input), and repairs it. If `path`
/// is a directory of training artifacts, reads its training graph.
/// `skippedRepairs` names the rows of Repair/Repairs.def to skip.
llvm::Expected<std::shared_ptr<Model>>
readModel(llvm::StringRef path, mlir::MLIRContext *context,
          llvm::ArrayRef<std::string> skippedRepairs = {});

/// Emits the warnings from reading and repairing the file. With `withNotes`,
/// also emits the notes, which matter only for training.
void emitLog(const Model &model, bool withNotes);

/// Imports the model. For training artifacts, also reads and imports the
/// optimizer graph and the evaluation graph. The model's context must have
/// loaded the mpc and func dialects, or be able to load them.
llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>>
importModel(const Model &model, const ImportOptions &options);

/// Reads the initializers of an ONNX file by name, for `--weights F.onnx`.
llvm::Expected<TensorMap>
readWeights(llvm::StringRef path, mlir::MLIRContext *context,
            llvm::ArrayRef<std::string> skippedRepairs = {});

/// Identifies a model.
struct ModelIdentity {
  std::string hash;  ///< XXH3 of the file's bytes, as 16 hexadecimal digits
  int64_t opset = 0; ///< opset of ONNX's own domain; 0 if not imported
};
ModelIdentity identifyModel(const Model &model);

/// Returns the flags that prepared the training samples, such as "--normalize
/// 0.5:0.2", as recorded in a model trained by mpc. Empty if the file has no
/// record.
std::string readPreparation(const Model &model);

/// A summary of a model without importing it, for `mpc inspect`.
struct ModelSummary {
  std::string producer;
  int64_t irVersion = 0;
  /// Domain ("" is ONNX's own) and version.
  std::vector<std::pair<std::string, int64_t>> opsets;
  /// Name and type: "x", "f32[N,1,28,28]".
  std::vector<std::pair<std::string, std::string>> inputs, outputs;
  /// Counts of ops by name. The name includes the domain, except for ONNX's
  /// own.
  std::map<std::string, int64_t> ops;
  int64_t initializers = 0;
  /// The number of elements of all float initializers, except those of a single
  /// element.
  int64_t parameters = 0;
  bool hasTrainingInfo = false;
};
llvm::Expected<ModelSummary> summarizeModel(const Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORT_H
