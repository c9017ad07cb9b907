// What the user's file calls a variable.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FILENAMES_H
#define MPC_COMPILER_DIALECT_MPC_FILENAMES_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// String attribute of an mpc.variable whose symbol is not its name in the
/// file: patterns such as --freeze go by either. For example
/// "onnx::MatMul_57", which the symbol @encoder.query.weight is of.
inline constexpr llvm::StringLiteral kFileNameAttr = "mpc.file_name";

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FILENAMES_H
