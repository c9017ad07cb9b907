// Drops repeated initializers of the same name.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_REPEATEDINITIALIZERS_H
#define MPC_FRONTENDS_ONNX_REPAIR_REPEATEDINITIALIZERS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Tools that join models repeat initializers. Keeps one of each name, and adds
/// a warning per graph to `warnings`. Error (kind InvalidInput) if types,
/// shapes or values differ: nobody can tell which is right. The error gives the
/// positions and the first difference.
llvm::Error dropRepeatedInitializers(Model &model,
                                     std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_REPEATEDINITIALIZERS_H
