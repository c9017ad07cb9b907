// Reads files of --weights: values that replace the model's, by name.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_MODEL_WEIGHTFILES_H
#define MPC_TOOLS_MPC_MODEL_WEIGHTFILES_H

#include "frontends/ONNX/Model/ImportOptions.h"
#include "frontends/ONNX/Model/Model.h"
#include "runtime/train/data/Array.h"
#include "tools/mpc/flags/Options.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <string>
#include <vector>

namespace mpc::tools {

/// Reads the values of --weights from ONNX models or arrays, renamed by
/// --weights-prefix. Without --weights, ONNX Runtime's training artifacts take
/// values from the file `checkpoint` beside them. Without --weights-prefix, a
/// prefix like `module.` that all names have is dropped if the model has the
/// rest, or added if the model has it; a note tells the user.
llvm::Error readWeightFiles(const ModelOptions &given,
                            const onnx_frontend::Model &model,
                            onnx_frontend::ImportOptions &options,
                            mlir::MLIRContext *context);

/// Replaces the parameters in `arrays`, read from `file`, by their averages if
/// they come from a checkpoint of a run with --ema. Runs with --ema evaluate
/// the averages and write averages to --output. `isOwn` is true for names of
/// the model; an average is used only if its parameter is in the model. Prints
/// a note.
void takeAveragedWeights(const std::string &file,
                         std::vector<runtime::train::Array> &arrays,
                         llvm::function_ref<bool(llvm::StringRef)> isOwn);

/// Prints how many of the module's parameters and statistics each file gave,
/// other arrays of the file, and parameters that keep the model's values.
void noteWeights(mlir::ModuleOp module,
                 const onnx_frontend::ImportOptions &options);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_WEIGHTFILES_H
