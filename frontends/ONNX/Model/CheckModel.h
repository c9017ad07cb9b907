// Checks the structure of a whole file, before anything edits its graphs and
// after each edit.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_CHECKMODEL_H
#define MPC_FRONTENDS_ONNX_MODEL_CHECKMODEL_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Checks all graphs of the file: the main graph, the graphs of training_info,
/// the functions, and the bodies of nodes. Each must satisfy the rules of
/// Graph: a name is defined once, a value that is read is defined, no cycles.
/// Dimensions of initializers must be valid. Emits no diagnostics.
llvm::Error checkModel(const Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_CHECKMODEL_H
