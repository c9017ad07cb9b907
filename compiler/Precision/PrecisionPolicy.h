// Precision policy: which list each op stands on. Policy is data: a default
// table, presets that reproduce other systems' lists, and the user's rules.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_PRECISIONPOLICY_H
#define MPC_COMPILER_PRECISION_PRECISIONPOLICY_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Precision/PolicyTable.h"
#include "compiler/Support/NamePattern.h"

#include "llvm/ADT/StringMap.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// One row of the table, as it holds for one low type.
struct PolicyEntry {
  PrecisionClass precisionClass;
  bool unbounded = false;
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
  PrecisionClass precisionClass;
  std::optional<bool> unbounded;
  std::string why;
};

/// The policy for one low type.
class PrecisionPolicy {
public:
  /// The default table for `low`, f16 or bf16.
  explicit PrecisionPolicy(mlir::FloatType low);

  /// Reads a policy file (JSON; docs/precision.md documents it) or takes a
  /// preset by its name, and lays it over the default table. Unknown keys, op
  /// names, classes and malformed expressions are errors that say where.
  llvm::Error load(llvm::StringRef fileOrPreset);

  /// Names `load` takes that are not files.
  static llvm::ArrayRef<llvm::StringLiteral> getPresets();

  /// The entry of an op that stands for these nodes. The last rule that matches
  /// wins; ops in no table get none. Counts which rules matched.
  std::optional<PolicyEntry>
  lookup(llvm::StringRef key, llvm::ArrayRef<llvm::StringRef> nodeNames = {});

  /// The row of an op, before any rule; null where no table has the op.
  const PolicyEntry *findRow(llvm::StringRef key) const;

  /// The user's rules, in the order of the file.
  std::vector<const PolicyRule *> getRules() const;

  /// Rules that have matched no node so far, each with its place in the file.
  std::vector<std::pair<std::string, const PolicyRule *>>
  getUnmatchedRules() const;

  mlir::FloatType getLowType() const { return low; }

  /// Where the policy came from, for summaries: "default", "torch", a path.
  llvm::StringRef getName() const { return name; }

private:
  struct ActiveRule {
    PolicyRule rule;
    std::optional<NamePattern> node;
    std::string label;
    bool matched = false;
  };

  /// The row of an op and of its gradients.
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

/// The part of an op's row that all policies share, as JSON: its names, the op
/// whose class it follows, the type it accumulates in, and the operands and
/// results that stay fp32.
llvm::json::Object describePolicyRow(llvm::StringRef op);

/// Writes what the two policies of one file or preset say, as JSON that `load`
/// reads: the same decisions follow from it.
void printPolicy(llvm::raw_ostream &os, const PrecisionPolicy &fp16,
                 const PrecisionPolicy &bf16);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_PRECISIONPOLICY_H
