// Values that are one value on both sides of a loop's or a branch's edge.
//
// An analysis that follows operands and readers stops at an op with bodies,
// unless it goes on with what these functions give: an operand is tied to the
// arguments that stand for it, what a body yields to the result, and what a
// loop yields to carry to the argument of the next iteration.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_TIEDVALUES_H
#define MPC_COMPILER_INTERFACES_TIEDVALUES_H

#include "compiler/Interfaces/BodyOpInterface.h"

namespace mpc {

/// The values that `value`, an argument of a body or a result of an op with
/// bodies, is or is a part or a stack of. None for any other value: an op or a
/// function's caller makes it.
llvm::SmallVector<mlir::Value, 2> listTiedSources(mlir::Value value);

/// The values that `use` becomes where its owner is an op with bodies or what
/// ends a body. None where its owner computes with it.
llvm::SmallVector<mlir::Value, 2> listTiedResults(mlir::OpOperand &use);

/// The values at the ends of all ways back from `value` along ties: `value`
/// itself where it has none. Each once.
llvm::SmallVector<mlir::Value, 2> listOrigins(mlir::Value value);

/// The origin of `value`, where there is one alone; null for what a loop
/// carries, or what two branches give.
mlir::Value findOrigin(mlir::Value value);

/// Calls `visit` for the uses of `value`, and of all that it becomes, by ops
/// that compute with it or return it from a function.
void forEachTiedUse(mlir::Value value,
                    llvm::function_ref<void(mlir::OpOperand &)> visit);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_TIEDVALUES_H
