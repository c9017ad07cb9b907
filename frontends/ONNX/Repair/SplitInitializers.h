// Joins initializers that an exporter has made of the same parameter.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_SPLITINITIALIZERS_H
#define MPC_FRONTENDS_ONNX_REPAIR_SPLITINITIALIZERS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// PyTorch's exporter folds the transposition of a matrix anew for each
/// product. The head of a language model would no longer be tied to the
/// embedding, nor a layer to itself in a second call. Replaces the copies by
/// the parameter, or by a Transpose of the parameter, also in the written file.
/// Returns a note of the changes; empty if there are none.
std::string joinInitializers(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_SPLITINITIALIZERS_H
