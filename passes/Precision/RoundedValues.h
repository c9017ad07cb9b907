// Finds wide values that the Precision stage has rounded without use: by a
// cast, as a low copy of a parameter, or as a constant.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_ROUNDEDVALUES_H
#define MPC_PASSES_PRECISION_ROUNDEDVALUES_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Precision/ModelTypes.h"

#include "llvm/ADT/STLFunctionalExtras.h"

namespace mpc::amp {

/// True if the user forces an op to be low. Such an op may round.
using IsForcedLow = llvm::function_ref<bool(mlir::Operation *)>;

/// Returns the rounded value that `value` consists of, looking through bodies
/// of loops and branches, and through views and movements with any number of
/// operands. Null if a part of `value` is not rounded, or rounded by a low op:
/// the movement of this part is low with reason.
mlir::Value findRounded(mlir::Value value, const mpc::ModelTypes &types,
                        IsForcedLow isForcedLow);

/// Like findRounded, but looks through bodies of loops and branches alone.
mlir::Value findDirectlyRounded(mlir::Value value,
                                const mpc::ModelTypes &types);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_ROUNDEDVALUES_H
