// SPDX-License-Identifier: Apache-2.0
#include "test/emulator/ptx/Decoder.h"

#include "test/emulator/ptx/Parser.h"
#include "test/emulator/ptx/Warp.h"

#include <algorithm>
#include <cstring>
#include <set>

using namespace mpc::emulator::ptx;

static constexpr uint32_t kSlotAlignment = 64; // whole vectors of the host
/// The limit of a kernel, up to PTX 8.0.
static constexpr uint32_t kMostParamBytes = 4352;

//===----------------------------------------------------------------------===//
// The statement at hand
//===----------------------------------------------------------------------===//

std::string Decoder::mnemonic() const {
  std::string text = statement->opcode;
  for (const std::string &part : statement->modifiers)
    text += "." + part;
  return text;
}

bool Decoder::take(std::string_view name) {
  if (!hasMore() || statement->modifiers[modifier] != name)
    return false;
  ++modifier;
  return true;
}

void Decoder::expect(std::string_view name) {
  if (!take(name))
    fail("expected ." + std::string(name));
}

std::optional<Type> Decoder::peekType() const {
  return hasMore() ? parseType(statement->modifiers[modifier]) : std::nullopt;
}

Type Decoder::takeType() {
  std::optional<Type> type = peekType();
  if (!type)
    fail(hasMore() ? "unknown modifier ." + statement->modifiers[modifier]
                   : "expected a type");
  ++modifier;
  return *type;
}

Rounding Decoder::takeRounding(Rounding otherwise) {
  return take("rn")    ? Rounding::Nearest
         : take("rz")  ? Rounding::Zero
         : take("rm")  ? Rounding::Down
         : take("rp")  ? Rounding::Up
         : take("rna") ? Rounding::NearestAway
                       : otherwise;
}

const Operand &Decoder::operand(size_t i) const {
  if (i >= statement->operands.size())
    fail("too few operands");
  return statement->operands[i];
}

void Decoder::operands(size_t least, size_t most) {
  if (operandCount() < least || operandCount() > most)
    fail("expected " + std::to_string(least) + " operands, found " +
         std::to_string(operandCount()));
}

//===----------------------------------------------------------------------===//
// Places
//===----------------------------------------------------------------------===//

uint32_t Decoder::newSlot(unsigned bytes) {
  uint32_t slot = kernel.fileBytes;
  uint32_t size = bytes ? bytes * kLanes : sizeof(uint32_t);
  kernel.fileBytes += (size + kSlotAlignment - 1) & ~(kSlotAlignment - 1);
  return slot;
}

const Type *Decoder::findRegister(const std::string &name) const {
  auto found = syntax.registers.find(name);
  return found == syntax.registers.end() ? nullptr : &found->second;
}

uint32_t Decoder::slotOf(const std::string &name) {
  const Type &type = syntax.registers.at(name);
  auto found = slots.find(name);
  if (found == slots.end()) {
    unsigned bytes = type.kind == Type::Pred ? 0 : type.bytes();
    found = slots.emplace(name, newSlot(bytes)).first;
  }
  return found->second;
}

uint32_t Decoder::constant(unsigned bytes, uint64_t value) {
  if (bytes < 8)
    value &= (1ull << (8 * bytes)) - 1;
  auto [found, isNew] = constants.try_emplace({bytes, value}, 0);
  if (isNew) {
    found->second = newSlot(bytes);
    kernel.constants.push_back({found->second, bytes, value});
  }
  return found->second;
}

std::optional<uint32_t> Decoder::specialSlot(const std::string &name,
                                             unsigned bytes) {
  using Register = SpecialRegister;
  static const std::map<std::string, Register> registers = {
      {"%tid.x", Register::TidX},
      {"%tid.y", Register::TidY},
      {"%tid.z", Register::TidZ},
      {"%ntid.x", Register::NTidX},
      {"%ntid.y", Register::NTidY},
      {"%ntid.z", Register::NTidZ},
      {"%ctaid.x", Register::CtaIdX},
      {"%ctaid.y", Register::CtaIdY},
      {"%ctaid.z", Register::CtaIdZ},
      {"%nctaid.x", Register::NCtaIdX},
      {"%nctaid.y", Register::NCtaIdY},
      {"%nctaid.z", Register::NCtaIdZ},
      {"%laneid", Register::LaneId},
      {"%warpid", Register::WarpId},
      {"%lanemask_eq", Register::LaneMaskEQ},
      {"%lanemask_lt", Register::LaneMaskLT},
      {"%lanemask_le", Register::LaneMaskLE},
      {"%lanemask_gt", Register::LaneMaskGT},
      {"%lanemask_ge", Register::LaneMaskGE},
      {"%dynamic_smem_size", Register::DynamicShared}};
  auto known = registers.find(name);
  if (known == registers.end() || bytes != 4)
    return std::nullopt;
  auto [found, isNew] = slots.try_emplace(name, 0);
  if (isNew) {
    found->second = newSlot(4);
    kernel.specials.push_back({found->second, known->second});
  }
  return found->second;
}

std::optional<uint64_t> Decoder::symbol(const std::string &name) const {
  for (size_t i = 0; i < syntax.params.size(); ++i)
    if (syntax.params[i].name == name)
      return kernel.params[i].offset;
  if (auto found = symbols.find(name); found != symbols.end())
    return found->second;
  for (const GlobalMemory &global : globals)
    if (global.name == name)
      return reinterpret_cast<uint64_t>(global.address);
  return std::nullopt;
}

unsigned Decoder::registerBytes(const Operand &operand,
                                unsigned otherwise) const {
  if (operand.kind != Operand::Name)
    return otherwise;
  const Type *type = findRegister(operand.name);
  return type && type->kind != Type::Pred ? type->bytes() : otherwise;
}

uint32_t Decoder::destination(const Operand &operand, unsigned bytes) {
  if (operand.kind == Operand::Sink)
    return newSlot(bytes);
  const Type *type = findRegister(operand.name);
  if (operand.kind != Operand::Name || !type)
    fail("expected a register, found '" + operand.name + "'");
  if (type->kind == Type::Pred || type->bytes() != bytes)
    fail("'" + operand.name + "' does not hold " + std::to_string(bytes) +
         " bytes");
  return slotOf(operand.name);
}

uint32_t Decoder::source(const Operand &operand, unsigned bytes) {
  switch (operand.kind) {
  case Operand::Integer:
    return constant(bytes, operand.value);
  case Operand::Float32:
    if (bytes != 4)
      fail("a 32-bit float where " + std::to_string(bytes) +
           " bytes are expected");
    return constant(bytes, operand.value);
  case Operand::Float64: {
    double value;
    std::memcpy(&value, &operand.value, sizeof(value));
    return bytes == 8
               ? constant(bytes, operand.value)
               : constant(bytes, runtime::bitsOf(static_cast<float>(value)));
  }
  case Operand::Name:
    break;
  default:
    fail("expected a register or a number");
  }
  if (findRegister(operand.name))
    return destination(operand, bytes);
  if (std::optional<uint32_t> slot = specialSlot(operand.name, bytes))
    return *slot;
  std::optional<uint64_t> value = symbol(operand.name);
  if (!value)
    fail("unknown name '" + operand.name + "'");
  return constant(bytes, *value + operand.value);
}

uint32_t Decoder::predicate(const std::string &name) {
  const Type *type = findRegister(name);
  if (!type || type->kind != Type::Pred)
    fail("'" + name + "' is not a predicate");
  return slotOf(name);
}

uint32_t Decoder::predicateDestination(const Operand &operand) {
  if (operand.kind == Operand::Sink)
    return newSlot(0);
  return predicate(operand.name);
}

uint32_t Decoder::predicateSource(const Operand &operand) {
  if (operand.negated)
    fail("negated predicates are not supported here");
  if (operand.kind != Operand::Integer)
    return predicate(operand.name);
  auto [found, isNew] = constants.try_emplace({0, operand.value != 0}, 0);
  if (isNew) {
    found->second = newSlot(0);
    kernel.constants.push_back({found->second, 0, operand.value != 0});
  }
  return found->second;
}

void Decoder::plain(unsigned bytes, size_t sources) {
  operands(sources + 1);
  inst->slots[0] = destination(operand(0), bytes);
  for (size_t i = 1; i <= sources; ++i)
    inst->slots[i] = source(operand(i), bytes);
}

uint64_t Decoder::immediate(const Operand &operand) const {
  if (operand.kind != Operand::Integer)
    fail("expected an integer constant");
  return operand.value;
}

void Decoder::address(const Operand &operand, Space space, uint32_t &slot,
                      int64_t &offset, bool &isWide) {
  if (operand.kind != Operand::Address)
    fail("expected an address");
  offset = static_cast<int64_t>(operand.value);
  isWide = true;
  if (operand.name.empty()) {
    slot = constant(8, 0);
    return;
  }
  if (const Type *type = findRegister(operand.name)) {
    if (type->kind == Type::Pred || type->bytes() < 4)
      fail("'" + operand.name + "' cannot hold an address");
    isWide = type->bytes() == 8;
    if (!isWide && space != Space::Shared && space != Space::Local)
      fail("'" + operand.name + "' is too narrow for an address");
    slot = slotOf(operand.name);
    return;
  }
  std::optional<uint64_t> value = symbol(operand.name);
  if (!value)
    fail("unknown name '" + operand.name + "'");
  slot = constant(8, *value);
}

//===----------------------------------------------------------------------===//
// A kernel
//===----------------------------------------------------------------------===//

static uint32_t alignUp(uint64_t value, uint64_t alignment) {
  return static_cast<uint32_t>((value + alignment - 1) / alignment * alignment);
}

void Decoder::place(const Variable &variable) {
  if (variable.isExtern)
    return;
  uint32_t &size =
      variable.space == Space::Local ? kernel.localBytes : kernel.sharedBytes;
  size = alignUp(size, variable.align);
  symbols[variable.name] = size;
  size += static_cast<uint32_t>(variable.bytes);
}

/// Assigns offsets to parameters, shared and local variables. A kernel has the
/// module's shared variables that it names.
void Decoder::layOut() {
  for (const Variable &param : syntax.params) {
    uint32_t offset = alignUp(kernel.paramBytes, param.align);
    kernel.params.push_back({offset, static_cast<uint32_t>(param.bytes)});
    kernel.paramBytes = offset + static_cast<uint32_t>(param.bytes);
    if (kernel.paramBytes > kMostParamBytes)
      throw ModuleError(param.line, "kernel '" + syntax.name +
                                        "' has more than " +
                                        std::to_string(kMostParamBytes) +
                                        " bytes of parameters");
  }
  std::set<std::string> named;
  for (const Statement &each : syntax.statements) {
    for (const Operand &operand : each.operands) {
      named.insert(operand.name);
      for (const Operand &element : operand.elements)
        named.insert(element.name);
    }
  }
  for (const Variable &variable : syntax.variables)
    place(variable);
  std::vector<const Variable *> dynamic;
  for (const Variable &variable : module.variables) {
    if (variable.space != Space::Shared || !named.count(variable.name))
      continue;
    place(variable);
    if (variable.isExtern)
      dynamic.push_back(&variable);
  }
  // All dynamic shared variables begin at the end of the static ones.
  for (const Variable *variable : dynamic)
    kernel.sharedBytes = alignUp(kernel.sharedBytes, variable->align);
  for (const Variable *variable : dynamic)
    symbols[variable->name] = kernel.sharedBytes;
}

void Decoder::decode(const Statement &next) {
  static const DecodeTable table = [] {
    DecodeTable all;
    addIntegerInstructions(all);
    addBitInstructions(all);
    addFloatInstructions(all);
    addConversions(all);
    addMoves(all);
    addMemoryInstructions(all);
    addControlInstructions(all);
    addWarpInstructions(all);
    addMatrixInstructions(all);
    return all;
  }();
  statement = &next;
  modifier = 0;
  kernel.code.emplace_back();
  inst = &kernel.code.back();
  inst->line = next.line;
  if (!next.guard.empty()) {
    inst->guard = predicate(next.guard);
    inst->guardNegated = next.guardNegated;
  }
  auto found = table.find(next.opcode);
  if (found == table.end())
    fail("unknown instruction");
  found->second(*this);
  if (hasMore())
    fail("unknown modifier ." + next.modifiers[modifier]);
}

void Decoder::resolveLabels() {
  for (Inst &each : kernel.code) {
    if (each.flow != Flow::Branch)
      continue;
    const std::string &label = targets[each.target];
    auto found = syntax.labels.find(label);
    if (found == syntax.labels.end())
      throw ModuleError(each.line, "unknown label '" + label + "'");
    each.target = static_cast<uint32_t>(found->second);
  }
}

Kernel Decoder::run() {
  kernel.name = syntax.name;
  kernel.line = syntax.line;
  kernel.maxThreads = syntax.maxThreads;
  layOut();
  kernel.code.reserve(syntax.statements.size() + 1);
  for (const Statement &each : syntax.statements)
    decode(each);
  resolveLabels();
  Inst end; // the closing brace returns
  end.flow = Flow::Exit;
  kernel.code.push_back(end);
  return std::move(kernel);
}

static GlobalMemory allocate(const Variable &variable) {
  GlobalMemory memory;
  memory.name = variable.name;
  memory.isConstant = variable.space == Space::Const;
  memory.bytes = variable.bytes;
  uint64_t align = std::max<uint64_t>(variable.align, 16);
  memory.storage = std::make_unique<uint8_t[]>(variable.bytes + align);
  auto begin = reinterpret_cast<uintptr_t>(memory.storage.get());
  memory.address = memory.storage.get() + (-begin & (align - 1));
  std::copy(variable.initial.begin(), variable.initial.end(), memory.address);
  return memory;
}

Module mpc::emulator::ptx::loadModule(std::string_view text) {
  ModuleSyntax syntax = parse(text);
  Module module;
  module.version = syntax.version;
  module.target = syntax.target;
  for (const Variable &variable : syntax.variables)
    if (variable.space != Space::Shared)
      module.globals.push_back(allocate(variable));
  for (const KernelSyntax &kernel : syntax.kernels)
    module.kernels.push_back(Decoder(syntax, kernel, module.globals).run());
  module.lines = std::move(syntax.lines);
  return module;
}

//===----------------------------------------------------------------------===//
// Control flow
//===----------------------------------------------------------------------===//

namespace mpc::emulator::ptx {
void decodeBranch(Decoder &decoder) {
  decoder.take("uni");
  decoder.operands(1);
  decoder.inst->flow = Flow::Branch;
  decoder.inst->target = static_cast<uint32_t>(decoder.targets.size());
  decoder.targets.push_back(decoder.operand(0).name);
}
} // namespace mpc::emulator::ptx

void mpc::emulator::ptx::addControlInstructions(DecodeTable &table) {
  table["bra"] = decodeBranch;
  table["ret"] = table["exit"] = [](Decoder &d) {
    d.take("uni");
    d.operands(0);
    d.inst->flow = Flow::Exit;
  };
  table["trap"] = [](Decoder &d) {
    d.operands(0);
    d.inst->run = [](Warp &, const Inst &, uint32_t lanes) {
      throw KernelFault{KernelFault::LaunchFailed, "trap",
                        static_cast<unsigned>(__builtin_ctz(lanes))};
    };
  };
}
