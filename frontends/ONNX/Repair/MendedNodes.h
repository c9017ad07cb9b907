// Puts right what exporters write against the specification though it is clear
// what they mean, in the model itself: the file that is written is right, too.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_MENDEDNODES_H
#define MPC_FRONTENDS_ONNX_REPAIR_MENDEDNODES_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Mends the model, and adds what was found to `warnings`:
///   - zeros of a wrong length as the bias of a Conv become no bias, as of a
///     Conv3d of PyTorch's exporter that has none;
///   - of two nodes of one name in a graph, the second gets another;
///   - an integer where an attribute is a list becomes a list of one;
///   - value_floats of a Constant, which is as right, becomes a tensor;
///   - an opset that is imported twice, and a graph output that is declared
///     twice, stay once.
void mendNodes(Model &model, std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_MENDEDNODES_H
