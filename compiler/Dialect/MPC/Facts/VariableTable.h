// The variables of a module by name, and a place for new ones.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FACTS_VARIABLETABLE_H
#define MPC_COMPILER_DIALECT_MPC_FACTS_VARIABLETABLE_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/SymbolTable.h"

#include <optional>

namespace mpc {

/// Valid as long as nothing else adds symbols to the module or takes them away.
class VariableTable {
public:
  explicit VariableTable(mlir::ModuleOp module);

  /// Whatever has that name in the module; null where nothing does.
  mlir::Operation *lookup(llvm::StringRef name) const {
    return symbols.lookup(name);
  }
  /// The variable of that name, or null.
  VariableOp lookupVariable(llvm::StringRef name) const {
    return symbols.lookup<VariableOp>(name);
  }

  /// The variable that a port refers to; null where it refers to none.
  VariableOp lookupVariable(mlir::FlatSymbolRefAttr reference) const {
    return reference ? lookupVariable(reference.getValue()) : VariableOp();
  }

  /// Declares a variable behind those the module has.
  VariableOp declare(llvm::StringRef name, mlir::Type type, Role role,
                     std::optional<double> fill = std::nullopt);

private:
  mlir::SymbolTable symbols;
  VariableOp last;
};

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FACTS_VARIABLETABLE_H
