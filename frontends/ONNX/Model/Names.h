// Names of variables and of the ONNX values they hold.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_NAMES_H
#define MPC_FRONTENDS_ONNX_MODEL_NAMES_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc::onnx_frontend {

/// Set before a name that would clash with a function or with one of mpc's own
/// variables: an initializer called "step" is variable "onnx:step". One called
/// "onnx::MatMul_57", as exporters number them, clashes with none.
inline constexpr llvm::StringLiteral kEscape = "onnx:";

std::string getVariableName(llvm::StringRef onnxName);
llvm::StringRef getONNXName(llvm::StringRef variableName);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_NAMES_H
