// Access to the state that a function reads and writes, by variable name.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_PRECISION_FUNCTIONSTATE_H
#define MPC_PASSES_PRECISION_FUNCTIONSTATE_H

#include "compiler/Dialect/MPC/MPC.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

namespace mpc::amp {

/// The variable whose value an argument is, or null.
mpc::VariableOp getVariable(mlir::BlockArgument argument);

/// The variable whose new value result `index` is, or null.
mpc::VariableOp getUpdatedVariable(mlir::FunctionOpInterface function,
                                   unsigned index);

/// The return of a function: all have one block.
mlir::Operation *getReturn(mlir::FunctionOpInterface function);

/// The argument that is the value of `variable`; added where there is none.
mlir::BlockArgument readState(mlir::FunctionOpInterface function,
                              mpc::VariableOp variable);

/// Adds the result that is the new value of `variable`.
void writeState(mlir::FunctionOpInterface function, mpc::VariableOp variable,
                mlir::Value value);

/// Adds an output.
void addOutput(mlir::FunctionOpInterface function, llvm::StringRef name,
               llvm::StringRef role, mlir::Value value);

/// Declares a variable behind those the module has.
mpc::VariableOp declareVariable(mlir::ModuleOp module, llvm::StringRef name,
                                mlir::Type type, llvm::StringRef role,
                                std::optional<double> fill = std::nullopt);

} // namespace mpc::amp

#endif // MPC_PASSES_PRECISION_FUNCTIONSTATE_H
