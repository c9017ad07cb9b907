// Splits initializers that an exporter merged because of equal values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_MERGEDINITIALIZERS_H
#define MPC_FRONTENDS_ONNX_REPAIR_MERGEDINITIALIZERS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Gives each reader of a merged initializer a separate copy again, if the file
/// shows that the program reads different values. PyTorch's exporter names the
/// parameters and buffers behind each node: two nodes without a common name do
/// not share one, nor does a parameter equal a constant. A running statistic is
/// never the operand of another op. Returns a note of the copies; empty if
/// there are none.
std::string separateInitializers(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_MERGEDINITIALIZERS_H
