// Replaces values of the model by values that the user gives (`--weights`).
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_WEIGHTS_H
#define MPC_FRONTENDS_ONNX_MODEL_WEIGHTS_H

#include "frontends/ONNX/Model/ImportOptions.h"
#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Returns `given`, the user's value for `name`, converted to `type`, which the
/// model declares. Converts between float types only. Error if the shape
/// differs, or a type other than float. `kind` is a word for messages, like
/// "input".
llvm::Expected<HostTensor>
fitWeight(const Model &model, const llvm::Twine &kind, llvm::StringRef name,
          const HostTensor &given, mlir::RankedTensorType type);

/// Returns the names of all values that the user can replace, in the model's
/// order.
llvm::SmallVector<llvm::StringRef> getTakenNames(const Model &model);

/// Returns the names of the float initializers of several elements that
/// `values` does not replace, in the model's order.
std::vector<std::string> listKeptWeights(const Model &model,
                                         const TensorMap &values);

/// Fails if the model uses no name of one of the weights files: the model would
/// silently keep its own values. A file may have further names that the model
/// does not use.
llvm::Error checkWeights(const Model &model, const ImportOptions &options);

/// Writes the integers in `weights` into the model's initializers of the same
/// names. The import makes integers constants, not state, and an export writes
/// only state; so the exported model would keep the old integers.
void replaceIntegers(Model &model, const TensorMap &weights);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_WEIGHTS_H
