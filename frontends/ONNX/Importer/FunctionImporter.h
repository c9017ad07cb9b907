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

/// The rows of a value that a mask of the data selects. In the function the
/// value keeps all rows. Each unselected row is a copy of the first selected
/// row. So no row causes an exception (NaN, bad index) that the model would
/// not.
struct SelectedRows {
  std::shared_ptr<const Selection> selection;
  /// The axis of the rows.
  int64_t axis;
  /// For positions that NonZero found: the axis of the mask that each column
  /// indexes. nullopt for other values.
  std::optional<llvm::SmallVector<int64_t>> places;
};

/// Everything known about an ONNX value while its function is built.
struct ImportedValue {
  /// The value in the function; null until an op reads it.
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
  /// True if the node could not be imported. Nodes that read the value are
  /// skipped.
  bool failed = false;
  /// The only op type that may read the value, because its form is mpc's own:
  /// saved values of the forward pass. Empty if any op may.
  llvm::StringRef reservedFor;
  /// A value in mpc's own form that the node saved for its gradient op in the
  /// model: the indices of a max_pool.
  mlir::Value saved;
  /// The tensors of a sequence, each with a value or known elements. Sequences
  /// exist at import only: the tensor that a node takes must be known.
  std::optional<std::vector<ImportedValue>> sequence;
  /// Set if a mask selects the value's rows. Only ops that handle selected rows
  /// read such values (SelectedNode.h).
  std::optional<SelectedRows> selected;
  /// Set for a shape, or a part of a shape, that holds a count of selected
  /// rows.
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
  /// Imports the graph in an attribute of a node of `parent` inline: its ops
  /// are inserted where the node's would be.
  FunctionImporter(FunctionImporter &parent, const Graph &graph);
  /// Imports the graph in an attribute into `body`, a separate block. Each
  /// value of `parent` that the ops read becomes an argument.
  FunctionImporter(FunctionImporter &parent, const Graph &graph,
                   mlir::Block *body);

  ModuleImporter &getModule() { return module; }
  const Graph &getGraph() const { return graph; }
  const Model &getModel() const { return graph.getModel(); }
  mlir::OpBuilder &getBuilder() { return builder; }

  /// True if the graph is in an attribute of a node. Its names are not names of
  /// the model: another body may use the same names.
  bool isBody() const { return parent; }
  /// True if the ops may run more than once in a step.
  bool isLoop() const {
    bool repeats = !inlined && !isConditional;
    return parent && (repeats || parent->isLoop());
  }
  /// True if the ops run exactly once in each step.
  bool runsOnce() const { return !parent || (inlined && parent->runsOnce()); }
  /// The first layer that reads the running statistic `name` (findLayer); empty
  /// if unknown.
  llvm::StringRef getLayerOfStatistic(llvm::StringRef name) const {
    return statistics.lookup(name);
  }
  /// True if `name` is defined here or in a graph around this one.
  bool knows(llvm::StringRef name) const {
    return graph.defines(name) || (parent && parent->knows(name));
  }
  /// The values of the parent that the block's arguments stand for, in the
  /// order of the arguments. The caller's arguments come first, then those for
  /// values that ops read. Null if an argument stands for no value.
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
  /// Binds `name` to the value of `otherName` in `other`, an importer of the
  /// same function.
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

  /// Returns the value of `name` for an op of type `reader`. Reports an error
  /// and returns null if the op cannot read it.
  mlir::Value materialize(llvm::StringRef name, llvm::StringRef reader);
  /// Returns all that is known about `name`. Decodes an initializer at its
  /// first use.
  ImportedValue &lookup(llvm::StringRef name);

  /// Gives the input behind `value` the role label; does nothing for other
  /// values.
  void markLabel(mlir::Value value);
  /// Ensures that the indices in `box` of `value` are in range when the model
  /// runs. Indices that only moved on their way from an input are checked at
  /// the input, by `mpc.indices`. Computed indices get an `mpc.check_indices`,
  /// unless their ops cannot leave the range (ids mod 10 always name one of 10
  /// rows). `location` is the node that reads the indices.
  void markIndices(mlir::Location location, mlir::Value value,
                   const IndexBox &box);
  /// Records a range of `value` that its ops do not show.
  void noteRange(mlir::Value value, IntegerRange range);
  /// The id of the dropout whose mask (or output, if it has no mask) is `name`.
  /// Creates the id at first use.
  int64_t getRandomId(llvm::StringRef name);
  /// The id of an existing dropout; nullopt if `name` has none.
  std::optional<int64_t> findRandomId(llvm::StringRef name) const;

  /// True if `name` only configures an op and is no data (see `settings`).
  bool isSetting(llvm::StringRef name) const { return settings.contains(name); }

  /// The phase of each node: loss or backward. Forward nodes are absent.
  llvm::DenseMap<const proto::NodeProto *, Phase> phases;
  /// The phase of nodes that are not in `phases`.
  std::optional<Phase> defaultPhase;
  /// A suffix for node names in a branch ("#y") or an iteration ("y#2"),
  /// because every iteration repeats the names of the nodes.
  std::string scope;
  /// For the importer of a body: true for a branch, false for a loop.
  bool isConditional = false;
  /// True while importing a node that handles selected rows.
  bool readsSelected = false;
  /// The selections that nodes of the block have made.
  std::vector<std::shared_ptr<const Selection>> &getSelections() {
    return inlined ? parent->getSelections() : selections;
  }
  /// The parent's value that an argument of the body stands for; null for any
  /// other value.
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
  /// The importer of the node whose attribute holds the graph; null for a
  /// function.
  FunctionImporter *parent = nullptr;
  bool inlined = false;
  llvm::SmallVector<mlir::Value> outerValues;
  std::vector<std::shared_ptr<const Selection>> selections;
  /// The parent's selections, mapped to their copies in the body.
  llvm::DenseMap<const Selection *, std::shared_ptr<const Selection>> captured;
  mlir::OpBuilder builder;
  /// The ports of the function; nullopt for a graph in an attribute.
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
  /// first layer that reads it (findLayer).
  llvm::StringMap<llvm::StringRef> statistics;
  /// The values from which inputs 1 to 3 of Resize (roi, scales, sizes) are
  /// computed.
  llvm::StringSet<> settings;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_FUNCTIONIMPORTER_H
