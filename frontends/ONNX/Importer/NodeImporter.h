// What an op's builder sees of its node.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_NODEIMPORTER_H
#define MPC_FRONTENDS_ONNX_IMPORTER_NODEIMPORTER_H

#include "frontends/ONNX/Importer/FunctionImporter.h"

namespace mpc::onnx_frontend {

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
                                  Role role);
  /// Output 0 is another name for input 0, which is state.
  mlir::LogicalResult defineAlias();
  mlir::LogicalResult define(unsigned index,
                             std::vector<ImportedValue> sequence);
  /// Defines a value that only ops of type `reader` understand. A Clip may lie
  /// before a DequantizeLinear.
  mlir::LogicalResult defineSaved(unsigned index, mlir::Value value,
                                  llvm::StringRef reader);

  /// The only op that may read input `index`, by defineSaved; empty where any
  /// may.
  llvm::StringRef getReader(unsigned index);

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
  mlir::NamedAttribute attribute(llvm::StringRef name, DecayMode value) {
    return attribute(name, DecayModeAttr::get(getContext(), value));
  }
  mlir::NamedAttribute attribute(llvm::StringRef name, BiasCorrection value) {
    return attribute(name, BiasCorrectionAttr::get(getContext(), value));
  }
  mlir::NamedAttribute attribute(llvm::StringRef name, llvm::StringRef value) {
    return attribute(name, mlir::Attribute(attributes().getStringAttr(value)));
  }

  /// Ops created from now on are named `node` + suffix ("#dx").
  void setSuffix(llvm::StringRef suffix);
  /// The phase of the node, unless it is known from the graph.
  void setPhase(Phase phase) { ownPhase = phase; }

  /// The phase of the node: forward where that is nothing.
  std::optional<Phase> getPhase() const;
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
  /// The result of `op`; a constant in its place if all operands are constants
  /// and the op folds.
  mlir::Value foldConstants(mlir::Operation *op);
  /// Inserts the op `state` describes, if it verifies.
  mlir::Operation *finishOp(mlir::OperationState &state);
  mlir::Operation *finishList(mlir::OperationState &state);

  FunctionImporter &function;
  const proto::NodeProto &node;
  std::string suffix;
  std::optional<Phase> ownPhase;
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
  // Verifiers and inference report to the context: the first message becomes
  // the node's error.
  mlir::ScopedDiagnosticHandler handler(getContext(),
                                        [&](mlir::Diagnostic &diagnostic) {
                                          if (message.empty())
                                            message = diagnostic.str();
                                          return mlir::success();
                                        });
  // Properties before types: inference reads axes and the like from them.
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
  // The type is given, or follows from the operands.
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

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_NODEIMPORTER_H
