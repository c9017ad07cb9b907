// Access to the state that a function reads and writes, by variable name.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_FUNCTIONSTATE_H
#define MPC_PASSES_PRECISION_FUNCTIONSTATE_H

#include "compiler/Dialect/MPC/VariableTable.h"

#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mpc::amp {

/// The return of a function: all have one block.
mlir::Operation *getReturn(mlir::FunctionOpInterface function);

/// The variable whose value an argument is, or null.
mpc::VariableOp getVariable(mlir::BlockArgument argument,
                            const mpc::VariableTable &variables);

/// Adds arguments and results to a function. Its type and attributes are as
/// they were until `finish`: changing them for one takes as long as for all.
class FunctionState {
public:
  explicit FunctionState(mlir::FunctionOpInterface function);

  /// The argument that is the value of `variable`; added where there is none.
  mlir::BlockArgument read(mpc::VariableOp variable);
  /// Adds the result that is the new value of `variable`.
  void write(mpc::VariableOp variable, mlir::Value value);
  void addOutput(llvm::StringRef name, Role role, mlir::Value value);
  void finish();

private:
  void addResult(mlir::Value value, llvm::ArrayRef<mlir::NamedAttribute> entry);

  mlir::FunctionOpInterface function;
  llvm::DenseMap<mlir::Attribute, mlir::BlockArgument> arguments;
  llvm::SmallVector<mlir::DictionaryAttr> argumentAttrs, resultAttrs;
  llvm::SmallVector<mlir::Value> newResults;
};

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_FUNCTIONSTATE_H
