// The second stage of the frontend: exporters lose parts of a program, and a
// repair brings one kind of loss back.
//
//   Read (parse, check) -> Repair -> Import -> Recognise
//
// Repairs.def lists all repairs in their order.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_REPAIR_REPAIR_H
#define MPC_FRONTENDS_ONNX_REPAIR_REPAIR_H

#include "compiler/Dialect/MPC/MPC.h"
#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/Model.h"

namespace mpc::onnx_frontend {

/// The model that a repair rewrites, and the log of changes.
class RepairContext {
public:
  RepairContext(Model &model, llvm::StringRef repair)
      : model(model), repair(repair) {}

  Model &getModel() const { return model; }
  proto::GraphProto &getGraph() const {
    return *model.getProto().mutable_graph();
  }
  /// Returns the names of all values of the file: of graphs, bodies and
  /// functions. A new name must differ from all.
  llvm::StringSet<> findNames() const;

  /// Logs changes for training that bring the program back. An
  /// empty message logs nothing.
  void note(std::string message);
  /// Logs the change of a defect that every use of the file has.
  void warn(std::string message);
  /// Logs a defect that stays.
  void warnOfLoss(std::string message);

private:
  Model &model;
  llvm::StringRef repair;
};

/// The importer's knowledge of a value.
struct ValueFacts {
  /// The role of the variable that holds the value; nullopt if none does.
  std::optional<Role> stateRole;
  /// The elements; null if they are unknown at import.
  const HostTensor *constant = nullptr;
  /// The state that an Identity renamed to this value; empty if none.
  llvm::StringRef aliasOf;
};
using FindFacts = llvm::function_ref<ValueFacts(llvm::StringRef value)>;

/// An imported graph, whose losses are searched.
struct LossContext {
  const Graph &graph;
  /// The nodes that the outputs depend on.
  llvm::ArrayRef<const proto::NodeProto *> nodes;
  /// False if the import only evaluates the model.
  bool isTraining;
  /// Null if the import failed.
  FindFacts findFacts;

  const Model &getModel() const { return graph.getModel(); }
};

/// A row of Repairs.def. Exactly one of `rewrite` and `warn` is set. The texts
/// are Markdown.
struct RepairInfo {
  llvm::StringLiteral name, exporter, defect, repaired, remedy;
  llvm::Error (*rewrite)(RepairContext &);
  void (*warn)(const LossContext &);
};
llvm::ArrayRef<RepairInfo> getRepairs();

#define MPC_REPAIR(FUNCTION, ...) llvm::Error FUNCTION(RepairContext &context);
#define MPC_LOSS(FUNCTION, ...) void FUNCTION(const LossContext &context);
#include "frontends/ONNX/Repair/Repairs.def"

/// Applies the repairs of Repairs.def in order, except the names that the model
/// skips. The model's log tells what each repair did. Fails if the file
/// is contradictory: two initializers share a name and
/// have different values.
llvm::Error repair(Model &model);

/// Prints a row per repair as a Markdown table.
void printRepairs(llvm::raw_ostream &os);

/// Warns of what the file has lost for good.
void warnOfLosses(const LossContext &context);

/// The name that stands for all repairs.
inline constexpr llvm::StringLiteral kAllRepairs = "all";

/// Reads the file at `path` and repairs its graph. `skipped` names repairs to
/// leave out.
llvm::Expected<std::shared_ptr<Model>>
readRepaired(llvm::StringRef path, mlir::MLIRContext *context,
             llvm::ArrayRef<std::string> skipped);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_REPAIR_REPAIR_H
