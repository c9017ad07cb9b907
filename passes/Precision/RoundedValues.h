// Which values the stage has rounded, and not the model.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_ROUNDEDVALUES_H
#define MPC_PASSES_PRECISION_ROUNDEDVALUES_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Dialect/MPC/Facts/VariableTable.h"

namespace mpc::amp {

/// Whether `value` is below fp32 by a decision: a cast, a low op's result, or
/// the low copy of a parameter. What the model has in 16 bits is the model's.
bool isRoundedByStage(mlir::Value value, const mpc::VariableTable &variables);

/// The cast that has rounded what `value` shows under another shape or order,
/// or null. An op that a user has forced low may round for itself.
CastOp findRoundingCast(mlir::Value value);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_ROUNDEDVALUES_H
