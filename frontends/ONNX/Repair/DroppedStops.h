// Ends of derivatives that PyTorch's exporter leaves out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_DROPPEDSTOPS_H
#define MPC_FRONTENDS_ONNX_REPAIR_DROPPEDSTOPS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// The program's x.detach(), which the exporter has as an Identity of the call
/// aten.detach and leaves out where it optimizes: calls that read its result
/// still name it ("%detach_1"). Puts the Identity back where a node's operand
/// is known to be that result, else adds to `warnings` that a derivative flows
/// where the program has none. Returns what was done, as a note; empty where
/// nothing was.
std::string restoreStops(Model &model, std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_DROPPEDSTOPS_H
