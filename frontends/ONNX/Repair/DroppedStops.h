// Restores stops of derivatives that PyTorch's exporter leaves out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_DROPPEDSTOPS_H
#define MPC_FRONTENDS_ONNX_REPAIR_DROPPEDSTOPS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// The exporter writes x.detach() as an Identity of the call aten.detach, and
/// drops the Identity when it optimizes. Calls that read the result still name
/// it ("%detach_1"). Puts the Identity back if the reading operand is known.
/// Otherwise adds to `warnings` that derivatives flow where the program stops
/// them. Returns a note of the restored stops; empty if there are none.
std::string restoreStops(Model &model, std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_DROPPEDSTOPS_H
