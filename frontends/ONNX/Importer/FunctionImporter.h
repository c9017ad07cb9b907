// One function that an import builds: arguments, results, and what is known of
// the values of its graph.
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

/// A value of which a mask of the data selects rows. In the function it has all
/// rows: those that are not selected are copies of the first that is, so that
/// what is computed of each row has no other exceptions than in the model.
struct SelectedRows {
  std::shared_ptr<const Selection> selection;
  /// The axis that the rows lie along.
  int64_t axis;
  /// For places that NonZero found: the axes of the mask that they are on, in
  /// the order of the columns. Nothing for other values.
  std::optional<llvm::SmallVector<int64_t>> places;
};

/// What is known of an ONNX value while a function is built.
struct ImportedValue {
  /// The value in the function, once something uses it.
  mlir::Value value;
  /// The state variable that the value is read from, if it is state.
  VariableOp variable;
  /// Its elements, where they are known at import.
  std::optional<HostTensor> constant;
  /// The role of the variable that holds it, for state: parameter, frozen.
  std::optional<Role> stateRole;
  /// The ONNX name of the state that an Identity renamed to this value.
  std::string aliasOf;
  /// The running statistic that it is an Identity of; empty where it is none.
  std::string statisticOf;
  /// Its node could not be imported; nodes that read it are passed over.
  bool failed = false;
  /// The only op that may read it, where its form is mpc's and not ONNX's:
  /// saved values of the forward pass.
  llvm::StringRef reservedFor;
  /// What its node saved beside it, in mpc's own form, for an op of the
  /// backward pass that the model spells out: the indices of a max_pool.
  mlir::Value saved;
  /// The tensors of a sequence, each with a value or known elements. Sequences
  /// are there at import alone: which tensor a node takes must be known.
  std::optional<std::vector<ImportedValue>> sequence;
  /// Only ops that know about them read such values (SelectedNode.h).
  std::optional<SelectedRows> selected;
  /// For a shape, or a part of it, that holds a number of selected rows.
  std::shared_ptr<const CountedIntegers> counted;
};

/// What alone may read the integers that a QuantizeLinear makes in training:
/// the two are a fake quantisation, which has a gradient.
inline constexpr llvm::StringLiteral kDequantizeLinear = "DequantizeLinear";

/// Builds one function from the nodes of a graph.
class FunctionImporter {
public:
  FunctionImporter(ModuleImporter &module, const Graph &graph,
                   llvm::StringRef name);
  /// Imports the graph in an attribute of a node of `parent`, whose ops come
  /// where the node's do.
  FunctionImporter(FunctionImporter &parent, const Graph &graph);
  /// The same into `body`, a block of its own: what the ops read of `parent`
  /// becomes an argument.
  FunctionImporter(FunctionImporter &parent, const Graph &graph,
                   mlir::Block *body);

  ModuleImporter &getModule() { return module; }
  const Graph &getGraph() const { return graph; }
  const Model &getModel() const { return graph.getModel(); }
  mlir::OpBuilder &getBuilder() { return builder; }

  /// Whether the graph is in an attribute of a node. Its names are no names of
  /// the model: another body may have the same ones.
  bool isBody() const { return parent; }
  /// Whether the ops run more than once in a step.
  bool isLoop() const {
    bool repeats = !inlined && !isConditional;
    return parent && (repeats || parent->isLoop());
  }
  /// Whether the ops run once in each step.
  bool runsOnce() const { return !parent || (inlined && parent->runsOnce()); }
  /// The layer that reads a running statistic first (findLayer); empty where
  /// none is known.
  llvm::StringRef getLayerOfStatistic(llvm::StringRef name) const {
    return statistics.lookup(name);
  }
  /// Whether a node may read `name`.
  bool knows(llvm::StringRef name) const {
    return graph.defines(name) || (parent && parent->knows(name));
  }
  /// Values of the parent that arguments of the block stand for, in the order
  /// of these: those the caller added, then those that ops read.
  llvm::SmallVectorImpl<mlir::Value> &getOuterValues() { return outerValues; }

  /// Adds a function argument for a graph input.
  mlir::Value addInput(llvm::StringRef name, mlir::RankedTensorType type,
                       Role role);
  /// The function argument that is the state `variable`.
  mlir::Value getState(VariableOp variable);
  void addOutput(llvm::StringRef name, mlir::Value value, Role role);
  /// The first output of that role, or null.
  mlir::Value getOutput(Role role) const;
  /// The first dimension of all inputs of data; nothing where they differ.
  std::optional<int64_t> getBatchSize() const;
  /// `value` becomes the new value of `variable`; at most once per variable.
  mlir::LogicalResult addUpdate(VariableOp variable, mlir::Value value);
  /// Takes back its update, if there is one.
  void removeUpdate(VariableOp variable);
  /// The pending new value of a variable, or null.
  mlir::Value getUpdate(VariableOp variable) const;

  /// Gives `name` a meaning before any node is met: a value, or state, which
  /// becomes an argument where it is used.
  void bind(llvm::StringRef name, mlir::Value value);
  void bindState(llvm::StringRef name, VariableOp variable);
  void bindConstant(llvm::StringRef name, HostTensor constant);
  /// `name` is what `other`, in the same function, calls `otherName`.
  void bindAs(llvm::StringRef name, FunctionImporter &other,
              llvm::StringRef otherName) {
    values[name] = other.lookup(otherName);
  }
  /// Of a body: `name` is what the parent calls `outer`.
  void bindOuter(llvm::StringRef name, llvm::StringRef outer) {
    capture(outer, values[name]);
  }

  /// Imports nodes in order. Findings go to the module.
  void importNodes(llvm::ArrayRef<const proto::NodeProto *> nodes);
  /// One error that names every op among `nodes` that mpc does not have.
  llvm::Error reportUnsupported(llvm::ArrayRef<const proto::NodeProto *> nodes);

  /// The value of that name in the function, for an op of type `reader`; a
  /// finding and null where it has none.
  mlir::Value materialize(llvm::StringRef name, llvm::StringRef reader);
  /// What is known of a name; its initializer is decoded at first use.
  ImportedValue &lookup(llvm::StringRef name);

  /// Marks the input behind `value` as a class label, if it is one.
  void markLabel(mlir::Value value);
  /// Makes sure that the indices in `box` of `value` are in range when the
  /// model runs. Indices that only moved on their way from an input are checked
  /// at the input, by `mpc.indices`; computed ones get an `mpc.check_indices`,
  /// unless the ops that compute them cannot leave the range (ids mod 10 never
  /// does, of 10 rows). `location` is the node that reads the indices.
  void markIndices(mlir::Location location, mlir::Value value,
                   const IndexBox &box);
  /// Notes what a node gives for a reason that its ops do not show.
  void noteRange(mlir::Value value, IntegerRange range);
  /// The id of the dropout whose mask (or else output) has that name; fixed at
  /// import.
  int64_t getRandomId(llvm::StringRef name);
  /// The same for one that exists.
  std::optional<int64_t> findRandomId(llvm::StringRef name) const;

  /// Whether a value says what an op does, and is no data of its own.
  bool isSetting(llvm::StringRef name) const { return settings.contains(name); }

  /// Phases by node: loss, backward; absent: forward.
  llvm::DenseMap<const proto::NodeProto *, Phase> phases;
  /// The phase of nodes that are not in `phases`.
  std::optional<Phase> defaultPhase;
  /// A suffix for the names of nodes in a branch ("#y") or an iteration
  /// ("y#2"): every iteration has nodes of the same names.
  std::string scope;
  /// Of a function that imports a body: true for a branch, false for a loop's.
  bool isConditional = false;
  /// True while a node is imported that knows of selected rows.
  bool readsSelected = false;
  /// The selections that nodes of the block have made.
  std::vector<std::shared_ptr<const Selection>> &getSelections() {
    return inlined ? parent->getSelections() : selections;
  }
  /// The value of the parent that an argument of the body stands for; null for
  /// any other value.
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
  /// Nodes of ops that mpc does not have, once they were reported.
  llvm::DenseSet<const proto::NodeProto *> refused;
  /// Of the graph in an attribute: where the node is.
  FunctionImporter *parent = nullptr;
  bool inlined = false;
  llvm::SmallVector<mlir::Value> outerValues;
  std::vector<std::shared_ptr<const Selection>> selections;
  /// Selections of the parent, as the body has them.
  llvm::DenseMap<const Selection *, std::shared_ptr<const Selection>> captured;
  mlir::OpBuilder builder;
  /// Of a function; an attribute's graph has no ports of its own.
  std::optional<FunctionEditor> ports;
  mlir::Block *body;
  llvm::StringMap<mlir::Value> states;
  llvm::StringMap<ImportedValue> values;
  llvm::StringMap<int64_t> randomIds;
  KnownRanges ranges;
  /// Nodes by what they define, and the values that were asked for: `demand`.
  llvm::StringMap<const proto::NodeProto *> producers;
  llvm::StringSet<> asked;
  /// Names that BatchNormalization reads as running statistics, each with the
  /// layer that reads it first (findLayer).
  llvm::StringMap<llvm::StringRef> statistics;
  /// The values from which inputs 1 to 3 of Resize (roi, scales, sizes) are
  /// computed.
  llvm::StringSet<> settings;
};

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_FUNCTIONIMPORTER_H
