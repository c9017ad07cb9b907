// Reads the files of --weights, whose arrays replace the model's weights of the
// same names.
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

/// Says what becomes of the averages in a checkpoint of a run with --ema.
enum class Averages {
  Take,  ///< they replace the parameters
  Leave, ///< the parameters stay; an error of usage if no file has averages
};

/// Reads the values of --weights from ONNX models or files of arrays, and
/// renames them by --weights-prefix. Without --weights, a model that is a
/// training artifact of ONNX Runtime takes the values in the file `checkpoint`
/// beside it. Without --weights-prefix, a prefix like `module.` is removed if
/// all names have it and the model's names do not, or added in the opposite
/// case. Prints a note then.
llvm::Error readWeightFiles(const ModelOptions &given,
                            const onnx_frontend::Model &model,
                            onnx_frontend::ImportOptions &options,
                            mlir::MLIRContext *context,
                            Averages averages = Averages::Take);

/// If `file` is a checkpoint of a run with --ema, replaces parameters in
/// `arrays`, which come from the file, by the averages, which a run with --ema
/// evaluates and writes to --output. `isOwn` is true for names of the model;
/// other averages are not used. Prints a note.
void takeAveragedWeights(const std::string &file,
                         std::vector<runtime::train::Array> &arrays,
                         llvm::function_ref<bool(llvm::StringRef)> isOwn);

/// For each weight file, prints how many parameters and statistics of the
/// module it gave, and names unused arrays. Also prints the parameters that
/// keep the model's values.
void noteWeights(mlir::ModuleOp module,
                 const onnx_frontend::ImportOptions &options);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_MODEL_WEIGHTFILES_H
