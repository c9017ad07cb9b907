// Initializers that an exporter has made several of, of one parameter.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_SPLITINITIALIZERS_H
#define MPC_FRONTENDS_ONNX_REPAIR_SPLITINITIALIZERS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Makes one of initializers that the file says are one parameter: PyTorch's
/// exporter computes the transposition of a matrix for each product that reads
/// it, so that the head of a language model would no longer be tied to its
/// embedding, nor a layer that is called twice to itself. The file that is
/// written has the parameter and a Transpose.
/// Returns what was done, as a note; empty where nothing was.
std::string joinInitializers(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_SPLITINITIALIZERS_H
