// Repairs defects of exporters whose meaning is clear. Changes the model, so a
// file written later is right too.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_MENDEDNODES_H
#define MPC_FRONTENDS_ONNX_REPAIR_MENDEDNODES_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Repairs the model and adds findings to `warnings`:
///   - A Conv bias of zeros with a wrong length is dropped; PyTorch's exporter
///     adds such a bias to a Conv3d without a bias.
///   - If two nodes of a graph have the same name, the second is renamed.
///   - An integer attribute that must be a list becomes a list of one.
///   - `value_floats` of a Constant becomes a tensor, without a warning.
///   - Repeated opset imports and repeated graph outputs are dropped.
void mendNodes(Model &model, std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_MENDEDNODES_H
