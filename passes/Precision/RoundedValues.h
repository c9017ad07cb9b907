// Finds wide values that casts have rounded without use.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_ROUNDEDVALUES_H
#define MPC_PASSES_PRECISION_ROUNDEDVALUES_H

#include "compiler/Dialect/AMP/AMP.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace mpc::amp {

/// True if the user forces an op to be low. Such an op may round.
using IsForcedLow = llvm::function_ref<bool(mlir::Operation *)>;

/// Returns a cast that rounded `value`, looking through bodies of loops and
/// branches, and through views and movements with any number of operands. Null
/// if a part of `value` comes from anything but a cast: a low op has rounded
/// the part, so the movement of this part is low with reason.
CastOp findRoundingCast(mlir::Value value, IsForcedLow isForcedLow);

/// Returns a cast that rounded `value`, looking through bodies of loops and
/// branches alone; null if no cast did.
CastOp findDirectRoundingCast(mlir::Value value);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_ROUNDEDVALUES_H
