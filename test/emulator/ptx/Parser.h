// Parses a PTX module in the language that LLVM's NVPTX backend and nvcc print.
// Device functions, textures and the contents of debug sections are not
// supported.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_PARSER_H
#define MPC_TEST_EMULATOR_PTX_PARSER_H

#include "test/emulator/ptx/Syntax.h"

#include <optional>
#include <string_view>

namespace mpc::emulator::ptx {

/// Throws ModuleError.
ModuleSyntax parse(std::string_view text);

/// The type of a modifier such as "f32" or "bf16x2" (without its dot).
std::optional<Type> parseType(std::string_view name);

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_PARSER_H
