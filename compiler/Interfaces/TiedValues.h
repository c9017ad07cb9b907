// Follows values through the edges of loops and branches.
//
// An analysis that follows operands and users stops at ops with bodies, unless
// it uses these functions. An operand is tied to the arguments that stand for
// it; a yielded value is tied to the result, and, if a loop carries it, to the
// argument of the next iteration.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_TIEDVALUES_H
#define MPC_COMPILER_INTERFACES_TIEDVALUES_H

#include "compiler/Interfaces/BodyOpInterface.h"

namespace mpc {

/// Returns the values that `value`, an argument of a body or a result of an op
/// with bodies, is equal to, is a part of, or stacks. Empty for other values,
/// which an op or a function's caller provides.
llvm::SmallVector<mlir::Value, 2> listTiedSources(mlir::Value value);

/// Returns the values that `use` becomes if its owner is an op with bodies or
/// the terminator of a body. Empty if the owner computes with the value.
llvm::SmallVector<mlir::Value, 2> listTiedResults(mlir::OpOperand &use);

/// Follows all ties back from `value` and returns the ends of all paths, each
/// once. Returns `value` if it has no ties.
llvm::SmallVector<mlir::Value, 2> listOrigins(mlir::Value value);

/// Returns the origin of `value` if there is only one; null for a value that a
/// loop carries, or that two branches give.
mlir::Value findOrigin(mlir::Value value);

/// Calls `visit` for each use of `value`, and of all values it becomes, by ops
/// that compute with the value or return it from a function.
void forEachTiedUse(mlir::Value value,
                    llvm::function_ref<void(mlir::OpOperand &)> visit);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_TIEDVALUES_H
