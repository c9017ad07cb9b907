// Maps names of ONNX values to names of variables, and back.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_NAMES_H
#define MPC_FRONTENDS_ONNX_MODEL_NAMES_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc::onnx_frontend {

/// Prefix of names that would clash with functions or mpc's own variables: the
/// initializer "step" is variable "onnx:step". A name like "onnx::MatMul_57",
/// which exporters make, does not clash.
inline constexpr llvm::StringLiteral kEscape = "onnx:";

std::string getVariableName(llvm::StringRef onnxName);
llvm::StringRef getONNXName(llvm::StringRef variableName);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_NAMES_H
