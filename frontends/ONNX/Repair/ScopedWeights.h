// Names weights PyTorch's older exporter has numbered.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_SCOPEDWEIGHTS_H
#define MPC_FRONTENDS_ONNX_REPAIR_SCOPEDWEIGHTS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// The older exporter folds the transposition of a linear layer's weight into
/// an initializer like "onnx::MatMul_57". Restores the name and layout of the
/// program. Node names contain the modules, as in
/// "/encoder/layer.0/query/MatMul", and biases keep their names. So the added
/// bias, or else the scope of the node, gives the name
/// "encoder.layer.0.query.weight". Afterwards the file has this weight and a
/// Transpose, as `restoreWeights` does for files of today's exporter. Returns a
/// note of the changes; empty if there are none.
std::string nameScopedWeights(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_SCOPEDWEIGHTS_H
