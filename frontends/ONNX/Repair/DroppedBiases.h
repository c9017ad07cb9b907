// Restores biases of zeros that PyTorch's exporter leaves out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_DROPPEDBIASES_H
#define MPC_FRONTENDS_ONNX_REPAIR_DROPPEDBIASES_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// The exporter drops a bias that is zero, so the bias would never be trained.
/// Adds the bias back to Gemm, Conv and ConvTranspose. The call in the node's
/// metadata names the parameter, so a layer called twice gets a single bias.
/// Returns a note of the added biases; empty if there are none.
std::string restoreBiases(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_DROPPEDBIASES_H
