// The precision policy: the class (allow, infer, deny, clear or fixed) of each
// op. Policy is data: a default table, presets that reproduce other systems'
// lists, and the user's rules.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_POLICY_PRECISIONPOLICY_H
#define MPC_COMPILER_PRECISION_POLICY_PRECISIONPOLICY_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Precision/Policy/PolicyTable.h"
#include "compiler/Support/NamePattern.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// A row of the table for one low type.
struct PolicyEntry {
  PrecisionClass precisionClass;
  bool unbounded = false;
  /// The origin of the class: "default:gemm", "preset:torch:exp",
  /// "policy.json:rules[2]".
  std::string rule;
  std::string why;
};

/// A rule of a user's policy file, which applies if all its conditions hold.
struct PolicyRule {
  /// An ONNX or mpc op name; empty for any op.
  std::string op;
  /// A regular expression searched in node names; empty for any node.
  std::string node;
  /// "fp16" or "bf16"; empty for both.
  std::string type;
  PrecisionClass precisionClass;
  std::optional<bool> unbounded;
  /// True if the rule may match no node of a model.
  bool isOptional = false;
  std::string why;
};

/// The policy for one low type.
class PrecisionPolicy {
public:
  /// Creates the default table for `low`, f16 or bf16.
  explicit PrecisionPolicy(mlir::FloatType low);

  /// Reads a policy file (JSON, see docs/precision.md) or applies a preset by
  /// name, on top of the default table. Unknown keys, op names and classes, and
  /// malformed expressions, are errors that name the place.
  llvm::Error load(llvm::StringRef fileOrPreset);

  /// Returns the names of presets that `load` accepts.
  static llvm::ArrayRef<llvm::StringLiteral> getPresets();

  /// Returns the entry for an op that stands for these nodes; nullopt if no
  /// table has the op. The last matching rule wins. Records which rules
  /// matched.
  std::optional<PolicyEntry>
  lookup(llvm::StringRef key, llvm::ArrayRef<llvm::StringRef> nodeNames = {});

  /// Returns the row of an op before any rule; null if no table has the op.
  const PolicyEntry *findRow(llvm::StringRef key) const;

  /// Returns the user's rules in the order of the file.
  std::vector<const PolicyRule *> getRules() const;

  /// Returns the rules that have matched no op so far and are not optional,
  /// with their places: "policy.json:rules[2]".
  std::vector<std::pair<std::string, const PolicyRule *>>
  getUnmatchedRules() const;

  mlir::FloatType getLowType() const { return low; }

  /// Returns the policy's origin for summaries: "default", "torch", or a path.
  llvm::StringRef getName() const { return name; }

private:
  struct ActiveRule {
    PolicyRule rule;
    std::optional<NamePattern> node;
    std::string label;
    bool matched = false;
  };

  /// Replaces the row of an op and of its gradients.
  void setRow(llvm::StringRef key, const PolicyEntry &entry);
  llvm::Error addRule(PolicyRule rule, std::string label);
  llvm::Error applyPreset(llvm::StringRef preset);
  llvm::Error parseFile(llvm::StringRef path);
  llvm::Error parseTable(const llvm::json::Array &list, llvm::StringRef path);
  llvm::Error parseRow(const llvm::json::Object &object, llvm::StringRef where,
                       llvm::StringRef op);
  llvm::Error parseRules(const llvm::json::Array &list, llvm::StringRef path);

  mlir::FloatType low;
  std::string name = "default";
  llvm::StringMap<PolicyEntry> table;
  std::vector<ActiveRule> rules;
};

/// Returns the part of an op's row that all policies share, as JSON: ONNX
/// names, the leader's key, the accumulation type, and the operands and results
/// kept in fp32.
llvm::json::Object describePolicyRow(llvm::StringRef op);

/// Writes the two policies of one file or preset as JSON. `load` reads the
/// output and reaches the same decisions.
void printPolicy(llvm::raw_ostream &os, const PrecisionPolicy &fp16,
                 const PrecisionPolicy &bf16);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_POLICY_PRECISIONPOLICY_H
