// Biases of zeros that PyTorch's exporter leaves out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_DROPPEDBIASES_H
#define MPC_FRONTENDS_ONNX_REPAIR_DROPPEDBIASES_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Gives products and convolutions that the exporter has taken the bias from,
/// since it starts at zero, that bias again: otherwise it would not be trained.
/// The call behind the node names it, so a layer that is called twice has one.
/// Returns what was done, as a note; empty where nothing was.
std::string restoreBiases(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_DROPPEDBIASES_H
