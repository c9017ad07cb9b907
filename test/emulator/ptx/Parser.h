// Reads the text of a PTX module: the language as LLVM's NVPTX backend and
// nvcc print it. Device functions, textures and debug sections' contents are
// not taken.
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

/// The type a modifier such as "f32" or "bf16x2" (without its dot) names.
std::optional<Type> parseType(std::string_view name);

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_PARSER_H
