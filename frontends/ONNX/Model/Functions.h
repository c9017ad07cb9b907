// Functions of the model: every call becomes the nodes of the function's body.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_FUNCTIONS_H
#define MPC_FRONTENDS_ONNX_MODEL_FUNCTIONS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Replaces calls of the model's functions in all of its graphs. A function
/// goes before an operator of its name, and its nodes keep the opsets that it
/// imports. A finding where a function calls itself, or where a call does not
/// fit its function.
llvm::Error inlineFunctions(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_FUNCTIONS_H
