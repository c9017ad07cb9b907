// The default table, presets, and matching of rules.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/PrecisionPolicy.h"

#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace mpc;
using amp::PrecisionClass;

namespace {
struct TableRow {
  llvm::StringLiteral op, onnx;
  PrecisionClass fp16, bf16;
  bool poison;
  unsigned fp32Operands, fp32Results;
  llvm::StringLiteral why;
};

struct FollowerRow {
  llvm::StringLiteral op, leader;
  unsigned fp32Operands, fp32Results;
};

struct AliasRow {
  llvm::StringLiteral op, onnx;
};

struct PresetRow {
  llvm::StringLiteral preset, op;
  PrecisionClass fp16, bf16;
  llvm::StringLiteral why;
};
} // namespace

static constexpr TableRow tableRows[] = {
#define MPC_POLICY(OP, ONNX, FP16, BF16, POISON, OPERANDS, RESULTS, WHY)       \
  {                                                                            \
      #OP,                                                                     \
      ONNX,                                                                    \
      PrecisionClass::FP16,                                                    \
      PrecisionClass::BF16,                                                    \
      POISON,                                                                  \
      OPERANDS,                                                                \
      RESULTS,                                                                 \
      WHY},
#include "compiler/Precision/DefaultPolicy.def"
#define MPC_FORMULA(OP, MNEMONIC, ONNX, SINCE, FP16, BF16, WHY, ANAME, A,      \
                    BNAME, B, FORMULA)                                         \
  {#MNEMONIC, ONNX, PrecisionClass::FP16, PrecisionClass::BF16, false, 0,      \
   0,         WHY},
#include "compiler/Dialect/MPC/Formulas.def"
};

static constexpr FollowerRow followerRows[] = {
#define MPC_POLICY_FOLLOWS(OP, LEADER, OPERANDS, RESULTS)                      \
  {#OP, #LEADER, OPERANDS, RESULTS},
#include "compiler/Precision/DefaultPolicy.def"
};

static constexpr AliasRow aliasRows[] = {
#define MPC_POLICY_ALIAS(OP, ONNX) {#OP, ONNX},
#include "compiler/Precision/DefaultPolicy.def"
};

static constexpr PresetRow presetRows[] = {
#define MPC_PRESET(PRESET, OP, FP16, BF16, WHY)                                \
  {#PRESET, #OP, PrecisionClass::FP16, PrecisionClass::BF16, WHY},
#include "compiler/Precision/PolicyPresets.def"
};

StringRef mpc::resolvePolicyKey(StringRef name) {
  for (const TableRow &row : tableRows)
    if (name == row.op || (!row.onnx.empty() && name == row.onnx))
      return row.op;
  for (const FollowerRow &row : followerRows)
    if (name == row.op)
      return row.op;
  for (const AliasRow &row : aliasRows)
    if (name == row.onnx)
      return row.op;
  return {};
}

// The op whose classes and rules `key` shares; `key` itself where it leads.
static StringRef getLeader(StringRef key) {
  for (const FollowerRow &row : followerRows)
    if (key == row.op)
      return row.leader;
  return key;
}

// The masks of operands and results of `key` that stay fp32.
static std::pair<unsigned, unsigned> getMasks(StringRef key) {
  for (const TableRow &row : tableRows)
    if (key == row.op)
      return {row.fp32Operands, row.fp32Results};
  for (const FollowerRow &row : followerRows)
    if (key == row.op)
      return {row.fp32Operands, row.fp32Results};
  return {0, 0};
}

bool mpc::policyKeepsOperandFP32(StringRef key, unsigned index) {
  return index < 32 && (getMasks(key).first >> index & 1);
}

bool mpc::policyKeepsResultFP32(StringRef key, unsigned index) {
  return index < 32 && (getMasks(key).second >> index & 1);
}

PrecisionPolicy::PrecisionPolicy(FloatType low) : low(low) {
  for (const TableRow &row : tableRows)
    table[row.op] = {low.isF16() ? row.fp16 : row.bf16,
                     row.poison && low.isF16(), ("default:" + row.op).str(),
                     row.why.str()};
  for (const FollowerRow &row : followerRows)
    table[row.op] = table.lookup(row.leader);
}

llvm::ArrayRef<llvm::StringLiteral> PrecisionPolicy::getPresets() {
  static constexpr llvm::StringLiteral presets[] = {"torch", "tensorflow"};
  return presets;
}

llvm::Error PrecisionPolicy::applyPreset(StringRef preset) {
  for (const PresetRow &row : presetRows) {
    if (row.preset != preset)
      continue;
    PrecisionClass precisionClass = low.isF16() ? row.fp16 : row.bf16;
    for (auto &item : table) {
      if (getLeader(item.first()) != row.op)
        continue;
      item.second.precisionClass = precisionClass;
      item.second.rule = ("preset:" + preset + ":" + row.op).str();
      item.second.why = row.why.str();
    }
  }
  return llvm::Error::success();
}

llvm::Error PrecisionPolicy::load(StringRef fileOrPreset) {
  name = fileOrPreset.str();
  if (llvm::is_contained(getPresets(), fileOrPreset))
    return applyPreset(fileOrPreset);
  return parseFile(fileOrPreset);
}

llvm::Error PrecisionPolicy::addRule(PolicyRule rule, std::string label) {
  ActiveRule active{std::move(rule), std::nullopt, std::move(label)};
  if (!active.rule.node.empty()) {
    active.node.emplace(active.rule.node);
    std::string message;
    if (!active.node->isValid(message))
      return llvm::createStringError("%s: node: invalid expression '%s': %s",
                                     active.label.c_str(),
                                     active.rule.node.c_str(), message.c_str());
  }
  rules.push_back(std::move(active));
  return llvm::Error::success();
}

std::optional<PolicyEntry>
PrecisionPolicy::lookup(StringRef key, ArrayRef<StringRef> nodeNames) {
  // An op without a name has the empty one.
  static constexpr StringRef unnamed[] = {""};
  if (nodeNames.empty())
    nodeNames = unnamed;
  auto found = table.find(key);
  if (found == table.end())
    return std::nullopt;
  PolicyEntry entry = found->second;
  for (ActiveRule &active : rules) {
    const PolicyRule &rule = active.rule;
    if (!rule.op.empty() && rule.op != key && rule.op != getLeader(key))
      continue;
    if (!rule.type.empty() && (rule.type == "fp16") != low.isF16())
      continue;
    bool isOfNode = llvm::any_of(nodeNames, [&](StringRef name) {
      return !active.node || active.node->match(name);
    });
    if (!isOfNode)
      continue;
    active.matched = true;
    // What is fixed is so for reasons no rule can lift.
    if (entry.precisionClass == PrecisionClass::Fixed)
      continue;
    entry.precisionClass = rule.precisionClass;
    entry.poison = rule.poison.value_or(entry.poison);
    entry.rule = active.label;
    entry.why = rule.why;
  }
  return entry;
}

std::vector<std::string> PrecisionPolicy::getUnmatchedRules() const {
  std::vector<std::string> unmatched;
  for (const ActiveRule &active : rules)
    if (!active.matched && (active.rule.type.empty() ||
                            (active.rule.type == "fp16") == low.isF16()))
      unmatched.push_back(active.label);
  return unmatched;
}
