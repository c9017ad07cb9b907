// Initializers that an exporter has made one of several that were equal.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_MERGEDINITIALIZERS_H
#define MPC_FRONTENDS_ONNX_MODEL_MERGEDINITIALIZERS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Gives readers of a merged initializer one of their own again, with a value
/// of its own in the file that is written, where the file shows that they read
/// different ones in the program. That is so of two nodes for which PyTorch's
/// exporter names no parameter or buffer in common, if all elements are equal:
/// in practice it merges no others. And a running statistic is never what
/// another op reads. Returns what was done, as a note; empty where nothing was.
std::string separateInitializers(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_MERGEDINITIALIZERS_H
