// Tells whether a folded tensor contains elements of a parameter more than
// once.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_REPEATEDELEMENTS_H
#define MPC_FRONTENDS_ONNX_REPAIR_REPEATEDELEMENTS_H

#include "llvm/ADT/ArrayRef.h"

namespace mpc::onnx_frontend {

/// True if more than a tenth of `values` repeat other values: too many to be
/// equal by chance.
bool hasRepeats(llvm::ArrayRef<double> values);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_REPEATEDELEMENTS_H
