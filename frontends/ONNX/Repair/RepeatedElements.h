// Parameters of which PyTorch's exporter has written elements several times.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_REPEATEDELEMENTS_H
#define MPC_FRONTENDS_ONNX_REPAIR_REPEATEDELEMENTS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Undoes look-ups that the exporter has done in advance. Swin's biases, for
/// example, are table[relative_position] with constant positions; the file has
/// the 49 x 49 results, in which each of the 169 parameters stands many times.
/// Writes the distinct elements as an initializer `NAME_elements`, and a Gather
/// that gives `NAME` again, so that all copies of an element are trained as
/// one. Leaves alone parameters that start as zeros or ones, which repeat for
/// another reason, and those with so many elements, or so few bits, that
/// elements may agree by chance. Returns a note of what was done, or an empty
/// string.
std::string joinRepeats(Model &model);

/// True if more elements of `values` are equal than chance explains: they are
/// copies of one parameter.
bool hasRepeats(llvm::ArrayRef<double> values);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_REPEATEDELEMENTS_H
