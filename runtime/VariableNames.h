// Maps names of ONNX values to names of mpc's state variables, and back. Like
// Names.h, shared by compiler and runtime. Depends on Names.h alone.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_RUNTIME_VARIABLENAMES_H
#define MPC_RUNTIME_VARIABLENAMES_H

#include "runtime/Names.h"

#include <string_view>

namespace mpc {

/// Prefix of the variable for an ONNX value whose name mpc itself uses: the
/// initializer "step" becomes the variable "onnx:step", because "step" is a
/// function. A name like "onnx::MatMul_57", which exporters make up, gets no
/// prefix.
inline constexpr std::string_view kVariableEscape = "onnx:";

/// True if `name` is a symbol that mpc uses: a function, or state that mpc
/// adds.
constexpr bool isReservedSymbol(std::string_view name) {
  const std::string_view own = kOwnPrefix;
  if (name.substr(0, own.size()) == own)
    return true;
  for (const char *function : kFunctions)
    if (name == function)
      return true;
  return false;
}

/// True if `name` is a symbol that mpc uses, after any number of prefixes
/// "onnx:": "step", "onnx:step". False for "onnx::MatMul_57", a name that an
/// exporter made up.
constexpr bool isReservedOrEscaped(std::string_view name) {
  while (name.substr(0, kVariableEscape.size()) == kVariableEscape)
    name.remove_prefix(kVariableEscape.size());
  return isReservedSymbol(name);
}

/// Returns the name in the ONNX model of the variable `variable`.
constexpr std::string_view onnxNameOf(std::string_view variable) {
  if (isReservedOrEscaped(variable) &&
      variable.substr(0, kVariableEscape.size()) == kVariableEscape)
    variable.remove_prefix(kVariableEscape.size());
  return variable;
}

} // namespace mpc

#endif // MPC_RUNTIME_VARIABLENAMES_H
