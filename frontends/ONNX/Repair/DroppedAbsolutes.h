// Recognises distances as PyTorch's exporter writes them.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_DROPPEDABSOLUTES_H
#define MPC_FRONTENDS_ONNX_REPAIR_DROPPEDABSOLUTES_H

namespace mpc::onnx_frontend {

/// True if sum(x^power)^root is a distance as the older exporter writes it,
/// with 0 < eps <= 0.01. If eps is below the rounding of float32, only the
/// root's shape of [1] (`isVector`) tells the exporter's root from the
/// program's own.
bool isRootOfDistance(double power, double root, bool isVector);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_DROPPEDABSOLUTES_H
