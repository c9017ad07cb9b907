// Replaces values of the model by values of the user: `--weights`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_WEIGHTS_H
#define MPC_FRONTENDS_ONNX_MODEL_WEIGHTS_H

#include "frontends/ONNX/Model/ImportOptions.h"
#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Fits the value given for `name` to `type`, the declared type. Converts
/// floats. Error if the shape or the kind of type differs. `kind` is a word for
/// messages, like "input".
llvm::Expected<HostTensor>
fitWeight(const Model &model, const llvm::Twine &kind, llvm::StringRef name,
          const HostTensor &given, mlir::RankedTensorType type);

/// Returns all names that a value can be given for, in the model's order.
llvm::SmallVector<llvm::StringRef> getTakenNames(const Model &model);

/// Fails if the model uses no name of some file: the model would silently keep
/// its own values. A file may have more names than the model uses.
llvm::Error checkWeights(const Model &model, const ImportOptions &options);

/// Writes given integers into the model's initializers. The import treats
/// integers as constants, not as state, so a trained model would not contain
/// them otherwise.
void replaceIntegers(Model &model, const TensorMap &weights);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_WEIGHTS_H
