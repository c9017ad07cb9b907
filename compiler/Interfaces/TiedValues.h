// Follows values through the edges of loops and branches.
//
// An analysis that follows operands and users stops at ops with bodies, unless
// the analysis uses this file. Two values are tied if one becomes the other at
// the edge of a body. An operand is tied to the arguments of bodies that
// receive the operand. A yielded value is tied to the result, and, if the loop
// carries the value, to the argument of the next iteration.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_INTERFACES_TIEDVALUES_H
#define MPC_COMPILER_INTERFACES_TIEDVALUES_H

#include "compiler/Interfaces/BodyOpInterface.h"

namespace mpc {

/// Returns the sources of `value`, an argument of a body or a result of an op
/// with bodies. `value` is equal to a source, is a part of a source, or stacks
/// a source over all iterations. Empty for other values, which an op or a
/// function's caller provides.
llvm::SmallVector<mlir::Value, 2> listTiedSources(mlir::Value value);

/// Returns the values that the used value becomes if the owner of `use` is an
/// op with bodies or the terminator of a body: arguments or results. Empty if
/// the owner computes with the value.
llvm::SmallVector<mlir::Value, 2> listTiedResults(mlir::OpOperand &use);

/// Follows listTiedSources from `value` back to values that an op computes or a
/// caller provides, and returns each value once. Returns `value` if there are
/// no tied sources.
llvm::SmallVector<mlir::Value, 2> listOrigins(mlir::Value value);

/// Returns the only value of listOrigins(value); null if there are several, as
/// for a value that a loop carries or that two branches yield.
mlir::Value findOrigin(mlir::Value value);

/// Calls `visit` for each use of `value` by an op that computes with the value,
/// or returns the value from a function. Includes uses of all values that
/// `value` becomes through bodies (listTiedResults).
void forEachTiedUse(mlir::Value value,
                    llvm::function_ref<void(mlir::OpOperand &)> visit);

} // namespace mpc

#endif // MPC_COMPILER_INTERFACES_TIEDVALUES_H
