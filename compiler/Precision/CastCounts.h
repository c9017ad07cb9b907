// Counts the casts around the ops of a function.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_CASTCOUNTS_H
#define MPC_COMPILER_PRECISION_CASTCOUNTS_H

#include "mlir/Interfaces/FunctionInterfaces.h"
#include "llvm/ADT/DenseMap.h"

namespace mpc {

/// The casts around one op.
struct CastCounts {
  /// The number of operands that are read through a cast, and of casts of the
  /// results.
  int64_t in = 0, out = 0;
  /// The number of casts, of both kinds, that share a kernel with another op
  /// and cost nothing.
  int64_t fused = 0;
};

/// Counts the casts around each op of `function` with a decision record, also
/// in loops and branches.
llvm::DenseMap<mlir::Operation *, CastCounts>
countCasts(mlir::FunctionOpInterface function);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_CASTCOUNTS_H
