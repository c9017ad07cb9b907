// Precision policy: which list each op stands on. Policy is data: a default
// table, presets that reproduce other systems' lists, and the user's rules.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_PRECISIONPOLICY_H
#define MPC_COMPILER_PRECISION_PRECISIONPOLICY_H

#include "compiler/Dialect/AMP/AMP.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/Regex.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// One row of the table, as it holds for one low type.
struct PolicyEntry {
  amp::PrecisionClass precisionClass;
  bool poison = false;
  /// "default:gemm", "preset:torch:exp", "policy:2".
  std::string rule;
  std::string why;
};

/// A rule of a user's policy file; it holds where all its conditions do.
struct PolicyRule {
  /// An ONNX or mpc op name; empty: any op.
  std::string op;
  /// A regular expression searched in node names; empty: any node.
  std::string node;
  /// "fp16" or "bf16"; empty: either.
  std::string type;
  amp::PrecisionClass precisionClass;
  std::optional<bool> poison;
  std::string why;
};

/// The policy for one low type.
class PrecisionPolicy {
public:
  /// The default table for `low`, f16 or bf16.
  explicit PrecisionPolicy(mlir::FloatType low);

  /// Reads a policy file (JSON; PolicyFile.cpp documents it) or takes a preset
  /// by its name, and lays it over the default table. Unknown keys, op names,
  /// classes and malformed expressions are errors that say where.
  llvm::Error load(llvm::StringRef fileOrPreset);

  /// Names `load` takes that are not files.
  static llvm::ArrayRef<llvm::StringLiteral> getPresets();

  /// The entry of an op that stands for these nodes. The last rule that matches
  /// wins; ops in no table get none. Counts which rules matched.
  std::optional<PolicyEntry>
  lookup(llvm::StringRef key, llvm::ArrayRef<llvm::StringRef> nodeNames = {});

  /// Rules that have matched no node so far, as the file numbers them.
  std::vector<std::string> getUnmatchedRules() const;

  mlir::FloatType getLowType() const { return low; }

  /// Where the policy came from, for summaries: "default", "torch", a path.
  llvm::StringRef getName() const { return name; }

private:
  struct ActiveRule {
    PolicyRule rule;
    std::optional<llvm::Regex> node;
    std::string label;
    bool matched = false;
  };

  llvm::Error addRule(PolicyRule rule, std::string label);
  llvm::Error applyPreset(llvm::StringRef preset);
  llvm::Error parseFile(llvm::StringRef path);

  mlir::FloatType low;
  std::string name = "default";
  llvm::StringMap<PolicyEntry> table;
  std::vector<ActiveRule> rules;
};

/// The mpc key of an ONNX or mpc op name; empty where no row has it. Several
/// rows never share a name.
llvm::StringRef resolvePolicyKey(llvm::StringRef name);

/// Whether an operand or result of the op `key` stays fp32 whatever its class:
/// no rule changes that.
bool policyKeepsOperandFP32(llvm::StringRef key, unsigned index);
bool policyKeepsResultFP32(llvm::StringRef key, unsigned index);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_PRECISIONPOLICY_H
