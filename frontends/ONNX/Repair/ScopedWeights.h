// Weights that PyTorch's older exporter numbers.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_SCOPEDWEIGHTS_H
#define MPC_FRONTENDS_ONNX_REPAIR_SCOPEDWEIGHTS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Gives the weights of linear layers the name and the layout that a PyTorch
/// program has for them, where the older exporter has folded their
/// transposition into "onnx::MatMul_57". Nodes are called by their modules,
/// such as "/encoder/layer.0/query/MatMul", and biases keep their names: the
/// bias that is added, or else the scope of the node, tells that the weights
/// are "encoder.layer.0.query.weight". Afterwards the file has these and a
/// Transpose, as `restoreWeights` leaves files of today's exporter.
/// Returns what was done, as a note; empty where nothing was.
std::string nameScopedWeights(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_SCOPEDWEIGHTS_H
