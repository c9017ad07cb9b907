// Looks up the variables of a module by name, and declares new ones.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_VARIABLETABLE_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_VARIABLETABLE_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

#include <optional>

namespace mpc {

/// A table of the symbols of a module. Changes by declare() are included; it
/// becomes invalid if other code adds or removes symbols.
class VariableTable {
public:
  explicit VariableTable(mlir::ModuleOp module);

  /// Returns the symbol called `name`; null if there is none.
  mlir::Operation *lookup(llvm::StringRef name) const {
    return symbols.lookup(name);
  }
  /// Returns the variable called `name`; null if there is none.
  VariableOp lookupVariable(llvm::StringRef name) const {
    return symbols.lookup<VariableOp>(name);
  }

  /// Returns the variable that `reference`, an attribute of a function argument
  /// or result, names. Null if `reference` is null or names no variable.
  VariableOp lookupVariable(mlir::FlatSymbolRefAttr reference) const {
    return reference ? symbols.lookup<VariableOp>(reference.getAttr())
                     : VariableOp();
  }

  /// Adds a variable to the module, after the last one. Returns the new op.
  VariableOp declare(llvm::StringRef name, mlir::Type type, Role role,
                     std::optional<double> fill = std::nullopt);

private:
  mlir::SymbolTable symbols;
  VariableOp last;
};

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_VARIABLETABLE_H
