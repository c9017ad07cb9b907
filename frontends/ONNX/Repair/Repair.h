// The second stage of the frontend. Exporters lose parts of a program; a repair
// restores one kind of lost part, or warns that it is lost.
//
//   Read (parse, check) -> Repair -> Import -> Recognise
//
// A repair edits a checked graph, and the graph is checked again after the
// repair. Repairs.def lists all repairs in their order. "The program" is the
// model before the export, like a PyTorch module.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_REPAIR_H
#define MPC_FRONTENDS_ONNX_REPAIR_REPAIR_H

#include "compiler/Dialect/MPC/MPC.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// The model that a repair rewrites, and the log of its changes.
class RepairContext {
public:
  RepairContext(Model &model, llvm::StringRef repair)
      : model(model), repair(repair) {}

  Model &getModel() const { return model; }
  proto::GraphProto &getGraph() const {
    return *model.getProto().mutable_graph();
  }
  /// Returns the names of all values of the file, in graphs, bodies and
  /// functions. A new name must differ from all of them.
  llvm::StringSet<> findNames() const;

  /// Logs a repaired defect that matters only for training. Does nothing if
  /// `message` is empty.
  void note(std::string message);
  /// Logs a repaired defect that matters for every use of the file.
  void warn(std::string message);
  /// Logs a defect that the repair could not undo.
  void warnOfLoss(std::string message);

private:
  Model &model;
  llvm::StringRef repair;
};

/// The importer's knowledge of a value. MPC_LOSS repairs read it.
struct ValueFacts {
  /// The role of the variable that holds the value; nullopt if none does.
  std::optional<Role> stateRole;
  /// The elements; null if they are unknown at import.
  const HostTensor *constant = nullptr;
  /// The state that an Identity renamed to this value; empty if none.
  llvm::StringRef aliasOf;
};
using FindFacts = llvm::function_ref<ValueFacts(llvm::StringRef value)>;

/// An imported graph. MPC_LOSS repairs warn of what its file has lost.
struct LossContext {
  const Graph &graph;
  /// The nodes that the graph's outputs depend on.
  llvm::ArrayRef<const proto::NodeProto *> nodes;
  /// False if the import only evaluates the model.
  bool isTraining;
  /// Returns the facts about a value. Null if the import failed.
  FindFacts findFacts;

  const Model &getModel() const { return graph.getModel(); }
};

/// The time at which a row of Repairs.def acts.
enum class RepairTime {
  BeforeCheck, ///< MPC_UNCHECKED_REPAIR: mends what the check would refuse
  AfterCheck,  ///< MPC_REPAIR: edits a checked graph
  AfterImport, ///< MPC_LOSS: warns
};

/// A row of Repairs.def. `warn` is set for an MPC_LOSS, `rewrite` for all other
/// rows, and the other is null. The texts are Markdown.
struct RepairInfo {
  llvm::StringLiteral name, exporter, defect, repaired, remedy;
  RepairTime time;
  llvm::Error (*rewrite)(RepairContext &);
  void (*warn)(const LossContext &);
};
llvm::ArrayRef<RepairInfo> getRepairs();

#define MPC_REPAIR(FUNCTION, ...) llvm::Error FUNCTION(RepairContext &context);
#define MPC_UNCHECKED_REPAIR MPC_REPAIR
#define MPC_LOSS(FUNCTION, ...) void FUNCTION(const LossContext &context);
#include "frontends/ONNX/Repair/Repairs.def"

/// Checks and repairs the file. Runs `repairs` in order, except those that the
/// model skips (Model::skipRepairs). Each repair logs the changes in the model.
/// Fails, before any repair of RepairTime::AfterCheck, if the file is invalid.
/// Fails with ErrorKind::Internal if a repair leaves an invalid graph. Runs no
/// repair on a file with sparse initializers, which the import refuses.
llvm::Error repair(Model &model,
                   llvm::ArrayRef<RepairInfo> repairs = getRepairs());

/// Prints a Markdown table with a row per repair.
void printRepairs(llvm::raw_ostream &os);

/// Runs the warnings of Repairs.def (MPC_LOSS): each tells what the file has
/// lost and no repair can restore.
void warnOfLosses(const LossContext &context);

/// The name by which `--no-repair` skips all repairs.
inline constexpr llvm::StringLiteral kAllRepairs = "all";

/// Reads the file at `path` and repairs its graph. `skipped` names the repairs
/// to skip; "all" skips all.
llvm::Expected<std::shared_ptr<Model>>
readRepaired(llvm::StringRef path, mlir::MLIRContext *context,
             llvm::ArrayRef<std::string> skipped);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_REPAIR_H
