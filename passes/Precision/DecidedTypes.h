// Lists the types of an op for its decision record.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_DECIDEDTYPES_H
#define MPC_PASSES_PRECISION_DECIDEDTYPES_H

#include "compiler/Interfaces/PrecisionOpInterface.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace mpc::amp {

/// Returns the float type that the model gives the op: the type of the first
/// float result, or else of the first float operand. The op has a float.
mlir::FloatType getModelType(mlir::Operation *op);

/// Returns the float types that the model gives the op, each once; null if all
/// are fp32.
mlir::ArrayAttr listModelTypes(mlir::Operation *op);

/// Returns the type in which `op` stores each float result. Results that are
/// fp32 in the model, and that policy does not keep, are stored as `stored`.
/// Null means that the op stores the types of the model.
llvm::SmallVector<mlir::Type> listResultTypes(PrecisionOpInterface op,
                                              mlir::FloatType stored);

/// Returns the type in which `op` reads each float operand; NoneType if the op
/// reads whatever type is stored. `factor` is the type of contracted operands.
/// `moved` is the type that an op must move; null if the op moves any type.
llvm::SmallVector<mlir::Type> listOperandTypes(PrecisionOpInterface op,
                                               mlir::FloatType factor,
                                               mlir::FloatType moved,
                                               bool keepsOperands);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_DECIDEDTYPES_H
