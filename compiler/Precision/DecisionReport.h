// Views of the decision records of a module: the output of `mpc explain` and
// the line that `mpc train` prints first. All views read the `amp.decision`
// attributes, and count casts and costs in the IR, so none can disagree with
// the IR. Casts are counted in kernels, after the Fusion stage.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_COMPILER_PRECISION_DECISIONREPORT_H
#define MPC_COMPILER_PRECISION_DECISIONREPORT_H

#include "compiler/Dialect/AMP/AMP.h"
#include "compiler/Precision/KernelCasts.h"
#include "compiler/Precision/PrecisionCost.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

#include <optional>
#include <string>
#include <vector>

namespace mpc {

/// An op with a decision record.
struct Decision {
  mlir::Operation *op;
  amp::DecisionAttr record;
  /// The node's name: `conv1`, or `conv1#dx` in the backward pass. If several
  /// ops have the name: `conv1~1`, `conv1~2`. Unique within the report.
  std::string id;
  /// The casts in kernels. nullopt if no kernels were counted.
  std::optional<CastCounts> casts;
  /// nullopt if the report shows no costs.
  std::optional<PrecisionCost> cost;
  /// True if the target has a fast kernel for the type that the op computes in.
  bool isFast;

  /// The name of the model's node; empty if the op comes from no node.
  llvm::StringRef getNode() const;

  /// The ids of the other ops that get other types if the user applies the flip
  /// of this op. nullopt if amp-assign-precision did not list them.
  std::optional<llvm::SmallVector<llvm::StringRef>> getFollowers() const;
};

/// A line about all decisions of a module, in two parts. The number of casts
/// goes between the parts, and is known only after the Fusion stage.
class DecisionSummary {
public:
  DecisionSummary() = default;
  /// Reads the mode and the loss scale of `module`, after the Precision stage.
  DecisionSummary(mlir::ModuleOp module, llvm::ArrayRef<Decision> decisions);

  /// Returns the line without a line end: "bf16-mixed: 21 of 40 ops low (12 of
  /// 12 contractions), 9 casts (7 of weights, 2 free), loss scale none". Leaves
  /// out the casts if `casts` is nullopt.
  std::string print(const std::optional<CastCounts> &casts) const;

private:
  std::string ops, rest;
};

/// The decisions of a module after the Precision stage. Shows the functions
/// that train (@step, or @accumulate and @update), or else, in this order,
/// forward pass, evaluation, or all functions. Holds pointers into the module.
class DecisionReport {
public:
  /// Shows the estimated time of each op if `showsCosts`.
  explicit DecisionReport(mlir::ModuleOp module, bool showsCosts = false);

  /// Adds the casts of the kernels that the Fusion stage forms of the module,
  /// with ops named by nameOpsByIds. Casts of an unknown name, which no pass
  /// leaves, count for the first op, so that the ops sum to the total. Call
  /// before select.
  void addCasts(const KernelCasts &kernels);

  /// Returns the decisions of the shown functions, in the order of their ops.
  llvm::ArrayRef<Decision> getDecisions() const { return decisions; }

  /// Restricts the report to the ops of these nodes. `conv1` includes the
  /// backward ops; `conv1#dx` is a single op. Returns the first unknown name
  /// and changes nothing; nullopt on success.
  std::optional<std::string> select(llvm::ArrayRef<std::string> nodes);

  /// Returns at most three node names that resemble `node`.
  std::vector<std::string> suggest(llvm::StringRef node) const;

  /// Returns lines about all ops, selected or not. The first is the text of
  /// DecisionSummary. After addCasts, the second tells what kernels store:
  /// "each step stores f32 1,024 bytes, bf16 512 bytes; casts move 768 bytes".
  std::vector<std::string> getSummary() const;

  /// Returns a hash of 16 hexadecimal digits over the types of all ops of all
  /// Returns a hash of 16 hexadecimal digits over the types of all ops of all
  /// functions, except for reductions over ranks. Equal decisions give equal
  /// digits on any target and any number of ranks.
  std::string getDigest() const;

  /// Prints counts per kind of op: all ops, low ops, and ops by compute and by
  /// storage type. The last row is the total.
  void printCounts(llvm::raw_ostream &os) const;

  /// Prints one row per op: id, op, phase, types, class, reason. Shortens names
  /// to keep lines within `width`, if possible; 0 means unlimited. Returns true
  /// if any name was shortened.
  bool printTable(llvm::raw_ostream &os, unsigned width = 0) const;

  /// Prints the chain of reasons of every op (see explainDecision), a fact per
  /// line.
  void printReasons(llvm::raw_ostream &os) const;

  /// Prints one JSON object per op, each on a line.
  void printJSONL(llvm::raw_ostream &os) const;

  /// Prints the graph of ops and their operands for Graphviz. Selected ops
  /// appear with their producers and users.
  void printDot(llvm::raw_ostream &os) const;

  /// Prints one self-contained HTML page.
  void printPage(llvm::raw_ostream &os, llvm::StringRef title) const;

private:
  mlir::ModuleOp module;
  std::vector<mlir::FunctionOpInterface> functions;
  std::vector<Decision> decisions;
  DecisionSummary summary;
  std::optional<CastCounts> casts;
};

/// Returns the functions that a report shows: @step, or else @accumulate and
/// @update, @forward, @eval, or all functions, in this order of preference.
std::vector<mlir::FunctionOpInterface> getShownFunctions(mlir::ModuleOp module);

/// True if `target` has a fast kernel for the type that `op` computes in, by
/// the decision `record`.
bool hasFastKernel(PrecisionOpInterface op, amp::DecisionAttr record,
                   const TargetInfo &target);

/// Describes a record in one line, for remarks. `isFast` is the answer of
/// hasFastKernel.
std::string describeDecision(amp::DecisionAttr decision, bool isFast);

/// One line of the chain of reasons: {"to flip", "--keep-fp32=^bn1$"}.
struct DecisionFact {
  llvm::StringLiteral about;
  std::string text;
};

/// Returns the chain of reasons of an op: types, class, reason, evidence,
/// casts, cost, the flag that flips the decision, and the ops that follow.
std::vector<DecisionFact> explainDecision(const Decision &decision);

/// Returns the sentence for a reason code.
llvm::StringRef describeReason(amp::Reason reason);

/// Returns the type as MLIR prints types: "bf16".
std::string toString(mlir::Type type);

} // namespace mpc

#endif // MPC_COMPILER_PRECISION_DECISIONREPORT_H
