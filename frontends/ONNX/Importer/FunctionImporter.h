// Imports one function from the nodes of a graph: its arguments, its results,
// and all facts known about the graph's values.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_FUNCTIONIMPORTER_H
#define MPC_FRONTENDS_ONNX_IMPORTER_FUNCTIONIMPORTER_H

#include "frontends/ONNX/Importer/IntegerRanges.h"
#include "frontends/ONNX/Importer/ModuleImporter.h"

#include "compiler/Dialect/MPC/Facts/IndexBoxes.h"
#include "compiler/Dialect/MPC/FunctionPorts.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mpc::onnx_frontend {

struct Selection;
struct CountedIntegers;

/// Describes a value whose rows a mask selects, where the mask is computed from
/// data. The number of selected rows is unknown at import, so the value in the
/// function keeps all rows. Each unselected row is a copy of the first selected
/// row. So unselected rows cause no exception (NaN, bad index) that the model
/// would not cause.
struct SelectedRows {
  std::shared_ptr<const Selection> selection;
  /// The axis of the rows.
  int64_t axis;
  /// Set if the value holds positions that NonZero found in a mask. A position
  /// has one index per axis of the mask; entry i is the axis of the mask that
  /// index i belongs to, or kRowNumber or kNoPlace (Selection.h). nullopt for
  /// other values.
  std::optional<llvm::SmallVector<int64_t>> places;
};

/// Everything known about an ONNX value while its function is built.
struct ImportedValue {
  /// The value in the IR. Null for a constant or state that no op has read yet.
  mlir::Value value;
  /// The variable that the value is read from; null if the value is not state.
  VariableOp variable;
  /// The elements; nullopt if unknown at import.
  std::optional<HostTensor> constant;
  /// The role of the variable that holds the value: parameter, frozen. nullopt
  /// if the value is not state.
  std::optional<Role> stateRole;
  /// The ONNX name of the state that an Identity renamed to this value; empty
  /// if none.
  std::string aliasOf;
  /// The running statistic that an Identity renamed to this value; empty if
  /// none.
  std::string statisticOf;
  /// True if the node that computes the value could not be imported. Nodes that
  /// read the value are skipped.
  bool failed = false;
  /// The only op type that may read the value. Set for values whose contents
  /// differ from those that ONNX defines, such as values that a forward node
  /// saves for its gradient node. Empty if any op may read the value.
  llvm::StringRef reservedFor;
  /// A second result that the builder of a forward node left for the builder of
  /// its gradient node, such as the indices of a max_pool. Null if none.
  mlir::Value saved;
  /// The tensors of an ONNX sequence; nullopt if the value is no sequence.
  /// Sequences exist only at import, so the position that a node reads from a
  /// sequence must be known at import.
  std::optional<std::vector<ImportedValue>> sequence;
  /// Set if a mask selects the value's rows. Only ops that handle selected rows
  /// may read the value (Ops/Tensor/SelectedNode.h).
  std::optional<SelectedRows> selected;
  /// Set if the value is a shape, or part of a shape, with a count of selected
  /// rows in it (CountedIntegers.h). Null otherwise.
  std::shared_ptr<const CountedIntegers> counted;
};

/// The only op that may read the integers of a QuantizeLinear in training. The
/// two ops together are a fake quantisation, which has a gradient.
inline constexpr llvm::StringLiteral kDequantizeLinear = "DequantizeLinear";

/// Builds one function from the nodes of a graph.
class FunctionImporter {
public:
  FunctionImporter(ModuleImporter &module, const Graph &graph,
                   llvm::StringRef name);
  /// Imports `graph`, a body in an attribute of a node, inline: its ops go into
  /// the parent's block, in place of the node.
  FunctionImporter(FunctionImporter &parent, const Graph &graph);
  /// Imports `graph`, a body in an attribute of a node, into the separate block
  /// `body`. Each value of `parent` that the ops read becomes an argument of
  /// the block.
  FunctionImporter(FunctionImporter &parent, const Graph &graph,
                   mlir::Block *body);

  ModuleImporter &getModule() { return module; }
  const Graph &getGraph() const { return graph; }
  const Model &getModel() const { return graph.getModel(); }
  mlir::OpBuilder &getBuilder() { return builder; }

  /// True if the graph is the body of a node. Names in a body are not names of
  /// the model: another body may use the same names.
  bool isBody() const { return parent; }
  /// True if the ops may run more than once in a step.
  bool isLoop() const {
    bool repeats = !inlined && !isConditional;
    return parent && (repeats || parent->isLoop());
  }
  /// True if the ops run exactly once in each step.
  bool runsOnce() const { return !parent || (inlined && parent->runsOnce()); }
  /// The layer, such as "features.1", of the first BatchNormalization that
  /// reads the running statistic `name` (findLayer); empty if unknown.
  llvm::StringRef getLayerOfStatistic(llvm::StringRef name) const {
    return statistics.lookup(name);
  }
  /// True if `name` is defined here or in a graph around this one.
  bool knows(llvm::StringRef name) const {
    return graph.defines(name) || (parent && parent->knows(name));
  }
  /// For each argument of the body's block, in order, the value of the parent
  /// that the argument stands for; null if none, as for a carried value.
  /// Arguments that the caller added come first, arguments for captured values
  /// follow.
  llvm::SmallVectorImpl<mlir::Value> &getOuterValues() { return outerValues; }

  /// Adds a function argument for a graph input.
  mlir::Value addInput(llvm::StringRef name, mlir::RankedTensorType type,
                       Role role);
  /// The function argument that holds the state `variable`.
  mlir::Value getState(VariableOp variable);
  void addOutput(llvm::StringRef name, mlir::Value value, Role role);
  /// The first output of role `role`, or null.
  mlir::Value getOutput(Role role) const;
  /// The batch size of all data inputs; nullopt if the inputs differ.
  std::optional<int64_t> getBatchSize() const;
  /// Makes `value` the new value of `variable`. Fails if `variable` already has
  /// an update.
  mlir::LogicalResult addUpdate(VariableOp variable, mlir::Value value);
  /// Removes the update of `variable`, if any.
  void removeUpdate(VariableOp variable);
  /// The pending new value of `variable`, or null.
  mlir::Value getUpdate(VariableOp variable) const;

  /// Binds `name` before any node is imported: to a value, to state (which
  /// becomes an argument at its first use), or to a constant.
  void bind(llvm::StringRef name, mlir::Value value);
  void bindState(llvm::StringRef name, VariableOp variable);
  void bindConstant(llvm::StringRef name, HostTensor constant);
  /// Binds `name` to the value that `otherName` has in `other`. Both importers
  /// must import into the same function.
  void bindAs(llvm::StringRef name, FunctionImporter &other,
              llvm::StringRef otherName) {
    values[name] = other.lookup(otherName);
  }
  /// For a body: binds `name` to the parent's value `outer`.
  void bindOuter(llvm::StringRef name, llvm::StringRef outer) {
    capture(outer, values[name]);
  }

  /// Imports `nodes` in order. Reports errors to the module.
  void importNodes(llvm::ArrayRef<const proto::NodeProto *> nodes);
  /// Returns one error that lists every op among `nodes` that mpc cannot
  /// import.
  llvm::Error reportUnsupported(llvm::ArrayRef<const proto::NodeProto *> nodes);

  /// Returns the IR value of `name`, to be read by an op of type `reader`
  /// (empty for a result of the function). Creates a constant or an argument at
  /// the first read. Reports an error and returns null if the op cannot read
  /// the value.
  mlir::Value materialize(llvm::StringRef name, llvm::StringRef reader);
  /// Returns all that is known about `name`. Decodes an initializer at its
  /// first use.
  ImportedValue &lookup(llvm::StringRef name);

  /// If `value` is an argument for a graph input, gives the argument the role
  /// label. Does nothing for other values.
  void markLabel(mlir::Value value);
  /// Ensures that the indices in box `box` of `value` are in range when the
  /// model runs. If ops only move the indices from a graph input, the attribute
  /// `mpc.indices` makes the program check them at the input. Computed indices
  /// get an `mpc.check_indices`, unless they are always in range: `ids mod 10`
  /// is always one of 10 rows. `location` is the node that reads the indices.
  void markIndices(mlir::Location location, mlir::Value value,
                   const IndexBox &box);
  /// Records that the elements of `value` lie in `range`, where the ops that
  /// compute `value` do not show this. For example, the argmax of n elements is
  /// below n.
  void noteRange(mlir::Value value, IntegerRange range);
  /// The random id of the Dropout whose mask output is `name`, or whose first
  /// output if it has no mask. Creates the id at first use.
  int64_t getRandomId(llvm::StringRef name);
  /// Like getRandomId, but returns nullopt instead of a new id.
  std::optional<int64_t> findRandomId(llvm::StringRef name) const;

  /// True if `name` only configures a Resize, so it is no data (see
  /// `settings`).
  bool isSetting(llvm::StringRef name) const { return settings.contains(name); }

  /// The phase of each node: loss or backward. Forward nodes are absent.
  llvm::DenseMap<const proto::NodeProto *, Phase> phases;
  /// The phase of nodes that are not in `phases`.
  std::optional<Phase> defaultPhase;
  /// The suffix that makes random ids in a body unique: "#y" in a branch of the
  /// If with output y, "y#2" in iteration 2 of the Loop with output y. All
  /// iterations have nodes of the same names.
  std::string scope;
  /// For the importer of a body: true for a branch, false for a loop.
  bool isConditional = false;
  /// True while importing a node that handles selected rows.
  bool readsSelected = false;
  /// The selections of rows that nodes in the block have created (Selection.h).
  std::vector<std::shared_ptr<const Selection>> &getSelections() {
    return inlined ? parent->getSelections() : selections;
  }
  /// If `value` is an argument of the body's block, the value of the parent
  /// that the argument stands for. Null for any other value.
  mlir::Value getOuterValue(mlir::Value value) const;

  mlir::func::FuncOp finish();

private:
  friend class NodeImporter;

  void importNode(const proto::NodeProto &node);
  void capture(llvm::StringRef name, ImportedValue &entry);
  void captureSelected(const ImportedValue &outer, ImportedValue &entry);
  mlir::Value captureValue(mlir::Value value);
  void findSettings(const proto::NodeProto &node);
  llvm::StringSet<> findData(llvm::ArrayRef<const proto::NodeProto *> nodes);
  void demand(llvm::StringRef name);
  bool isInRange(mlir::Value value, const IndexBox &box) const;
  void markArgument(mlir::Location location, mlir::Value value,
                    const IndexBox &box);
  void addCheck(mlir::Location location, mlir::Value value,
                const IndexBox &box);

  ModuleImporter &module;
  const Graph &graph;
  /// The nodes that were reported as unsupported.
  llvm::DenseSet<const proto::NodeProto *> refused;
  /// The importer of the graph around this body; null for the importer of a
  /// function.
  FunctionImporter *parent = nullptr;
  bool inlined = false;
  llvm::SmallVector<mlir::Value> outerValues;
  std::vector<std::shared_ptr<const Selection>> selections;
  /// Selections of the parent, each mapped to the copy whose mask is an
  /// argument of the body.
  llvm::DenseMap<const Selection *, std::shared_ptr<const Selection>> captured;
  mlir::OpBuilder builder;
  /// The arguments and results of the function; nullopt for a body.
  std::optional<FunctionEditor> ports;
  mlir::Block *body;
  llvm::StringMap<mlir::Value> states;
  llvm::StringMap<ImportedValue> values;
  llvm::StringMap<int64_t> randomIds;
  KnownRanges ranges;
  /// For `demand`: the node that defines each value, and the values already
  /// visited.
  llvm::StringMap<const proto::NodeProto *> producers;
  llvm::StringSet<> asked;
  /// The running statistics that BatchNormalization reads, each mapped to the
  /// layer of the first BatchNormalization that reads it (findLayer).
  llvm::StringMap<llvm::StringRef> statistics;
  /// The values from which inputs 1 to 3 of Resize (roi, scales, sizes) are
  /// computed.
  llvm::StringSet<> settings;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_FUNCTIONIMPORTER_H
