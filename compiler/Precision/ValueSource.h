// Names the sources of values whose size decides a type: inputs, parameters and
// constants.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_VALUESOURCE_H
#define MPC_COMPILER_PRECISION_VALUESOURCE_H

#include "mlir/IR/Value.h"

#include <string>

namespace mpc {

/// The source of a value. `kind` is input, parameter, constant, value (the
/// result of any other op) or outer (from outside of a loop). `name` is the
/// name of the input, parameter or node; empty if there is none.
struct ValueSource {
  llvm::StringLiteral kind;
  std::string name;
};
ValueSource findSource(mlir::Value value);

/// Returns the name of the model's input if `value` is a function argument that
/// holds an input; empty otherwise.
llvm::StringRef findInputName(mlir::Value value);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_VALUESOURCE_H
