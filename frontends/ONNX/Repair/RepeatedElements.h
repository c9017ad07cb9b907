// Tells repeated elements from elements that agree by chance.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_REPEATEDELEMENTS_H
#define MPC_FRONTENDS_ONNX_REPAIR_REPEATEDELEMENTS_H

#include "llvm/ADT/ArrayRef.h"

namespace mpc::onnx_frontend {

/// True if more elements of `values` are equal than chance explains.
bool hasRepeats(llvm::ArrayRef<double> values);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_REPEATEDELEMENTS_H
