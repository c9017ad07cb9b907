// Initializers that a file has twice under one name.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_REPEATEDINITIALIZERS_H
#define MPC_FRONTENDS_ONNX_REPAIR_REPEATEDINITIALIZERS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Leaves one of the initializers of a graph that share a name and values, as
/// tools that join models write them, and adds a warning for each such name to
/// `warnings`. Where their types, shapes or values differ, nobody can tell
/// which is meant: an error (kind InvalidInput) with the places and the first
/// difference.
llvm::Error dropRepeatedInitializers(Model &model,
                                     std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_REPEATEDINITIALIZERS_H
