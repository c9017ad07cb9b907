// Tells which values have been rounded by decisions of the Precision stage, not
// by the model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_ROUNDEDVALUES_H
#define MPC_PASSES_PRECISION_ROUNDEDVALUES_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/Facts/VariableTable.h"

namespace mpc::amp {

/// True if `value` has a 16-bit type because of a decision: a cast, the result
/// of a low op, or the low copy of a parameter. False for a value that has 16
/// bits in the model.
bool isRoundedByStage(mlir::Value value, const mpc::VariableTable &variables);

/// Returns the cast that rounded `value`, looking through views and movements;
/// null if no cast did. Stops at an op that the user forces low, since the op
/// may round.
CastOp findRoundingCast(mlir::Value value);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_ROUNDEDVALUES_H
