// Splits the text of a PTX module into tokens.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_LEXER_H
#define MPC_TEST_EMULATOR_PTX_LEXER_H

#include <string>
#include <string_view>
#include <vector>

namespace mpc::emulator::ptx {

struct Token {
  /// A word may contain dots and `%`: an opcode with its modifiers, a
  /// directive, a register and a label are one word each.
  enum Kind { Word, Number, String, Punctuation, End };
  Kind kind = End;
  std::string_view text;
  unsigned line = 0;

  bool is(std::string_view t) const { return kind != String && text == t; }
};

/// The tokens of `text`, with an End last. They point into `text`. Throws
/// ModuleError.
std::vector<Token> tokenize(std::string_view text);

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_LEXER_H
