// Recognises p-norm distances (torch.cdist) in graphs of PyTorch's older
// exporter.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_DROPPEDABSOLUTES_H
#define MPC_FRONTENDS_ONNX_REPAIR_DROPPEDABSOLUTES_H

namespace mpc::onnx_frontend {

/// True if sum(x^power)^root is a distance as the older exporter writes
/// distances: root = 1 / (power + eps) with 0 < eps <= 0.01. float32 may round
/// eps away. Then only the shape of the exponent tells the exporter's root from
/// a root in the program: the exporter's exponent has shape [1] (`isVector`).
bool isRootOfDistance(double power, double root, bool isVector);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_DROPPEDABSOLUTES_H
