// Initializers that an exporter has made one of several that were equal.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_MERGEDINITIALIZERS_H
#define MPC_FRONTENDS_ONNX_REPAIR_MERGEDINITIALIZERS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Gives readers of a merged initializer one of their own again, with a value
/// of its own in the file that is written, where the file shows that they read
/// different ones in the program:
/// PyTorch's exporter names the parameters and buffers behind each node, and
/// two nodes that have none in common do not share one, nor one with a node
/// that reads a constant; and a running statistic is not what another op reads.
/// Returns what was done, as a note; empty where nothing was.
std::string separateInitializers(Model &model);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_MERGEDINITIALIZERS_H
