// Files of --weights: values by name in place of the model's.
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

/// Reads the values of --weights from ONNX models, or from arrays, under the
/// names that the model has by --weights-prefix. Where the flag is not given,
/// ONNX Runtime's training artifacts have the values of the file `checkpoint`
/// beside them. Without that flag, names of a
/// module within another, all of which begin with `module.` or the like, are
/// the model's names without that, or the other way round: a note says so.
llvm::Error readWeightFiles(const ModelOptions &given,
                            const onnx_frontend::Model &model,
                            onnx_frontend::ImportOptions &options,
                            mlir::MLIRContext *context);

/// Of the arrays of `file`, those of a checkpoint of a run with --ema, takes
/// the averages as the parameters, which a note says: they are what such a run
/// evaluates and gives to --output. `isOwn` is of names that are the model's,
/// which has a parameter of the name of an average then.
void takeAveragedWeights(const std::string &file,
                         std::vector<runtime::train::Array> &arrays,
                         llvm::function_ref<bool(llvm::StringRef)> isOwn);

/// Says how many of the module's parameters and statistics each file gave,
/// what it has beside them, and which keep the model's values.
void noteWeights(mlir::ModuleOp module,
                 const onnx_frontend::ImportOptions &options);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_WEIGHTFILES_H
