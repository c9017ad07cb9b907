// Declares the attribute that holds a variable's name in the user's model file.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FILENAMES_H
#define MPC_COMPILER_DIALECT_MPC_FILENAMES_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// String attribute of an mpc.variable whose symbol is not its name in the
/// model file. Flags such as --freeze accept either name. For example,
/// @encoder.query.weight may have the file name "onnx::MatMul_57".
inline constexpr llvm::StringLiteral kFileNameAttr = "mpc.file_name";

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FILENAMES_H
