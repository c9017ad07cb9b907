// Turns statements into instructions: checks every modifier and operand,
// assigns register slots, and selects the handler. Unknown syntax is an error
// at load time, not at run time.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_TEST_EMULATOR_PTX_DECODER_H
#define MPC_TEST_EMULATOR_PTX_DECODER_H

#include "test/emulator/ptx/Half.h"
#include "test/emulator/ptx/Program.h"

#include <optional>
#include <utility>

namespace mpc::emulator::ptx {

class Decoder {
public:
  Decoder(const ModuleSyntax &syntax, const KernelSyntax &kernel,
          const std::vector<GlobalMemory> &globals)
      : module(syntax), syntax(kernel), globals(globals) {}

  Kernel run();

  // --- For the decoders of instructions: the statement at hand.

  [[noreturn]] void fail(const std::string &message) const {
    throw ModuleError(statement->line, "'" + mnemonic() + "': " + message);
  }

  const std::string &opcode() const { return statement->opcode; }

  /// Modifiers are taken in order. Remaining modifiers are an error.
  bool take(std::string_view modifier);
  void expect(std::string_view modifier);
  bool hasMore() const { return modifier < statement->modifiers.size(); }
  std::optional<Type> peekType() const;
  Type takeType();
  Rounding takeRounding(Rounding otherwise);

  size_t operandCount() const { return statement->operands.size(); }
  const Operand &operand(size_t i) const;
  /// Checks the number of operands.
  void operands(size_t least, size_t most);
  void operands(size_t count) { operands(count, count); }

  /// The slot of a written register, or of a read register or number. `bytes`
  /// is the size in the instruction's type.
  uint32_t destination(const Operand &operand, unsigned bytes);
  uint32_t source(const Operand &operand, unsigned bytes);
  uint32_t predicateDestination(const Operand &operand);
  uint32_t predicateSource(const Operand &operand);
  uint32_t predicate(const std::string &name);
  uint32_t constant(unsigned bytes, uint64_t value);

  /// Bytes of the register that an operand names; `otherwise` for a number.
  unsigned registerBytes(const Operand &operand, unsigned otherwise) const;

  /// Sets slots 0, 1, 2... to a destination and sources of one size.
  void plain(unsigned bytes, size_t sources);

  /// The value of an operand that must be an integer literal.
  uint64_t immediate(const Operand &operand) const;

  /// The base and the offset of an address. `bytes` is the size of the base's
  /// register (32-bit ones may address shared memory).
  void address(const Operand &operand, Space space, uint32_t &slot,
               int64_t &offset, bool &isWide);

  Inst *inst = nullptr;

private:
  std::string mnemonic() const;
  void layOut();
  void place(const Variable &variable);
  uint32_t newSlot(unsigned bytes);
  void decode(const Statement &statement);
  void resolveLabels();
  const Type *findRegister(const std::string &name) const;
  uint32_t slotOf(const std::string &name);
  std::optional<uint32_t> specialSlot(const std::string &name, unsigned bytes);
  std::optional<uint64_t> symbol(const std::string &name) const;

  friend void decodeBranch(Decoder &decoder);

  const ModuleSyntax &module;
  const KernelSyntax &syntax;
  const std::vector<GlobalMemory> &globals;
  const Statement *statement = nullptr;
  size_t modifier = 0;
  Kernel kernel;
  std::map<std::string, uint32_t> slots;
  std::map<std::pair<unsigned, uint64_t>, uint32_t> constants;
  std::map<std::string, uint64_t> symbols; ///< shared and local offsets
  std::vector<std::string> targets;        ///< labels of branches, by `target`
};

using DecodeFunction = void (*)(Decoder &);
using DecodeTable = std::map<std::string_view, DecodeFunction>;

// Each adds one part of the instruction set.
void addIntegerInstructions(DecodeTable &table);
void addBitInstructions(DecodeTable &table);
void addFloatInstructions(DecodeTable &table);
void addConversions(DecodeTable &table);
void addMoves(DecodeTable &table);
void addMemoryInstructions(DecodeTable &table);
void addControlInstructions(DecodeTable &table);
void addWarpInstructions(DecodeTable &table);
void addMatrixInstructions(DecodeTable &table);

// Decodes the float forms of add, mul, ... The integers' decoder calls this
// when it finds a float type.
void decodeFloatArithmetic(Decoder &decoder);

} // namespace mpc::emulator::ptx

#endif // MPC_TEST_EMULATOR_PTX_DECODER_H
