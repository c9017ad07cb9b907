// Emits reductions of integers, by the formulas of IntegerFormulas.def.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_EMITINTEGERS_H
#define MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_EMITINTEGERS_H

#include "passes/Codegen/Kernels/Loops/Lanes.h"

namespace mpc::codegen {

/// Emits the neutral element of the reduction `op`, of type `type`.
mlir::Value emitIntegerFirst(Lanes &lanes, mlir::Operation *op,
                             mlir::Type type);

/// Combines two accumulators of the reduction `op`.
mlir::Value emitIntegerStep(Lanes &lanes, mlir::Operation *op, mlir::Value a,
                            mlir::Value b);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_EMITINTEGERS_H
