// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Parser.h"

#include "test/emulator/ptx/Lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

using namespace mpc::emulator::ptx;

std::optional<Type> mpc::emulator::ptx::parseType(std::string_view name) {
  static const std::map<std::string_view, Type> types = {
      {"pred", {Type::Pred, 1}},
      {"b8", {Type::Bits, 8}},
      {"b16", {Type::Bits, 16}},
      {"b32", {Type::Bits, 32}},
      {"b64", {Type::Bits, 64}},
      {"u8", {Type::Unsigned, 8}},
      {"u16", {Type::Unsigned, 16}},
      {"u32", {Type::Unsigned, 32}},
      {"u64", {Type::Unsigned, 64}},
      {"s8", {Type::Signed, 8}},
      {"s16", {Type::Signed, 16}},
      {"s32", {Type::Signed, 32}},
      {"s64", {Type::Signed, 64}},
      {"f16", {Type::Float, 16}},
      {"f32", {Type::Float, 32}},
      {"f64", {Type::Float, 64}},
      {"bf16", {Type::BFloat, 16}},
      {"tf32", {Type::TF32, 32}},
      {"f16x2", {Type::Float, 16, true}},
      {"bf16x2", {Type::BFloat, 16, true}},
      {"u16x2", {Type::Unsigned, 16, true}},
      {"s16x2", {Type::Signed, 16, true}}};
  auto found = types.find(name);
  if (found == types.end())
    return std::nullopt;
  return found->second;
}

namespace {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  for (size_t begin = 0;;) {
    size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == text.npos)
      return parts;
    begin = end + 1;
  }
}

class Parser {
public:
  explicit Parser(std::string_view text) : tokens(tokenize(text)) {
    for (const std::string &line : split(text, '\n'))
      module.lines.push_back(line);
  }

  ModuleSyntax run() {
    while (!peek().is("") || peek().kind != Token::End)
      parseTopLevel();
    if (module.version == 0)
      fail("the module has no .version");
    if (module.target.empty())
      fail("the module has no .target");
    return std::move(module);
  }

private:
  // --- Tokens

  const Token &peek(size_t ahead = 0) const {
    return tokens[std::min(at + ahead, tokens.size() - 1)];
  }
  Token take() {
    Token token = peek();
    at += at + 1 < tokens.size();
    return token;
  }
  bool takeIf(std::string_view text) {
    if (!peek().is(text))
      return false;
    take();
    return true;
  }
  void expect(std::string_view text) {
    if (!takeIf(text))
      fail("expected '" + std::string(text) + "', found '" +
           std::string(peek().text) + "'");
  }
  std::string takeWord(const char *what) {
    if (peek().kind != Token::Word)
      fail(std::string("expected ") + what + ", found '" +
           std::string(peek().text) + "'");
    return std::string(take().text);
  }
  [[noreturn]] void fail(const std::string &message) const {
    throw ModuleError(peek().line, message);
  }
  /// Line directives (.loc, .file) extend to the end of their line.
  void skipLine() {
    unsigned line = peek().line;
    while (peek().kind != Token::End && peek().line == line)
      take();
  }

  // --- Numbers

  Operand parseNumber() {
    bool negative = takeIf("-");
    if (peek().kind != Token::Number)
      fail("expected a number, found '" + std::string(peek().text) + "'");
    std::string text(take().text);
    Operand number;
    if (text.size() > 2 && text[0] == '0' && std::strchr("fFdD", text[1])) {
      bool isDouble = std::strchr("dD", text[1]);
      if (text.size() != (isDouble ? 18 : 10))
        fail("'" + text + "' is not a float's bits");
      number.kind = isDouble ? Operand::Float64 : Operand::Float32;
      number.value = std::strtoull(text.c_str() + 2, nullptr, 16);
      if (negative)
        number.value ^= isDouble ? 1ull << 63 : 1ull << 31;
      return number;
    }
    if (text.find('.') != text.npos) {
      double value = std::strtod(text.c_str(), nullptr);
      value = negative ? -value : value;
      number.kind = Operand::Float64;
      std::memcpy(&number.value, &value, sizeof(value));
      return number;
    }
    char *end = nullptr;
    number.kind = Operand::Integer;
    number.value = std::strtoull(text.c_str(), &end, 0);
    if (*end && std::string_view(end) != "U")
      fail("'" + text + "' is not a number");
    if (negative)
      number.value = -number.value;
    return number;
  }

  uint64_t parseInteger() {
    Operand number = parseNumber();
    if (number.kind != Operand::Integer)
      fail("expected an integer");
    return number.value;
  }

  // --- Module scope

  void parseTopLevel() {
    bool isExtern = false;
    while (peek().is(".visible") || peek().is(".extern") ||
           peek().is(".weak") || peek().is(".common"))
      isExtern |= take().is(".extern");
    std::string word = takeWord("a directive");
    if (word == ".version") {
      std::vector<std::string> parts = split(take().text, '.');
      if (parts.size() != 2)
        fail("expected a version such as 8.0");
      module.version = std::stoul(parts[0]) * 10 + std::stoul(parts[1]);
    } else if (word == ".target") {
      module.target = takeWord("a target");
      while (takeIf(","))
        takeWord("an option of the target");
    } else if (word == ".address_size") {
      if (parseInteger() != 64)
        fail("addresses must have 64 bits");
    } else if (word == ".entry") {
      parseKernel();
    } else if (word == ".global" || word == ".const" || word == ".shared") {
      module.variables.push_back(parseVariable(word, isExtern));
    } else if (word == ".file") {
      skipLine();
    } else if (word == ".pragma") {
      take();
      expect(";");
    } else if (word == ".section") {
      takeWord("a section's name");
      skipBraces();
    } else if (word == ".func") {
      fail("device functions are not supported: inline them");
    } else {
      fail("unknown directive '" + word + "'");
    }
  }

  void skipBraces() {
    expect("{");
    for (unsigned depth = 1; depth;) {
      Token token = take();
      if (token.kind == Token::End)
        fail("a brace is not closed");
      depth += token.is("{");
      depth -= token.is("}");
    }
  }

  // --- Variables

  Type parseTypeDirective(const std::string &word) {
    std::optional<Type> type;
    if (word.size() > 1 && word[0] == '.')
      type = parseType(std::string_view(word).substr(1));
    if (!type)
      fail("unknown type '" + word + "'");
    return *type;
  }

  Variable parseVariable(const std::string &space, bool isExtern) {
    Variable variable;
    variable.line = peek().line;
    variable.isExtern = isExtern;
    variable.space = space == ".shared"  ? Space::Shared
                     : space == ".local" ? Space::Local
                     : space == ".param" ? Space::Param
                     : space == ".const" ? Space::Const
                                         : Space::Global;
    Type type;
    uint64_t vector = 1;
    for (;;) {
      std::string word = takeWord("a variable");
      if (word == ".align") {
        variable.align = parseInteger();
      } else if (word == ".v2" || word == ".v4") {
        vector = word[2] - '0';
      } else if (word == ".ptr" || word == ".global" || word == ".shared" ||
                 word == ".const" || word == ".local" || word == ".attribute" ||
                 word == ".managed") {
        // Describes a pointer parameter's target, not its own size. (.align
        // after .ptr is the target's: see below.)
        pointee |= word == ".ptr";
      } else if (word[0] == '.') {
        type = parseTypeDirective(word);
      } else {
        variable.name = word;
        break;
      }
    }
    uint64_t element = type.bytes() * vector;
    if (std::exchange(pointee, false))
      variable.align = element;
    variable.align = std::max<uint64_t>(variable.align, element);
    variable.bytes = element;
    while (takeIf("[")) {
      variable.bytes *= peek().is("]") ? 0 : parseInteger();
      expect("]");
    }
    if (takeIf("="))
      parseInitial(variable, type.bytes());
    if (variable.space != Space::Param)
      expect(";");
    if (variable.isExtern && variable.space != Space::Shared)
      throw ModuleError(variable.line, "external variable '" + variable.name +
                                           "' is defined nowhere");
    return variable;
  }

  void parseInitial(Variable &variable, unsigned elementBytes) {
    bool braces = takeIf("{");
    do {
      Operand number = parseNumber();
      for (unsigned i = 0; i < elementBytes; ++i)
        variable.initial.push_back(number.value >> (8 * i) & 0xff);
    } while (braces && takeIf(","));
    if (braces)
      expect("}");
    if (variable.initial.size() > variable.bytes)
      fail("more initial values than '" + variable.name + "' has elements");
  }

  // --- Kernels

  void parseKernel() {
    KernelSyntax kernel;
    kernel.line = peek().line;
    kernel.name = takeWord("a kernel's name");
    if (takeIf("(")) {
      while (!takeIf(")")) {
        expect(".param");
        kernel.params.push_back(parseVariable(".param", false));
        takeIf(",");
      }
    }
    while (!peek().is("{")) {
      std::string word = takeWord("a directive of the kernel");
      if (word == ".maxntid" || word == ".reqntid") {
        kernel.maxThreads = parseInteger();
        while (takeIf(","))
          kernel.maxThreads *= parseInteger();
      } else if (word == ".minnctapersm" || word == ".maxnreg") {
        parseInteger();
      } else if (word == ".pragma") {
        take();
        expect(";");
      } else {
        fail("unknown directive '" + word + "' of a kernel");
      }
    }
    expect("{");
    parseBody(kernel);
    module.kernels.push_back(std::move(kernel));
  }

  void parseBody(KernelSyntax &kernel) {
    scopes.assign(1, {});
    // Another kernel may have lists of the same names.
    branchTargets.clear();
    while (!scopes.empty()) {
      if (takeIf("{"))
        scopes.emplace_back();
      else if (takeIf("}"))
        scopes.pop_back();
      else
        parseBodyItem(kernel);
    }
  }

  void parseBodyItem(KernelSyntax &kernel) {
    if (peek().kind == Token::Word && peek(1).is(":")) {
      std::string label(take().text);
      take();
      if (takeIf(".branchtargets"))
        parseBranchTargets(label);
      else
        kernel.labels[label] = kernel.statements.size();
    } else if (takeIf(".reg")) {
      parseRegisters(kernel);
    } else if (peek().is(".shared") || peek().is(".local")) {
      std::string space(take().text);
      kernel.variables.push_back(parseVariable(space, false));
    } else if (peek().is(".loc")) {
      skipLine();
    } else if (takeIf(".pragma")) {
      take();
      expect(";");
    } else if (peek().kind == Token::Word && peek().text[0] == '.') {
      fail("unknown directive '" + std::string(peek().text) + "' in a kernel");
    } else {
      parseStatement(kernel);
    }
  }

  /// `.reg .b32 %r<65>;` declares %r0 to %r64; `.reg .b16 tmp;` declares one
  /// name.
  void parseRegisters(KernelSyntax &kernel) {
    Type type = parseTypeDirective(takeWord("a type"));
    do {
      std::string name = takeWord("a register");
      if (takeIf("<")) {
        uint64_t count = parseInteger();
        expect(">");
        for (uint64_t i = 0; i < count; ++i)
          kernel.registers[name + std::to_string(i)] = type;
        continue;
      }
      // A name of an inner scope hides the same name outside.
      std::string unique = name;
      if (scopes.size() > 1)
        unique += "#" + std::to_string(++scopedNames);
      scopes.back()[name] = unique;
      kernel.registers[unique] = type;
    } while (takeIf(","));
    expect(";");
  }

  std::string resolve(const std::string &name) const {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
      if (auto found = scope->find(name); found != scope->end())
        return found->second;
    return name;
  }

  // --- Instructions

  void parseStatement(KernelSyntax &kernel) {
    Statement statement;
    statement.line = peek().line;
    if (takeIf("@")) {
      statement.guardNegated = takeIf("!");
      statement.guard = resolve(takeWord("a predicate"));
    }
    statement.modifiers = split(takeWord("an instruction"), '.');
    statement.opcode = statement.modifiers.front();
    statement.modifiers.erase(statement.modifiers.begin());
    while (!peek().is(";")) {
      statement.operands.push_back(parseOperand());
      if (!takeIf(","))
        break;
    }
    expect(";");
    if (statement.opcode == "brx")
      addIndexedBranch(kernel, statement);
    else
      kernel.statements.push_back(std::move(statement));
  }

  /// `$L: .branchtargets $A, $B;` lists the targets of a `brx.idx`.
  void parseBranchTargets(const std::string &label) {
    std::vector<std::string> &targets = branchTargets[label];
    do
      targets.push_back(takeWord("a label"));
    while (takeIf(","));
    expect(";");
  }

  /// `brx.idx %r, $L` becomes a comparison and a branch for each target, then a
  /// trap: an index beyond the last is undefined.
  void addIndexedBranch(KernelSyntax &kernel, const Statement &branch) {
    auto targets = branch.operands.size() == 2
                       ? branchTargets.find(branch.operands[1].name)
                       : branchTargets.end();
    if (branch.modifiers.empty() || branch.modifiers.front() != "idx" ||
        targets == branchTargets.end())
      throw ModuleError(branch.line,
                        "expected brx.idx with an index and branch targets");
    const std::string number = std::to_string(++indexedBranches);
    auto add = [&](std::string guard, bool negated, std::string opcode,
                   std::vector<std::string> modifiers,
                   std::vector<Operand> operands) {
      kernel.statements.push_back({branch.line, std::move(guard), negated,
                                   std::move(opcode), std::move(modifiers),
                                   std::move(operands)});
    };
    auto name = [](std::string text) {
      Operand operand;
      operand.kind = Operand::Name;
      operand.name = std::move(text);
      return operand;
    };
    // Lanes that do not branch continue behind it.
    const std::string behind = "$behind#" + number;
    if (!branch.guard.empty())
      add(branch.guard, !branch.guardNegated, "bra", {}, {name(behind)});
    const std::string isTarget = "%is#" + number;
    kernel.registers[isTarget] = Type{Type::Pred, 1, false};
    for (size_t i = 0; i < targets->second.size(); ++i) {
      Operand index;
      index.kind = Operand::Integer;
      index.value = i;
      add("", false, "setp", {"eq", "u32"},
          {name(isTarget), branch.operands[0], index});
      add(isTarget, false, "bra", {}, {name(targets->second[i])});
    }
    add("", false, "trap", {}, {});
    kernel.labels[behind] = kernel.statements.size();
  }

  Operand parseOperand() {
    Operand operand;
    if (takeIf("{")) {
      operand.kind = Operand::Vector;
      do
        operand.elements.push_back(parseOperand());
      while (takeIf(","));
      expect("}");
      return operand;
    }
    if (takeIf("["))
      return parseAddress();
    if (peek().is("-") || peek().kind == Token::Number)
      return parseNumber();
    operand.negated = takeIf("!");
    operand.name = takeWord("an operand");
    if (operand.name != "_") {
      operand.kind = Operand::Name;
      operand.name = resolve(operand.name);
    }
    if (takeIf("|"))
      operand.predicate = resolve(takeWord("a predicate"));
    if (takeIf("+")) { // the address of a variable's part
      operand.value = parseInteger();
    }
    return operand;
  }

  Operand parseAddress() {
    Operand address;
    address.kind = Operand::Address;
    if (peek().kind == Token::Word)
      address.name = resolve(std::string(take().text));
    else
      address.value = parseInteger();
    if (takeIf("+"))
      address.value += parseInteger();
    else if (peek().is("-"))
      address.value += parseInteger();
    expect("]");
    return address;
  }

  std::vector<Token> tokens;
  size_t at = 0;
  ModuleSyntax module;
  bool pointee = false;
  std::vector<std::map<std::string, std::string>> scopes;
  unsigned scopedNames = 0;
  /// Labels by the label of their list.
  std::map<std::string, std::vector<std::string>> branchTargets;
  unsigned indexedBranches = 0;
};

} // namespace

ModuleSyntax mpc::emulator::ptx::parse(std::string_view text) {
  return Parser(text).run();
}
