// Restores losses that editors of training graphs leave out.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_DROPPEDLOSSES_H
#define MPC_FRONTENDS_ONNX_REPAIR_DROPPEDLOSSES_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// A device that trains does not need the value of the loss. Compilers for
/// training devices leave SoftmaxCrossEntropyLoss a single output, the
/// log-probabilities, although ONNX has the loss first. A gradient node that
/// reads the output proves the defect. Puts the loss back as first output, also
/// of the graph, and adds a note to `warnings`.
void restoreLosses(Model &model, std::vector<std::string> &warnings);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_DROPPEDLOSSES_H
