// Emits the loops of kernels with segments; see
// compiler/Kernels/KernelSegments.h.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_EMITSEGMENTS_H
#define MPC_PASSES_CODEGEN_KERNELS_EMITSEGMENTS_H

#include "passes/Codegen/Kernels/Loops/KernelContext.h"

namespace mpc::codegen {

/// Emits the loop nests of all segments. A slice runs the nest of its segment.
mlir::LogicalResult emitSegments(KernelContext &context);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_EMITSEGMENTS_H
