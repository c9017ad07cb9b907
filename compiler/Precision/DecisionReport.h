// Views of the decision records of a module: what `mpc explain` prints and the
// line `mpc train` says before it starts. All read the `amp.decision`
// attributes and nothing else, so that no view can disagree with the IR.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_DECISIONREPORT_H
#define MPC_COMPILER_PRECISION_DECISIONREPORT_H

#include "compiler/Dialect/AMP/AMP.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// An op with a record.
struct Decision {
  mlir::Operation *op;
  amp::DecisionAttr record;
  /// The node's name, `conv1#dx` in the backward pass; `conv1~2` for the second
  /// op of that name. No other op of the report has it.
  std::string id;

  /// The name of the model's node; empty where the op comes from none.
  llvm::StringRef getNode() const;
};

/// The decisions of a module that has been through the Precision stage. Shows
/// the functions that train (@step, or @accumulate and @update), or what there
/// is instead. Holds pointers into the module.
class DecisionReport {
public:
  explicit DecisionReport(mlir::ModuleOp module);

  /// From here on shows the ops of these nodes alone: `conv1` stands for its
  /// backward ops too, `conv1#dx` for that one. Where a name is no node's,
  /// changes nothing and returns it.
  std::optional<std::string> select(llvm::ArrayRef<std::string> nodes);

  /// Names of nodes that are nearly `node`, at most three.
  std::vector<std::string> suggest(llvm::StringRef node) const;

  /// One line without a line end, about all ops, selected or not: "bf16-mixed:
  /// 21 of 40 ops low (12 of 12 contractions), 9 casts, loss scale none".
  llvm::StringRef getSummary() const { return summary; }

  /// 16 hexadecimal digits over the types that every op of every function has:
  /// the same decisions, the same digits, on any target.
  std::string getDigest() const;

  /// Counts per op: how many there are and are low, which are the summary's,
  /// and by the type they compute and store in; and a total.
  void printCounts(llvm::raw_ostream &os) const;

  /// One row per op: id, op, types, class, reason. Lines are at most `width`
  /// long, where shortening names allows that; 0: as long as need be. Whether
  /// any name was shortened.
  bool printTable(llvm::raw_ostream &os, unsigned width = 0) const;

  /// The chain of reasons for every op.
  void printReasons(llvm::raw_ostream &os) const;

  /// One JSON object per op and line.
  void printJSONL(llvm::raw_ostream &os) const;

  /// The graph of ops and of what they read, for Graphviz. Of selected ops also
  /// shows what they read and who reads them.
  void printDot(llvm::raw_ostream &os) const;

  /// One HTML page that needs nothing but itself.
  void printPage(llvm::raw_ostream &os, llvm::StringRef title) const;

private:
  std::string summarize() const;

  mlir::ModuleOp module;
  std::vector<mlir::FunctionOpInterface> functions;
  std::vector<Decision> decisions;
  unsigned numCasts = 0;
  std::string summary;
};

/// The record of one op in words, on one line: what remarks say.
std::string describeDecision(amp::DecisionAttr decision);

/// A line of the chain of reasons: {"to flip", "--keep-fp32=^bn1$"}.
struct DecisionFact {
  llvm::StringLiteral about;
  std::string text;
};

/// The chain of reasons of one op: types, class, reason, evidence, casts, cost
/// and the flag that flips it.
std::vector<DecisionFact> explainDecision(amp::DecisionAttr decision);

/// The sentence of a reason code.
llvm::StringRef describeReason(amp::Reason reason);

/// bf16, as MLIR spells it.
std::string toString(mlir::Type type);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_DECISIONREPORT_H
