// Views of the decision records of a module: what `mpc explain` prints and the
// line `mpc train` says before it starts. All read the `amp.decision`
// attributes and nothing else, so that no view can disagree with the IR.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_DECISIONREPORT_H
#define MPC_COMPILER_PRECISION_DECISIONREPORT_H

#include "compiler/Dialect/AMP/AMP.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>
#include <vector>

namespace mpc {

/// The decisions of a module that has been through the Precision stage. Shows
/// the functions that train (@step, or @accumulate and @update), or what there
/// is instead. Holds pointers into the module.
class DecisionReport {
public:
  explicit DecisionReport(mlir::ModuleOp module);

  /// One line without a line end: "bf16-mixed: 21 of 40 ops low (12 of 12
  /// contractions), 9 casts, loss scale none".
  std::string getSummary() const;

  /// 16 hexadecimal digits over the types that every op of every function has:
  /// the same decisions, the same digits, on any target.
  std::string getDigest() const;

  /// Counts per op and storage type, and a total.
  void printCounts(llvm::raw_ostream &os) const;

  /// One row per op: id, op, types, class, reason.
  void printNodes(llvm::raw_ostream &os) const;

  /// One JSON object per op and line.
  void printJSONL(llvm::raw_ostream &os) const;

  /// The chain of reasons for every op of a node: `conv1` alone stands for its
  /// backward ops too, `conv1#dx` for that one. False where there is none.
  bool explainNode(llvm::StringRef node, llvm::raw_ostream &os) const;

  /// Ops with a record, in program order.
  unsigned getNumDecisions() const { return ops.size(); }

  /// How many casts the decisions cost.
  unsigned getNumCasts() const { return numCasts; }

private:
  mlir::ModuleOp module;
  std::vector<mlir::Operation *> ops;
  unsigned numCasts = 0;
};

/// The record of one op in words, on one line: what remarks say.
std::string describeDecision(amp::DecisionAttr decision);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_DECISIONREPORT_H
