// Applies presets and matches rules.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Precision/Policy/PrecisionPolicy.h"

using namespace mlir;
using namespace mpc;

namespace {
struct PresetRow {
  llvm::StringLiteral preset, op;
  PrecisionClass fp16, bf16;
  llvm::StringLiteral why, bf16Why;
};
} // namespace

static constexpr PresetRow presetRows[] = {
#define MPC_PRESET(PRESET, OP, FP16, BF16, WHY, BF16WHY)                       \
  {#PRESET, #OP, PrecisionClass::FP16, PrecisionClass::BF16, WHY, BF16WHY},
#include "compiler/Precision/Policy/PolicyPresets.def"
};

PrecisionPolicy::PrecisionPolicy(FloatType low) : low(low) {
  for (const PolicyRow &row : getPolicyRows())
    table[row.op] = {low.isF16() ? row.fp16 : row.bf16,
                     row.unbounded && low.isF16(), ("default:" + row.op).str(),
                     (low.isF16() ? row.why : row.bf16Why).str()};
  for (const PolicyFollower &row : getPolicyFollowers())
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
      if (getPolicyLeader(item.first()) != row.op)
        continue;
      item.second.precisionClass = precisionClass;
      item.second.rule = ("preset:" + preset + ":" + row.op).str();
      item.second.why = (low.isF16() ? row.why : row.bf16Why).str();
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

void PrecisionPolicy::setRow(StringRef key, const PolicyEntry &entry) {
  table[key] = entry;
  for (const PolicyFollower &row : getPolicyFollowers())
    if (row.leader == key)
      table[row.op] = entry;
}

llvm::Error PrecisionPolicy::addRule(PolicyRule rule, std::string label) {
  ActiveRule active{std::move(rule), std::nullopt, std::move(label)};
  if (!active.rule.node.empty()) {
    active.node.emplace(active.rule.node);
    if (StringRef error = active.node->getError(); !error.empty())
      return llvm::createStringError(active.label + ": node: " + error);
  }
  rules.push_back(std::move(active));
  return llvm::Error::success();
}

std::optional<PolicyEntry>
PrecisionPolicy::lookup(StringRef key, ArrayRef<StringRef> nodeNames) {
  // An op without a name matches as the empty name.
  static constexpr StringRef unnamed[] = {""};
  if (nodeNames.empty())
    nodeNames = unnamed;
  auto found = table.find(key);
  if (found == table.end())
    return std::nullopt;
  PolicyEntry entry = found->second;
  // The last matching rule wins. A rule for an op also holds for its gradients.
  for (ActiveRule &active : rules) {
    const PolicyRule &rule = active.rule;
    if (!rule.op.empty() && rule.op != key && rule.op != getPolicyLeader(key))
      continue;
    if (!rule.type.empty() && (rule.type == "fp16") != low.isF16())
      continue;
    // One matching name suffices: a fused op stands for several nodes.
    bool isOfNode = llvm::any_of(nodeNames, [&](StringRef name) {
      return !active.node || active.node->match(name);
    });
    if (!isOfNode)
      continue;
    // Note the match even if the rule changes nothing, because rules that match
    // no node of the model are reported.
    active.matched = true;
    // The class Fixed is a hard constraint, above all rules.
    if (entry.precisionClass == PrecisionClass::Fixed)
      continue;
    entry.precisionClass = rule.precisionClass;
    entry.unbounded = rule.unbounded.value_or(entry.unbounded);
    entry.rule = active.label;
    entry.why = rule.why;
  }
  return entry;
}

const PolicyEntry *PrecisionPolicy::findRow(StringRef key) const {
  auto found = table.find(key);
  return found == table.end() ? nullptr : &found->second;
}

std::vector<const PolicyRule *> PrecisionPolicy::getRules() const {
  std::vector<const PolicyRule *> list;
  for (const ActiveRule &active : rules)
    list.push_back(&active.rule);
  return list;
}

std::vector<std::pair<std::string, const PolicyRule *>>
PrecisionPolicy::getUnmatchedRules() const {
  std::vector<std::pair<std::string, const PolicyRule *>> unmatched;
  for (const ActiveRule &active : rules)
    if (!active.matched && !active.rule.isOptional &&
        (active.rule.type.empty() ||
         (active.rule.type == "fp16") == low.isF16()))
      unmatched.emplace_back(active.label, &active.rule);
  return unmatched;
}
