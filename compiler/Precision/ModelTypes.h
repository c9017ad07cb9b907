// Tells the types that values have in the model. The Precision stage changes
// types and inserts casts, so a value of the stage's output may have a type of
// its own.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_MODELTYPES_H
#define MPC_COMPILER_PRECISION_MODELTYPES_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/DenseSet.h"

namespace mpc {

class ModelTypes {
public:
  /// `module` may be the input or the output of the Precision stage. Decision
  /// records tell which values the stage has changed.
  explicit ModelTypes(mlir::ModuleOp module);

  /// Returns the float type that `value` has in the model, which is the type of
  /// the value before all casts of the stage. Null if `value` is no float.
  mlir::FloatType lookup(mlir::Value value) const;

  /// True if `value` is float32 in the model.
  bool isF32(mlir::Value value) const {
    mlir::FloatType type = lookup(value);
    return type && type.isF32();
  }

  /// True if the stage stores `value` in a narrower type than the model: a
  /// cast, the result of a low op, a constant, or the low copy of a parameter.
  bool isRounded(mlir::Value value) const;

  /// True if no precision can be chosen for `op`: a float of the op is not
  /// float32 in the model, or no result is a float.
  bool isSettled(mlir::Operation *op) const;

private:
  /// References to the low copies of parameters.
  llvm::DenseSet<mlir::Attribute> copies;
};

/// Returns the variable called `name`, or its master if the variable is the low
/// copy of a parameter; null if there is none.
VariableOp lookupMaster(const mlir::SymbolTable &symbols,
                        mlir::StringAttr name);

/// Like listOrigins of TiedValues.h, but looks through the stage's casts, too.
llvm::SmallVector<mlir::Value, 2> listUncastOrigins(mlir::Value value);

/// Returns the only value of listUncastOrigins(value); null if there are
/// several.
mlir::Value findUncastOrigin(mlir::Value value);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_MODELTYPES_H
