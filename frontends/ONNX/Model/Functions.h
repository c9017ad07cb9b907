// Inlines the functions of a model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_FUNCTIONS_H
#define MPC_FRONTENDS_ONNX_MODEL_FUNCTIONS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Replaces calls of the model's functions in all graphs of the file by the
/// functions' nodes. A function takes precedence over an operator of the same
/// name. The new nodes keep the opsets that their function imports. Fails if a
/// function calls itself or if a call does not fit its function.
llvm::Error inlineFunctions(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_FUNCTIONS_H
