// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Lexer.h"

#include "test/emulator/ptx/Syntax.h"

#include <cctype>

using namespace mpc::emulator::ptx;

namespace {

class Lexer {
public:
  explicit Lexer(std::string_view text) : text(text) {}

  std::vector<Token> run() {
    std::vector<Token> tokens;
    do
      tokens.push_back(next());
    while (tokens.back().kind != Token::End);
    return tokens;
  }

private:
  char peek(size_t ahead = 0) const {
    return at + ahead < text.size() ? text[at + ahead] : '\0';
  }

  void skipTo(std::string_view end) {
    size_t found = text.find(end, at);
    if (found == text.npos)
      found = text.size();
    for (; at < found; ++at)
      line += text[at] == '\n';
  }

  void skipBlanks() {
    for (;; ++at) {
      if (peek() == '/' && peek(1) == '/') {
        skipTo("\n");
      } else if (peek() == '/' && peek(1) == '*') {
        at += 2;
        skipTo("*/");
        if (at >= text.size())
          throw ModuleError(line, "a comment does not end");
        ++at;
        continue;
      }
      if (at >= text.size() ||
          !std::isspace(static_cast<unsigned char>(peek())))
        return;
      line += peek() == '\n';
    }
  }

  bool inWord() const {
    unsigned char c = static_cast<unsigned char>(peek());
    return std::isalnum(c) || c == '_' || c == '$' || c == '%' || c == '.';
  }

  Token next() {
    skipBlanks();
    Token token;
    token.line = line;
    size_t begin = at;
    if (at >= text.size())
      return token;
    if (peek() == '"') {
      ++at;
      skipTo("\"");
      if (at >= text.size())
        throw ModuleError(token.line, "a string does not end");
      ++at;
      token.kind = Token::String;
      token.text = text.substr(begin + 1, at - begin - 2);
      return token;
    }
    if (!inWord()) {
      ++at;
      token.kind = Token::Punctuation;
    } else {
      bool isDigit = std::isdigit(static_cast<unsigned char>(peek()));
      token.kind = isDigit ? Token::Number : Token::Word;
      // A modifier may contain two colons: ld.global.L1::evict_last.
      while (inWord() || (peek() == ':' && peek(1) == ':'))
        at += peek() == ':' ? 2 : 1;
    }
    token.text = text.substr(begin, at - begin);
    return token;
  }

  std::string_view text;
  size_t at = 0;
  unsigned line = 1;
};

} // namespace

std::vector<Token> mpc::emulator::ptx::tokenize(std::string_view text) {
  return Lexer(text).run();
}
