// Maps names of ONNX values to symbols of mpc variables, and back.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_NAMES_H
#define MPC_FRONTENDS_ONNX_MODEL_NAMES_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc::onnx_frontend {

/// Prefix of the variable for an ONNX value whose name mpc itself uses: the
/// initializer "step" becomes the variable "onnx:step", because "step" is a
/// function. A name like "onnx::MatMul_57", which exporters make up, gets no
/// prefix.
inline constexpr llvm::StringLiteral kEscape = "onnx:";

std::string getVariableName(llvm::StringRef onnxName);
llvm::StringRef getONNXName(llvm::StringRef variableName);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_NAMES_H
