// A PTX module as written: the parser's result and the decoder's input. Names
// are text, which the decoder resolves.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_SYNTAX_H
#define MPC_TEST_EMULATOR_PTX_SYNTAX_H

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace mpc::emulator::ptx {

/// A module that cannot run: the error and its line.
struct ModuleError : std::runtime_error {
  ModuleError(unsigned line, const std::string &message)
      : std::runtime_error("line " + std::to_string(line) + ": " + message) {}
};

enum class Space : uint8_t { Generic, Global, Shared, Local, Param, Const };

/// Bits, signed and unsigned integers, and the kinds of floats.
struct Type {
  enum Kind : uint8_t { Pred, Bits, Unsigned, Signed, Float, BFloat, TF32 };
  Kind kind = Bits;
  unsigned bits = 0;   ///< of one element
  bool packed = false; ///< two elements in one register

  unsigned bytes() const { return bits * (packed ? 2 : 1) / 8; }
  bool isFloat() const { return kind >= Float; }
  bool isInteger() const { return kind == Unsigned || kind == Signed; }
  bool is(Kind k, unsigned b) const {
    return kind == k && bits == b && !packed;
  }
};

/// A variable in memory: module scope (global, const, shared) or a kernel's.
struct Variable {
  std::string name;
  Space space = Space::Global;
  unsigned line = 0;
  uint64_t align = 1;
  uint64_t bytes = 0;
  bool isExtern = false; ///< dynamic shared memory
  std::vector<uint8_t> initial;
};

struct Operand {
  enum Kind : uint8_t {
    Name,
    Integer,
    Float32,
    Float64,
    Vector,
    Address,
    Sink
  };
  Kind kind = Sink;
  std::string name;              ///< Name; base of an Address, may be empty
  uint64_t value = 0;            ///< bits of a number; offset of an Address
  std::vector<Operand> elements; ///< of a Vector
  std::string predicate;         ///< `%p1` of `%r1|%p1`
  bool negated = false;          ///< `!%p1`
};

/// One instruction, split at the dots: `ld.global.v4.b32` is "ld" with
/// modifiers "global", "v4", "b32".
struct Statement {
  unsigned line = 0;
  std::string guard;
  bool guardNegated = false;
  std::string opcode;
  std::vector<std::string> modifiers;
  std::vector<Operand> operands;
};

struct KernelSyntax {
  std::string name;
  unsigned line = 0;
  std::vector<Variable> params;
  std::map<std::string, Type> registers;
  std::vector<Variable> variables; ///< shared and local ones of the body
  std::map<std::string, size_t> labels;
  std::vector<Statement> statements;
  unsigned maxThreads = 1024;
};

struct ModuleSyntax {
  unsigned version = 0; ///< 80 for PTX 8.0
  std::string target;   ///< "sm_80"
  std::vector<Variable> variables;
  std::vector<KernelSyntax> kernels;
  std::vector<std::string> lines; ///< the text, for messages
};

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_SYNTAX_H
