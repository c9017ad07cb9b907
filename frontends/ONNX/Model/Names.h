// Maps names of ONNX values to symbols of mpc variables, and back.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_MODEL_NAMES_H
#define MPC_FRONTENDS_ONNX_MODEL_NAMES_H

#include "llvm/ADT/StringRef.h"

#include <string>

namespace mpc::onnx_frontend {

/// Adds the prefix kVariableEscape to a name that mpc itself uses, and takes
/// the prefix off: see runtime/VariableNames.h.
std::string getVariableName(llvm::StringRef onnxName);
llvm::StringRef getONNXName(llvm::StringRef variableName);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_MODEL_NAMES_H
