// Values that the user gives in place of the model's: `--weights`.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_WEIGHTS_H
#define MPC_FRONTENDS_ONNX_MODEL_WEIGHTS_H

#include "frontends/ONNX/Model/ImportOptions.h"
#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// The value given for what is called `name`, of a kind such as "input", as
/// `type`, which the model declares: floats are converted, another shape or
/// kind of type is an error.
llvm::Expected<HostTensor>
fitWeight(const Model &model, const llvm::Twine &kind, llvm::StringRef name,
          const HostTensor &given, mlir::RankedTensorType type);

/// Everything of the model that a value can be given for, in its order.
llvm::SmallVector<llvm::StringRef> getTakenNames(const Model &model);

/// A file may give more than the model takes, but not nothing that it takes:
/// the model would silently keep its own values.
llvm::Error checkWeights(const Model &model, const ImportOptions &options);

/// Integers that `weights` gives another value are constants of what was
/// imported, and no state that is written with a trained model: the file has
/// the new value from now on.
void replaceIntegers(Model &model, const TensorMap &weights);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_WEIGHTS_H
