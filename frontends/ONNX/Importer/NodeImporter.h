// Gives an op's builder access to its node: inputs, attributes, outputs, and a
// way to create ops and report errors.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_FRONTENDS_ONNX_IMPORTER_NODEIMPORTER_H
#define MPC_FRONTENDS_ONNX_IMPORTER_NODEIMPORTER_H

#include "frontends/ONNX/Importer/FunctionImporter.h"

namespace mpc::onnx_frontend {

/// A builder's access to one node. Attribute accessors report an attribute of
/// the wrong type and return the default; the node then fails when its builder
/// returns.
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
  /// Returns input `index` as a value, or null if the optional input is absent.
  /// If the value is unavailable, the node fails and the result is a
  /// placeholder.
  mlir::Value operand(unsigned index);
  llvm::SmallVector<mlir::Value> operands();
  mlir::RankedTensorType operandType(unsigned index);
  llvm::ArrayRef<int64_t> operandShape(unsigned index) {
    return operandType(index).getShape();
  }
  /// Returns input `index`, a tensor, for storage in a sequence: as known
  /// elements if it is a constant, else as a value.
  ImportedValue element(unsigned index);
  /// Returns the tensors of an input that is a sequence; reports an error for
  /// any other input.
  mlir::FailureOr<std::vector<ImportedValue>> sequence(unsigned index);
  /// The elements of input `index`; nullopt if unknown at import.
  std::optional<HostTensor> constant(unsigned index);
  /// True if input `index` is state, whose elements may change.
  bool isState(unsigned index);
  /// Demands the values of all graph inputs that input `index` is computed
  /// from, if the user offers them (ImportOptions::offered).
  void demand(unsigned index);
  /// Returns the elements of an integer input that must be known at import.
  /// `what` names the input in messages.
  mlir::FailureOr<llvm::SmallVector<int64_t>> integers(unsigned index,
                                                       llvm::StringRef what);
  /// Returns the single element of an input that must be known at import.
  /// `what` names the input in messages.
  mlir::FailureOr<double> scalar(unsigned index, llvm::StringRef what);

  //===--- Outputs ---===//
  bool hasOutput(unsigned index) const;
  llvm::StringRef getOutputName(unsigned index) const;
  mlir::LogicalResult define(unsigned index, mlir::Value value);
  mlir::LogicalResult define(unsigned index, HostTensor constant);
  mlir::LogicalResult defineState(unsigned index, HostTensor constant,
                                  Role role);
  /// Makes output 0 another name for input 0, which is state.
  mlir::LogicalResult defineAlias();
  mlir::LogicalResult define(unsigned index,
                             std::vector<ImportedValue> sequence);
  /// Defines output `index` as `value`, which only ops of type `reader` may
  /// read. Before a DequantizeLinear, a Clip may also read the value.
  mlir::LogicalResult defineSaved(unsigned index, mlir::Value value,
                                  llvm::StringRef reader);

  /// The only op type that may read input `index` (see defineSaved); empty if
  /// any op may.
  llvm::StringRef getReader(unsigned index);

  /// Leaves `value` beside output `index`. The builder of the gradient node
  /// finds it there by getSaved.
  void setSaved(unsigned index, mlir::Value value);
  /// The value that another node's builder left, by setSaved, beside the output
  /// that is input `index` of this node. Null if none.
  mlir::Value getSaved(unsigned index);

  //===--- Attributes ---===//
  bool hasAttribute(llvm::StringRef name) const;
  int64_t integer(llvm::StringRef name, int64_t byDefault);
  double real(llvm::StringRef name, double byDefault);
  std::string string(llvm::StringRef name, llvm::StringRef byDefault);
  /// Reads an attribute that holds a TensorProto.DataType number. Returns
  /// `byDefault` if the attribute is absent or 0.
  mlir::FailureOr<mlir::Type> elementType(llvm::StringRef name,
                                          mlir::Type byDefault);
  std::optional<llvm::SmallVector<int64_t>> integerList(llvm::StringRef name);
  const proto::AttributeProto *find(llvm::StringRef name,
                                    proto::AttributeProto::AttributeType type);
  /// Returns the graph in attribute `name`; reports an error and returns null
  /// if absent.
  const proto::GraphProto *body(llvm::StringRef name);
  /// Accepts attribute `name` without reading it, because it has no effect
  /// here.
  void ignore(llvm::StringRef name) { readAttributes.insert(name); }

  //===--- Findings ---===//
  /// Lists the inputs that are present, with their types, to end a message:
  /// ", found 'x' f32[2,3], 'w' f32[4]".
  std::string found(std::initializer_list<unsigned> inputs);
  mlir::LogicalResult invalid(const llvm::Twine &message);
  mlir::LogicalResult unsupported(const llvm::Twine &message);
  /// Reports an error: two inputs have the different element types `first` and
  /// `other`, but the op requires one type.
  mlir::LogicalResult refuseTypes(mlir::Type first, mlir::Type other);
  bool hasFailed() const { return failed; }
  /// Call after the builder. Reports every attribute that no accessor read.
  mlir::LogicalResult finish();
  /// Names the node for messages: "node 'fc1' (Gemm)".
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

  /// Appends `suffix` ("#dx") to the names of ops created from now on.
  void setSuffix(llvm::StringRef suffix);
  /// Sets the phase of the node's ops, unless FunctionImporter::phases has a
  /// phase for the node.
  void setPhase(Phase phase) { ownPhase = phase; }

  /// The phase of the node; nullopt means forward.
  std::optional<Phase> getPhase() const;
  /// The location of the node's ops: the node's name and the suffix.
  mlir::Location getLocation() const;
  /// Creates an `mpc.scan` that takes over `body`. The arguments of `body` are
  /// the carried values, then one part of each scanned value, then the values
  /// that are equal in all iterations.
  ScanOp createScan(int64_t length, llvm::ArrayRef<mlir::Value> carried,
                    llvm::ArrayRef<mlir::Value> scanned,
                    llvm::ArrayRef<mlir::Value> invariant, mlir::Region &body,
                    llvm::ArrayRef<mlir::Value> yielded,
                    llvm::ArrayRef<bool> reversedInputs,
                    llvm::ArrayRef<bool> reversedOutputs);
  /// Creates an `mpc.if` that takes over the bodies of both branches. Argument
  /// i of each body stands for `captured[i]`.
  IfOp createIf(mlir::Value condition, llvm::ArrayRef<mlir::Value> captured,
                mlir::Region &then, llvm::ArrayRef<mlir::Value> thenYielded,
                mlir::Region &otherwise,
                llvm::ArrayRef<mlir::Value> elseYielded);

  /// Creates an op if type inference and the op's verifier accept its operands
  /// and attributes; otherwise the node fails and the result is null. Pass null
  /// for an absent operand. `result` is the type of ops that do not infer one.
  template <typename OpT>
  OpT create(llvm::ArrayRef<mlir::Value> operands,
             llvm::ArrayRef<mlir::NamedAttribute> attributes = {},
             mlir::RankedTensorType result = {});

  /// Creates an op and returns its first result, so that builders can chain
  /// ops. Returns null if an operand is null: only the last value of a chain
  /// needs a check. Returns a constant if all operands are constants and the op
  /// folds.
  template <typename OpT>
  mlir::Value emit(llvm::ArrayRef<mlir::Value> operands,
                   llvm::ArrayRef<mlir::NamedAttribute> attributes = {},
                   mlir::RankedTensorType result = {}) {
    if (llvm::is_contained(operands, mlir::Value()))
      return {};
    OpT op = create<OpT>(operands, attributes, result);
    return op ? foldConstants(op) : mlir::Value();
  }

  /// Converts `axis`, which may count from the end, to an index below `rank`.
  /// Reports an error if out of range.
  mlir::FailureOr<int64_t> normalizeAxis(int64_t axis, int64_t rank);
  /// Normalizes a list of axes, sorts them, and reports duplicates.
  mlir::FailureOr<llvm::SmallVector<int64_t>>
  normalizeAxes(llvm::ArrayRef<int64_t> axes, int64_t rank);

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
  /// Returns the result of `op`, or a constant if all operands are constants
  /// and the op folds.
  mlir::Value foldConstants(mlir::Operation *op);
  /// Inserts the op that `state` describes; null if the op does not verify.
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
  // Verifiers and inference report to the context. The first message becomes
  // the node's error.
  mlir::ScopedDiagnosticHandler handler(getContext(),
                                        [&](mlir::Diagnostic &diagnostic) {
                                          if (message.empty())
                                            message = diagnostic.str();
                                          return mlir::success();
                                        });
  // Set properties before types: inference reads axes and the like from them.
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
  // Inference accepted the op and the verifier did not: ONNX allows the element
  // type, but mpc has no kernels for it.
  (void)unsupported(message);
  return {};
}

} // namespace mpc::onnx_frontend

#endif // MPC_FRONTENDS_ONNX_IMPORTER_NODEIMPORTER_H
