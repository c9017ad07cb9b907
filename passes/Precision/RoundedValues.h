// Tells which values the stage, rather than the model, has rounded.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_ROUNDEDVALUES_H
#define MPC_PASSES_PRECISION_ROUNDEDVALUES_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/Facts/VariableTable.h"

namespace mpc::amp {

/// True if a decision put `value` below fp32: a cast, the result of a low op,
/// or the low copy of a parameter. False for values with 16 bits in the model.
bool isRoundedByStage(mlir::Value value, const mpc::VariableTable &variables);

/// Returns the cast that rounded `value`, looking through views and movements;
/// null if there is none. Stops at an op that the user forced low, since the op
/// may round.
CastOp findRoundingCast(mlir::Value value);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_ROUNDEDVALUES_H
