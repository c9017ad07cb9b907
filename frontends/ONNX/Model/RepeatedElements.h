// Parameters of which PyTorch's exporter has written elements several times.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_REPEATEDELEMENTS_H
#define MPC_FRONTENDS_ONNX_MODEL_REPEATEDELEMENTS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// A table that a program looks up at constant places, as that of relative
/// positions, the exporter looks up in advance: what it writes has an element
/// of the table wherever it was read. Makes one initializer of those that
/// differ, `NAME_elements`, and a Gather that gives `NAME` again, so that all
/// places of an element are trained as one. Left alone are parameters that
/// start as zeros or ones, whose elements are alike for another reason, and
/// those of so many elements, or of so few bits, that some may agree by chance.
/// Returns what was done, as a note; empty where nothing was.
std::string joinRepeats(Model &model);

/// Whether so many elements of `values` agree that they must be one
/// parameter's.
bool hasRepeats(llvm::ArrayRef<double> values);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_REPEATEDELEMENTS_H
