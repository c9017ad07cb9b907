// The importer at work: the module and the functions it builds, and what an
// op's builder sees of its node. Private to the frontend.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_OPS_IMPORTER_H
#define MPC_FRONTENDS_ONNX_OPS_IMPORTER_H

#include "frontends/ONNX/Model/Graph.h"
#include "frontends/ONNX/Model/ImportOptions.h"
#include "frontends/ONNX/Ops/Rebatch.h"

#include "compiler/Dialect/MPC/IndexBoxes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Diagnostics.h"

namespace mpc::onnx_frontend {

//===----------------------------------------------------------------------===//
// The module
//===----------------------------------------------------------------------===//

/// Builds the module: its variables, and the findings so far.
class ModuleImporter {
public:
  /// Loops in loops would multiply without end.
  static constexpr int64_t kMostBodyNodes = 300000;

  /// `rebatch` is given where the model was exported for another batch.
  ModuleImporter(const ImportOptions &options, mlir::MLIRContext *context,
                 Rebatch *rebatch = nullptr);
  /// Findings of an import that was given up for another reason are dropped.
  ~ModuleImporter() { llvm::consumeError(std::move(errors)); }

  const ImportOptions &getOptions() const { return options; }
  mlir::MLIRContext *getContext() const { return context; }
  mlir::ModuleOp getModule() const { return *module; }
  Rebatch *getRebatch() const { return rebatch; }

  /// Adds a finding; the import goes on to find more.
  void report(llvm::Error error) {
    errors = llvm::joinErrors(std::move(errors), std::move(error));
    failed = true;
  }
  bool hasFailed() const { return failed; }
  /// Whether that is the first time that somebody asks so about `op`.
  bool isFirst(llvm::StringRef op) { return misplaced.insert(op).second; }
  /// Counts a node of a body. Whether all nodes of all bodies that are
  /// imported, once for each iteration that has its own ops, are not too many.
  bool countBodyNode() { return ++bodyNodes <= kMostBodyNodes; }
  /// Whether `attempt` makes no findings. Those that it makes are dropped.
  bool succeeds(llvm::function_ref<void()> attempt);
  /// Says something about the model that is no reason to give up.
  void warn(const llvm::Twine &message) {
    mlir::emitWarning(mlir::UnknownLoc::get(context)) << message;
  }

  /// The variable for the ONNX value `name`, declared at its first use; without
  /// `init` it starts at zero.
  VariableOp getVariable(llvm::StringRef name, llvm::StringRef role,
                         mlir::RankedTensorType type,
                         const HostTensor *init = nullptr);
  /// An i64 scalar variable of role "counter" that starts at zero.
  VariableOp getCounter(llvm::StringRef name);
  /// The variable for that ONNX value, or null.
  VariableOp findVariable(llvm::StringRef name) const {
    return variables.lookup(name);
  }

  /// The axis of an input of this name and type that samples are along, or
  /// kNoBatchAxis.
  int64_t getBatchAxis(llvm::StringRef name, mlir::RankedTensorType type) const;

  /// Names of float initializers that are trained by default: findTrainable.
  void setTrainable(llvm::StringSet<> names) { trainable = std::move(names); }
  /// Whether the values of large tensors are wanted.
  bool readsValues() const;
  /// The attribute with the elements of `tensor`. An import that takes notes
  /// for another has zeros in place of those that take no part in folding.
  mlir::ElementsAttr toAttribute(const HostTensor &tensor,
                                 llvm::StringRef name) const;
  /// The role of a float initializer with this name and type: "parameter",
  /// "frozen", or empty where it is a constant of the model.
  llvm::StringRef getParameterRole(llvm::StringRef name,
                                   mlir::RankedTensorType type) const;

  /// The module, verified, or all findings.
  llvm::Expected<mlir::OwningOpRef<mlir::ModuleOp>> finish();

private:
  VariableOp declare(llvm::StringRef symbol, llvm::StringRef role,
                     mlir::RankedTensorType type, mlir::ElementsAttr init);

  const ImportOptions &options;
  mlir::MLIRContext *context;
  Rebatch *rebatch;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  /// By ONNX name, and mpc's own by theirs.
  llvm::StringMap<VariableOp> variables, counters;
  llvm::StringSet<> trainable, misplaced;
  VariableOp lastVariable;
  llvm::Error errors = llvm::Error::success();
  bool failed = false;
  int64_t bodyNodes = 0;
};

//===----------------------------------------------------------------------===//
// A function
//===----------------------------------------------------------------------===//

/// What is known of an ONNX value while a function is built.
struct ImportedValue {
  /// The value in the function, once something uses it.
  mlir::Value value;
  /// The variable that holds it, where the importer knows it as state.
  VariableOp variable;
  /// Its elements, where they are known at import.
  std::optional<HostTensor> constant;
  /// The role of the variable that holds it, for state: "parameter", "frozen".
  llvm::StringRef stateRole;
  /// The state it is another name for.
  std::string aliasOf;
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
};

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
  /// Whether a node may read `name`.
  bool knows(llvm::StringRef name) const {
    return graph.defines(name) || (parent && parent->knows(name));
  }
  /// Values of the parent that arguments of the block stand for, in the order
  /// of these: those the caller added, then those that ops read.
  llvm::SmallVectorImpl<mlir::Value> &getOuterValues() { return outerValues; }

  /// Adds a function argument for a graph input.
  mlir::Value addInput(llvm::StringRef name, mlir::RankedTensorType type,
                       llvm::StringRef role);
  /// The function argument that is the state `variable`.
  mlir::Value getState(VariableOp variable);
  void addOutput(llvm::StringRef name, mlir::Value value, llvm::StringRef role);
  /// The first output of that role, or null.
  mlir::Value getOutput(llvm::StringRef role) const;
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
  /// Notes that `value` names elements of an axis of `size`, at the input whose
  /// elements these are, if they are an input's.
  void markIndices(mlir::Value value, int64_t size);
  /// The same of some elements of `value`.
  void markIndices(mlir::Value value, const IndexBox &box);
  /// The id of the dropout whose mask (or else output) has that name; fixed at
  /// import.
  int64_t getRandomId(llvm::StringRef name);
  /// The same for one that exists.
  std::optional<int64_t> findRandomId(llvm::StringRef name) const;

  /// Whether a value says what an op does, and is no data of its own.
  bool isSetting(llvm::StringRef name) const { return settings.contains(name); }

  /// Phases by node: "loss", "backward"; absent: forward.
  llvm::DenseMap<const proto::NodeProto *, llvm::StringRef> phases;
  /// The phase of nodes that are not in `phases`.
  llvm::StringRef defaultPhase;
  /// Of the ops of a branch or of one iteration: tells them from those of
  /// others, which may have the same names.
  std::string scope;
  /// Of a body of its own: whether it is a branch, else that of a loop.
  bool isConditional = false;

  mlir::func::FuncOp finish();

private:
  friend class NodeImporter;

  void importNode(const proto::NodeProto &node);
  void capture(llvm::StringRef name, ImportedValue &entry);
  mlir::Value captureValue(mlir::Value value);
  void findSettings(const proto::NodeProto &node);
  llvm::StringSet<> findData(llvm::ArrayRef<const proto::NodeProto *> nodes);
  void demand(llvm::StringRef name);

  struct Port {
    mlir::NamedAttrList attributes;
    mlir::Value value;
  };

  ModuleImporter &module;
  const Graph &graph;
  /// Of the graph in an attribute: where the node is.
  FunctionImporter *parent = nullptr;
  bool inlined = false;
  llvm::SmallVector<mlir::Value> outerValues;
  mlir::OpBuilder builder;
  mlir::func::FuncOp function;
  mlir::Block *body;
  std::vector<Port> arguments, results;
  llvm::StringMap<mlir::Value> states;
  llvm::StringMap<ImportedValue> values;
  llvm::StringMap<int64_t> randomIds;
  /// Nodes by what they define, and the values that were asked for: `demand`.
  llvm::StringMap<const proto::NodeProto *> producers;
  llvm::StringSet<> asked;
  /// Names that BatchNormalization reads as running statistics.
  llvm::StringSet<> statistics;
  /// What Resize reads beside its image, and what that is computed from.
  llvm::StringSet<> settings;
};

//===----------------------------------------------------------------------===//
// A node
//===----------------------------------------------------------------------===//

/// What a builder sees of a node: operands, attributes, a way to create checked
/// ops and to say what is wrong. Attribute accessors record a wrong type as a
/// finding and give the default; the node then fails when its builder is done.
class NodeImporter {
public:
  NodeImporter(FunctionImporter &function, const proto::NodeProto &node);

  FunctionImporter &getFunction() { return function; }
  const proto::NodeProto &getNode() const { return node; }
  mlir::MLIRContext *getContext() const;
  llvm::StringRef getOpType() const { return node.op_type(); }
  int64_t getOpset() const;
  ImportMode getMode() const;

  //===--- Inputs ---===//
  unsigned getNumInputs() const { return node.input_size(); }
  bool hasInput(unsigned index) const;
  llvm::StringRef getInputName(unsigned index) const;
  /// The input as a value; a placeholder where it cannot be had, in which case
  /// the node fails. Null only for an absent optional input.
  mlir::Value operand(unsigned index);
  llvm::SmallVector<mlir::Value> operands();
  mlir::RankedTensorType operandType(unsigned index);
  llvm::ArrayRef<int64_t> operandShape(unsigned index) {
    return operandType(index).getShape();
  }
  /// The input as a tensor of a sequence.
  ImportedValue element(unsigned index);
  /// The tensors of an input that is a sequence; a finding where it is none.
  mlir::FailureOr<std::vector<ImportedValue>> sequence(unsigned index);
  /// The input's elements if they are known at import.
  std::optional<HostTensor> constant(unsigned index);
  /// Whether those elements are state, which may change.
  bool isState(unsigned index);
  /// Asks for the values of inputs of the graph that input `index` depends on,
  /// where whoever runs the model offers them.
  void demand(unsigned index);
  /// The elements of an integer input that must be known; `what` names it.
  mlir::FailureOr<llvm::SmallVector<int64_t>> integers(unsigned index,
                                                       llvm::StringRef what);
  /// The one element of a float input that must be known.
  mlir::FailureOr<double> scalar(unsigned index, llvm::StringRef what);

  //===--- Outputs ---===//
  bool hasOutput(unsigned index) const;
  llvm::StringRef getOutputName(unsigned index) const;
  mlir::LogicalResult define(unsigned index, mlir::Value value);
  mlir::LogicalResult define(unsigned index, HostTensor constant);
  mlir::LogicalResult defineState(unsigned index, HostTensor constant,
                                  llvm::StringRef role);
  /// Output 0 is another name for input 0, which is state.
  mlir::LogicalResult defineAlias();
  mlir::LogicalResult define(unsigned index,
                             std::vector<ImportedValue> sequence);
  /// Defines a value that only ops of type `reader` understand.
  mlir::LogicalResult defineSaved(unsigned index, mlir::Value value,
                                  llvm::StringRef reader);

  /// Saves a value beside output `index`, for builders of gradients.
  void setSaved(unsigned index, mlir::Value value);
  /// What is saved beside input `index`; null where nothing is.
  mlir::Value getSaved(unsigned index);

  //===--- Attributes ---===//
  bool hasAttribute(llvm::StringRef name) const;
  int64_t integer(llvm::StringRef name, int64_t byDefault);
  double real(llvm::StringRef name, double byDefault);
  std::string string(llvm::StringRef name, llvm::StringRef byDefault);
  /// The element type whose number (TensorProto.DataType) the attribute is;
  /// `byDefault` where it is absent or 0.
  mlir::FailureOr<mlir::Type> elementType(llvm::StringRef name,
                                          mlir::Type byDefault);
  std::optional<llvm::SmallVector<int64_t>> integerList(llvm::StringRef name);
  const proto::AttributeProto *find(llvm::StringRef name,
                                    proto::AttributeProto::AttributeType type);
  /// The graph of that name; a finding and null where there is none.
  const proto::GraphProto *body(llvm::StringRef name);
  /// The attribute means nothing here.
  void ignore(llvm::StringRef name) { readAttributes.insert(name); }

  //===--- Findings ---===//
  mlir::LogicalResult invalid(const llvm::Twine &message);
  mlir::LogicalResult unsupported(const llvm::Twine &message);
  /// The node is invalid, as its inputs are to have one element type.
  mlir::LogicalResult refuseTypes(mlir::Type first, mlir::Type other);
  bool hasFailed() const { return failed; }
  /// After the builder: attributes nobody read are findings.
  mlir::LogicalResult finish();
  /// Where the node is, for messages.
  std::string describe() const;

  //===--- Ops ---===//
  mlir::Builder &attributes() { return function.getBuilder(); }
  mlir::NamedAttribute attribute(llvm::StringRef name, mlir::Attribute value) {
    return function.getBuilder().getNamedAttr(name, value);
  }
  mlir::NamedAttribute attribute(llvm::StringRef name, double value) {
    return attribute(name, attributes().getF64FloatAttr(value));
  }
  mlir::NamedAttribute attribute(llvm::StringRef name, bool value) {
    return attribute(name, attributes().getBoolAttr(value));
  }
  mlir::NamedAttribute attribute(llvm::StringRef name, int64_t value) {
    return attribute(name, attributes().getI64IntegerAttr(value));
  }
  mlir::NamedAttribute attribute(llvm::StringRef name,
                                 llvm::ArrayRef<int64_t> value) {
    return attribute(name, attributes().getDenseI64ArrayAttr(value));
  }
  mlir::NamedAttribute attribute(llvm::StringRef name, llvm::StringRef value) {
    return attribute(name, mlir::Attribute(attributes().getStringAttr(value)));
  }

  /// Ops created from now on are named `node` + suffix ("#dx").
  void setSuffix(llvm::StringRef suffix);
  /// The phase of the node, unless it is known from the graph.
  void setPhase(llvm::StringRef phase) { ownPhase = phase; }

  /// The phase of the node: "forward" where that is empty.
  llvm::StringRef getPhase() const;
  /// Where ops of the node are located: at its name.
  mlir::Location getLocation() const;
  /// Creates an op that takes over `body`, whose arguments are what it is
  /// given: the carried values, parts of the scanned ones and the others.
  ScanOp createScan(int64_t length, llvm::ArrayRef<mlir::Value> carried,
                    llvm::ArrayRef<mlir::Value> scanned,
                    llvm::ArrayRef<mlir::Value> invariant, mlir::Region &body,
                    llvm::ArrayRef<mlir::Value> yielded,
                    llvm::ArrayRef<bool> reversedInputs,
                    llvm::ArrayRef<bool> reversedOutputs);
  /// Creates an op that takes over the bodies of two branches, whose arguments
  /// are what is captured.
  IfOp createIf(mlir::Value condition, llvm::ArrayRef<mlir::Value> captured,
                mlir::Region &then, llvm::ArrayRef<mlir::Value> thenYielded,
                mlir::Region &otherwise,
                llvm::ArrayRef<mlir::Value> elseYielded);

  /// Creates the op after its operands and attributes passed its own inference
  /// and verifier; else the node fails and the result is null. Absent operands
  /// are null. `result` is the type where it is not inferred.
  template <typename OpT>
  OpT create(llvm::ArrayRef<mlir::Value> operands,
             llvm::ArrayRef<mlir::NamedAttribute> attributes = {},
             mlir::RankedTensorType result = {});

  /// The first result of such an op, for builders that put several together:
  /// null where an operand is null, so that only the last has to be looked at;
  /// a constant where all operands are constants and the op folds.
  template <typename OpT>
  mlir::Value emit(llvm::ArrayRef<mlir::Value> operands,
                   llvm::ArrayRef<mlir::NamedAttribute> attributes = {},
                   mlir::RankedTensorType result = {}) {
    if (llvm::is_contained(operands, mlir::Value()))
      return {};
    OpT op = create<OpT>(operands, attributes, result);
    return op ? foldConstants(op) : mlir::Value();
  }

  /// A valid index of one of `rank` axes for `axis`, which may count from the
  /// end.
  mlir::FailureOr<int64_t> normalizeAxis(int64_t axis, int64_t rank);
  /// The same for a list, sorted and without duplicates.
  mlir::FailureOr<llvm::SmallVector<int64_t>>
  normalizeAxes(llvm::ArrayRef<int64_t> axes, int64_t rank);

  /// Common ops.
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value scalarConstant(double value, mlir::Type elementType);

  static mlir::RankedTensorType typeOf(mlir::Value value) {
    return mlir::cast<mlir::RankedTensorType>(value.getType());
  }
  static llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
    return typeOf(value).getShape();
  }

private:
  mlir::OperationState startOp(llvm::StringRef name,
                               llvm::ArrayRef<mlir::Value> operands,
                               llvm::ArrayRef<mlir::NamedAttribute> attributes);
  /// What `op` becomes where its operands are constants: itself, or one more.
  mlir::Value foldConstants(mlir::Operation *op);
  /// Inserts the op `state` describes, if it verifies.
  mlir::Operation *finishOp(mlir::OperationState &state);
  mlir::Operation *finishList(mlir::OperationState &state);

  FunctionImporter &function;
  const proto::NodeProto &node;
  std::string suffix;
  llvm::StringRef ownPhase;
  llvm::StringSet<> readAttributes;
  bool failed = false;
};

template <typename OpT>
OpT NodeImporter::create(llvm::ArrayRef<mlir::Value> operands,
                         llvm::ArrayRef<mlir::NamedAttribute> attributes,
                         mlir::RankedTensorType result) {
  if (failed)
    return {};
  mlir::OperationState state =
      startOp(OpT::getOperationName(), operands, attributes);
  std::string message;
  mlir::ScopedDiagnosticHandler handler(getContext(),
                                        [&](mlir::Diagnostic &diagnostic) {
                                          if (message.empty())
                                            message = diagnostic.str();
                                          return mlir::success();
                                        });
  mlir::OpaqueProperties properties(nullptr);
  if constexpr (!std::is_same_v<typename OpT::Properties,
                                mlir::EmptyProperties>) {
    auto &typed = state.getOrAddProperties<typename OpT::Properties>();
    properties = &typed;
    state.name.populateDefaultProperties(properties);
    auto report = [&] { return mlir::emitError(state.location); };
    if (mlir::failed(OpT::setPropertiesFromAttr(
            typed, state.attributes.getDictionary(getContext()), report))) {
      (void)invalid(message);
      return {};
    }
  }
  if (result) {
    state.addTypes(result);
  } else if constexpr (OpT::template hasTrait<
                           mlir::InferTypeOpInterface::Trait>()) {
    llvm::SmallVector<mlir::Type> types;
    if (mlir::failed(
            OpT::inferReturnTypes(getContext(), state.location, state.operands,
                                  state.attributes.getDictionary(getContext()),
                                  properties, {}, types))) {
      (void)invalid(message);
      return {};
    }
    state.addTypes(types);
  }
  if (mlir::Operation *op = finishOp(state))
    return mlir::cast<OpT>(op);
  // What inference accepts and the verifier does not is an element type that
  // ONNX allows and mpc has no kernels for.
  (void)unsupported(message);
  return {};
}

//===----------------------------------------------------------------------===//
// The op table
//===----------------------------------------------------------------------===//

/// How an op of a range of opsets is imported. The counts are checked before
/// the builder runs: inputs below `minInputs` are present.
struct OpEntry {
  llvm::StringRef domain;
  llvm::StringRef name;
  int64_t since; ///< first opset of the domain with these semantics
  int64_t until; ///< last one
  unsigned minInputs, maxInputs, maxOutputs;
  /// Null: the op is folded where its inputs are known, and has none in the IR.
  mlir::LogicalResult (*build)(NodeImporter &);
};

inline constexpr int64_t kNoEnd = INT64_MAX;
inline constexpr unsigned kAnyNumber = UINT_MAX;
inline constexpr llvm::StringLiteral kMicrosoft = "com.microsoft";
inline constexpr llvm::StringLiteral kTraining = "ai.onnx.preview.training";

llvm::ArrayRef<OpEntry> getAssembledOps();
llvm::ArrayRef<OpEntry> getElementwiseOps();
llvm::ArrayRef<OpEntry> getMovementOps();
llvm::ArrayRef<OpEntry> getIndexedOps();
llvm::ArrayRef<OpEntry> getPoolingOps();
llvm::ArrayRef<OpEntry> getPositionOps();
llvm::ArrayRef<OpEntry> getGridOps();
llvm::ArrayRef<OpEntry> getSampledOps();
llvm::ArrayRef<OpEntry> getTopKOps();
llvm::ArrayRef<OpEntry> getFourierOps();
llvm::ArrayRef<OpEntry> getRandomOps();
llvm::ArrayRef<OpEntry> getSelectedOps();
llvm::ArrayRef<OpEntry> getQuantizedOps();
llvm::ArrayRef<OpEntry> getReductionOps();
llvm::ArrayRef<OpEntry> getResizeOps();
llvm::ArrayRef<OpEntry> getEinsumOps();
llvm::ArrayRef<OpEntry> getSequenceOps();
llvm::ArrayRef<OpEntry> getShapeOps();
llvm::ArrayRef<OpEntry> getContractionOps();
llvm::ArrayRef<OpEntry> getNormalizationOps();
llvm::ArrayRef<OpEntry> getLayerNormOps();
llvm::ArrayRef<OpEntry> getAttentionOps();
llvm::ArrayRef<OpEntry> getLoopOps();
llvm::ArrayRef<OpEntry> getScanOps();
llvm::ArrayRef<OpEntry> getConditionalOps();
llvm::ArrayRef<OpEntry> getRecurrentOps();
llvm::ArrayRef<OpEntry> getRecurrentGradOps();
llvm::ArrayRef<OpEntry> getLossOps();
llvm::ArrayRef<OpEntry> getGradientOps();
llvm::ArrayRef<OpEntry> getTrainingOps();
llvm::ArrayRef<OpEntry> getOptimizerOps();
llvm::ArrayRef<OpEntry> getLossScalingOps();
llvm::ArrayRef<OpEntry> getFusedOps();
llvm::ArrayRef<OpEntry> getFusedAttentionOps();
llvm::ArrayRef<OpEntry> getGroupQueryOps();

/// All entries, family by family.
std::vector<OpEntry> getAllOps();

/// The entry for an op at that opset of its domain, or null.
const OpEntry *findOp(llvm::StringRef domain, llvm::StringRef name,
                      int64_t opset);

/// The entry for a node's op at its opset; null where there is none. An op that
/// ONNX's own domain does not have, and com.microsoft does, is taken for that,
/// as tools that compile for small devices leave domains out.
const OpEntry *findEntry(const proto::NodeProto &node, const Model &model);

/// What an op in ONNX's own domain is taken for where that does not have it:
/// "com.microsoft.GeluGrad", "MSELoss as in PyTorch"; empty for others.
std::string describeMisplaced(const proto::NodeProto &node,
                              const OpEntry &entry);

/// Whether some opset has an entry for the op.
bool isKnownOp(llvm::StringRef domain, llvm::StringRef name);

/// " (not in opset 5; export with opset_version=7)", of a known op.
std::string describeOpsets(llvm::StringRef domain, llvm::StringRef name,
                           int64_t opset);

/// Computes the outputs of a node whose inputs are known at import, or whose
/// outputs depend on shapes alone. False: the node is to be imported as an op.
mlir::FailureOr<bool> foldNode(NodeImporter &node);

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_OPS_IMPORTER_H
