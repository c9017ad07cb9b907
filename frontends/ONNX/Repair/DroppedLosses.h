// Losses that tools which edit training graphs leave out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_DROPPEDLOSSES_H
#define MPC_FRONTENDS_ONNX_REPAIR_DROPPEDLOSSES_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// A device that trains needs no loss: compilers for such devices leave of a
/// SoftmaxCrossEntropyLoss the log-probabilities alone, as its only output,
/// which ONNX has as the second one. The gradient's node that reads them tells.
/// Puts the loss back, as an output of the graph, too, and says so in
/// `warnings`.
void restoreLosses(Model &model, std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_DROPPEDLOSSES_H
