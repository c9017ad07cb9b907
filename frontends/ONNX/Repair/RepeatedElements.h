// Merges copies of parameters that PyTorch's exporter has written several
// times.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_REPEATEDELEMENTS_H
#define MPC_FRONTENDS_ONNX_REPAIR_REPEATEDELEMENTS_H

#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// Undoes lookups that the exporter has folded. Swin's biases, for example, are
/// table[relative_position] with constant positions. The file has the 49 x 49
/// results, in which each of the 169 parameters appears many times. Writes the
/// distinct elements as initializer `NAME_elements`, and a Gather that computes
/// `NAME`, so that all copies of an element train as one parameter. Skips
/// parameters that start as zeros or ones, and parameters whose elements may
/// agree by chance, because of many elements or few bits. Returns a note of the
/// changes; empty if there are none.
std::string joinRepeats(Model &model);

/// True if more elements of `values` are equal than chance explains.
bool hasRepeats(llvm::ArrayRef<double> values);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_REPEATEDELEMENTS_H
