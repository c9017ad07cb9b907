// Names the attribute that keeps a variable's name in the user's file.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_DIALECT_MPC_FILENAMES_H
#define MPC_COMPILER_DIALECT_MPC_FILENAMES_H

#include "llvm/ADT/StringRef.h"

namespace mpc {

/// String attribute of an mpc.variable whose symbol differs from the name in
/// the user's file. Patterns such as --freeze match either name. For example,
/// @encoder.query.weight may have the file name "onnx::MatMul_57".
inline constexpr llvm::StringLiteral kFileNameAttr = "mpc.file_name";

} // namespace mpc

#endif // MPC_COMPILER_DIALECT_MPC_FILENAMES_H
