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

/// Valid until other code adds symbols to the module or removes symbols.
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

  /// Returns the variable that a port refers to; null if `reference` is null or
  /// names no variable.
  VariableOp lookupVariable(mlir::FlatSymbolRefAttr reference) const {
    return reference ? lookupVariable(reference.getValue()) : VariableOp();
  }

  /// Declares a variable after the module's last variable.
  VariableOp declare(llvm::StringRef name, mlir::Type type, Role role,
                     std::optional<double> fill = std::nullopt);

private:
  mlir::SymbolTable symbols;
  VariableOp last;
};

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_VARIABLETABLE_H
