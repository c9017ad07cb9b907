// Files of --weights: values by name in place of the model's.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TOOLS_MPC_WEIGHTFILES_H
#define MPC_TOOLS_MPC_WEIGHTFILES_H

#include "frontends/ONNX/Model/ImportOptions.h"
#include "frontends/ONNX/Model/Model.h"
#include "tools/mpc/Options.h"

#include "mlir/IR/BuiltinOps.h"

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

/// Says how many of the module's parameters and statistics each file gave,
/// what it has beside them, and which keep the model's values.
void noteWeights(mlir::ModuleOp module,
                 const onnx_frontend::ImportOptions &options);

} // namespace mpc::tools

#endif // MPC_TOOLS_MPC_WEIGHTFILES_H
