// Reductions of integers, by the formulas of IntegerFormulas.def.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_EMITINTEGERS_H
#define MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_EMITINTEGERS_H

#include "passes/Codegen/Kernels/Loops/Lanes.h"

namespace mpc::codegen {

/// What accumulators of `type` of the reduction `op` start with.
mlir::Value emitIntegerFirst(Lanes &lanes, mlir::Operation *op,
                             mlir::Type type);

/// Two accumulators of the reduction `op` in one.
mlir::Value emitIntegerStep(Lanes &lanes, mlir::Operation *op, mlir::Value a,
                            mlir::Value b);

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_ELEMENTWISE_EMITINTEGERS_H
