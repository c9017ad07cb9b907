// Implements the access of builders to their nodes.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Importer.h"

#include "compiler/Dialect/MPC/Fold/ConstantElements.h"

#include "mlir/IR/Verifier.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using AttributeProto = proto::AttributeProto;

NodeImporter::NodeImporter(FunctionImporter &function,
                           const proto::NodeProto &node)
    : function(function), node(node) {
  llvm::StringSet<> names;
  for (const AttributeProto &attribute : node.attribute()) {
    if (!names.insert(attribute.name()).second)
      (void)invalid("attribute '" + attribute.name() + "' is given twice");
    if (!attribute.ref_attr_name().empty())
      (void)invalid("attribute '" + attribute.name() +
                    "' refers to an attribute of a function, '" +
                    attribute.ref_attr_name() +
                    "', but the node is in no function");
  }
}

MLIRContext *NodeImporter::getContext() const {
  return function.module.getContext();
}

int64_t NodeImporter::getOpset() const {
  return function.getModel().getOpset(node);
}

ImportMode NodeImporter::getMode() const {
  return function.module.getOptions().mode;
}

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

bool NodeImporter::hasInput(unsigned index) const {
  return index < getNumInputs() && !node.input(index).empty();
}

StringRef NodeImporter::getInputName(unsigned index) const {
  return hasInput(index) ? StringRef(node.input(index)) : StringRef();
}

Value NodeImporter::operand(unsigned index) {
  if (!hasInput(index))
    return {};
  if (Value value = function.materialize(node.input(index), getOpType()))
    return value;
  // `materialize` has reported the error. Return a placeholder, because
  // builders do not expect null for an input that is present.
  failed = true;
  OpBuilder &builder = function.getBuilder();
  auto type = RankedTensorType::get({}, builder.getF32Type());
  return ConstantOp::create(builder, builder.getUnknownLoc(), type,
                            DenseElementsAttr::get(type, 0.0f));
}

SmallVector<Value> NodeImporter::operands() {
  SmallVector<Value> result;
  for (unsigned i = 0; i < getNumInputs(); ++i)
    result.push_back(operand(i));
  return result;
}

RankedTensorType NodeImporter::operandType(unsigned index) {
  assert(hasInput(index) && "checkArity has found the required inputs");
  ImportedValue &entry = function.lookup(node.input(index));
  if (!entry.value && entry.constant)
    return entry.constant->type;
  return typeOf(operand(index));
}

ImportedValue NodeImporter::element(unsigned index) {
  assert(hasInput(index) && "checkArity has found the required inputs");
  const ImportedValue &entry = function.lookup(node.input(index));
  ImportedValue element;
  if (entry.constant && !entry.stateRole)
    element.constant = entry.constant;
  else
    element.value = operand(index);
  return element;
}

FailureOr<std::vector<ImportedValue>> NodeImporter::sequence(unsigned index) {
  assert(hasInput(index) && "checkArity has found the required inputs");
  const ImportedValue &entry = function.lookup(node.input(index));
  if (entry.sequence)
    return *entry.sequence;
  if (entry.failed) {
    failed = true;
    return mlir::failure();
  }
  return unsupported("input '" + getInputName(index) +
                     "' is no sequence whose tensors are known at import");
}

std::optional<HostTensor> NodeImporter::constant(unsigned index) {
  if (!hasInput(index))
    return std::nullopt;
  return function.lookup(node.input(index)).constant;
}

bool NodeImporter::isState(unsigned index) {
  return hasInput(index) &&
         function.lookup(node.input(index)).stateRole.has_value();
}

void NodeImporter::demand(unsigned index) {
  if (hasInput(index))
    function.demand(node.input(index));
}

FailureOr<SmallVector<int64_t>> NodeImporter::integers(unsigned index,
                                                       StringRef what) {
  std::optional<HostTensor> tensor = constant(index);
  if (!tensor)
    demand(index);
  if (!tensor)
    return unsupported("expected " + what + " (input '" + getInputName(index) +
                       "') to be known at import; it depends on data");
  if (tensor->isFloat())
    return invalid("expected " + what + " to be integers" + found({index}));
  return tensor->getIntegers();
}

FailureOr<double> NodeImporter::scalar(unsigned index, StringRef what) {
  std::optional<HostTensor> tensor = constant(index);
  if (!tensor)
    demand(index);
  if (!tensor)
    return unsupported("expected " + what + " (input '" + getInputName(index) +
                       "') to be known at import; it depends on data");
  if (tensor->getNumElements() != 1)
    return invalid("expected " + what + " to have one element" +
                   found({index}));
  return tensor->getDouble(0);
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

bool NodeImporter::hasOutput(unsigned index) const {
  return index < static_cast<unsigned>(node.output_size()) &&
         !node.output(index).empty();
}

StringRef NodeImporter::getOutputName(unsigned index) const {
  return hasOutput(index) ? StringRef(node.output(index)) : StringRef();
}

LogicalResult NodeImporter::define(unsigned index, Value value) {
  if (!value)
    return failure();
  if (!hasOutput(index))
    return success();
  ImportedValue &entry = function.values[node.output(index)];
  entry.value = value;
  // Record the elements of a folded constant: shape arithmetic may read them.
  auto constant = value.getDefiningOp<ConstantOp>();
  if (constant && typeOf(value).getNumElements() <= kMostFoldedElements)
    entry.constant = HostTensor::fromAttribute(constant.getValue());
  return success();
}

LogicalResult NodeImporter::define(unsigned index, HostTensor constant) {
  if (hasOutput(index))
    function.values[node.output(index)].constant = std::move(constant);
  return success();
}

LogicalResult NodeImporter::define(unsigned index,
                                   std::vector<ImportedValue> sequence) {
  if (hasOutput(index))
    function.values[node.output(index)].sequence = std::move(sequence);
  return success();
}

LogicalResult NodeImporter::defineState(unsigned index, HostTensor constant,
                                        Role role) {
  if (hasOutput(index))
    function.values[node.output(index)].stateRole = role;
  return define(index, std::move(constant));
}

LogicalResult NodeImporter::defineAlias() {
  assert(isState(0) && hasOutput(0) && "only state has other names");
  const ImportedValue &source = function.lookup(node.input(0));
  std::string name =
      source.aliasOf.empty() ? node.input(0) : std::string(source.aliasOf);
  ImportedValue &alias = function.values[node.output(0)];
  alias.constant = source.constant;
  alias.stateRole = source.stateRole;
  // A renamed running statistic is no alias: the program may have two layers
  // whose statistics only start equal. The two are the same only if one layer
  // is called twice. Record the name in `statisticOf`.
  if (!source.statisticOf.empty())
    alias.statisticOf = source.statisticOf;
  else if (function.statistics.contains(name))
    alias.statisticOf = std::move(name);
  else
    alias.aliasOf = std::move(name);
  return success();
}

StringRef NodeImporter::getReader(unsigned index) {
  assert(hasInput(index) && "an input of the node");
  return function.lookup(node.input(index)).reservedFor;
}

void NodeImporter::setSaved(unsigned index, Value value) {
  assert(value && hasOutput(index) && "a value beside an output");
  function.values[node.output(index)].saved = value;
}

Value NodeImporter::getSaved(unsigned index) {
  return function.lookup(node.input(index)).saved;
}

LogicalResult NodeImporter::defineSaved(unsigned index, Value value,
                                        StringRef reader) {
  if (hasOutput(index))
    function.values[node.output(index)].reservedFor = reader;
  return define(index, value);
}

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

bool NodeImporter::hasAttribute(StringRef name) const {
  return llvm::any_of(node.attribute(), [&](const AttributeProto &attribute) {
    return attribute.name() == name;
  });
}

const AttributeProto *NodeImporter::find(StringRef name,
                                         AttributeProto::AttributeType type) {
  readAttributes.insert(name);
  for (const AttributeProto &attribute : node.attribute()) {
    if (attribute.name() != name)
      continue;
    if (attribute.type() == type)
      return &attribute;
    (void)invalid("attribute '" + name + "' has type " +
                  AttributeProto::AttributeType_Name(attribute.type()) +
                  ", expected " + AttributeProto::AttributeType_Name(type));
    return nullptr;
  }
  return nullptr;
}

int64_t NodeImporter::integer(StringRef name, int64_t byDefault) {
  const AttributeProto *attribute = find(name, AttributeProto::INT);
  return attribute ? attribute->i() : byDefault;
}

double NodeImporter::real(StringRef name, double byDefault) {
  const AttributeProto *attribute = find(name, AttributeProto::FLOAT);
  return attribute ? attribute->f() : byDefault;
}

std::string NodeImporter::string(StringRef name, StringRef byDefault) {
  const AttributeProto *attribute = find(name, AttributeProto::STRING);
  return attribute ? attribute->s() : byDefault.str();
}

FailureOr<Type> NodeImporter::elementType(StringRef name, Type byDefault) {
  int64_t number = integer(name, 0);
  if (number == 0)
    return byDefault;
  llvm::Expected<Type> type = function.getModel().getElementType(
      number, describe() + ": attribute '" + name + "'");
  if (type)
    return *type;
  function.module.report(type.takeError());
  return mlir::failure();
}

std::optional<SmallVector<int64_t>> NodeImporter::integerList(StringRef name) {
  const AttributeProto *attribute = find(name, AttributeProto::INTS);
  if (!attribute)
    return std::nullopt;
  return SmallVector<int64_t>(attribute->ints().begin(),
                              attribute->ints().end());
}

const proto::GraphProto *NodeImporter::body(StringRef name) {
  const AttributeProto *attribute = find(name, AttributeProto::GRAPH);
  if (!attribute && !hasFailed())
    (void)invalid("attribute '" + name + "' is missing");
  return attribute ? &attribute->g() : nullptr;
}

//===----------------------------------------------------------------------===//
// Findings
//===----------------------------------------------------------------------===//

std::string NodeImporter::describe() const {
  return "node '" + getNodeName(node) + "' (" + getOpName(node) + ")";
}

std::string NodeImporter::found(std::initializer_list<unsigned> inputs) {
  std::string text;
  for (unsigned index : inputs)
    if (hasInput(index))
      text += ((text.empty() ? ", found '" : ", '") + getInputName(index) +
               "' " + printTensorType(operandType(index)))
                  .str();
  return text;
}

LogicalResult NodeImporter::invalid(const Twine &message) {
  failed = true;
  function.module.report(function.getModel().error(
      ErrorKind::InvalidInput, describe() + ": " + message));
  return failure();
}

LogicalResult NodeImporter::unsupported(const Twine &message) {
  failed = true;
  function.module.report(function.getModel().error(
      ErrorKind::Unsupported, describe() + ": " + message));
  return failure();
}

LogicalResult NodeImporter::refuseTypes(Type first, Type other) {
  assert(first != other && "only different types are refused");
  std::string types;
  llvm::raw_string_ostream(types)
      << "tensor(" << first << ") and tensor(" << other << ")";
  return invalid("the inputs have different element types, " + types);
}

LogicalResult NodeImporter::finish() {
  if (failed)
    return failure();
  // An attribute that no accessor read might change the result, so report an
  // error. The output stays defined: nodes that read it are still imported, to
  // find more errors.
  for (const AttributeProto &attribute : node.attribute())
    if (!readAttributes.contains(attribute.name()))
      function.module.report(function.getModel().error(
          ErrorKind::InvalidInput,
          describe() + ": attribute '" + attribute.name() + "' is not one of " +
              getOpType() + " in opset " + Twine(getOpset())));
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

void NodeImporter::setSuffix(StringRef newSuffix) { suffix = newSuffix.str(); }

std::optional<Phase> NodeImporter::getPhase() const {
  if (auto it = function.phases.find(&node); it != function.phases.end())
    return it->second;
  return ownPhase ? ownPhase : function.defaultPhase;
}

Location NodeImporter::getLocation() const {
  return NameLoc::get(
      function.getBuilder().getStringAttr(getNodeName(node) + suffix));
}

ScanOp NodeImporter::createScan(int64_t length, ArrayRef<Value> carried,
                                ArrayRef<Value> scanned,
                                ArrayRef<Value> invariant, Region &body,
                                ArrayRef<Value> yielded,
                                ArrayRef<bool> reversedInputs,
                                ArrayRef<bool> reversedOutputs) {
  assert(yielded.size() >= carried.size() && "every carried value is yielded");
  assert(reversedInputs.size() == scanned.size() &&
         reversedOutputs.size() == yielded.size() - carried.size() &&
         "a direction per scanned and per stacked value");
  SmallVector<Type> stacked;
  for (Value part : yielded.drop_front(carried.size()))
    stacked.push_back(ScanOp::getStackType(part.getType(), length));
  OpBuilder atEnd = OpBuilder::atBlockEnd(&body.front());
  YieldOp::create(atEnd, getLocation(), yielded);
  OpBuilder &builder = function.getBuilder();
  OperationState state(getLocation(), ScanOp::getOperationName());
  ScanOp::build(builder, state, length, carried, scanned, invariant, stacked,
                reversedInputs, reversedOutputs);
  state.regions.front()->takeBody(body);
  return cast_or_null<ScanOp>(finishList(state));
}

IfOp NodeImporter::createIf(Value condition, ArrayRef<Value> captured,
                            Region &then, ArrayRef<Value> thenYielded,
                            Region &otherwise, ArrayRef<Value> elseYielded) {
  if (!condition)
    return {};
  assert(thenYielded.size() == elseYielded.size() &&
         "both branches yield the results");
  assert(then.getNumArguments() == captured.size() &&
         otherwise.getNumArguments() == captured.size() &&
         "both branches take the captured values");
  OpBuilder &builder = function.getBuilder();
  OperationState state(getLocation(), IfOp::getOperationName());
  IfOp::build(builder, state, TypeRange(ValueRange(thenYielded)), condition,
              captured);
  std::pair<Region *, ArrayRef<Value>> branches[] = {{&then, thenYielded},
                                                     {&otherwise, elseYielded}};
  for (auto [region, branch] : llvm::zip(state.regions, branches)) {
    auto [body, yielded] = branch;
    OpBuilder atEnd = OpBuilder::atBlockEnd(&body->front());
    YieldOp::create(atEnd, getLocation(), yielded);
    region->takeBody(*body);
  }
  return cast_or_null<IfOp>(finishList(state));
}

// Creates an op with regions. If the verifier rejects the op, reports the
// verifier's message as the node's error and returns null.
Operation *NodeImporter::finishList(OperationState &state) {
  if (std::optional<Phase> phase = getPhase())
    state.addAttribute(kPhaseAttr, PhaseAttr::get(getContext(), *phase));
  std::string message;
  ScopedDiagnosticHandler handler(getContext(), [&](Diagnostic &diagnostic) {
    message = diagnostic.str();
    return success();
  });
  Operation *op = finishOp(state);
  if (!op)
    (void)unsupported(message);
  return op;
}

OperationState NodeImporter::startOp(StringRef name, ArrayRef<Value> operands,
                                     ArrayRef<NamedAttribute> attributes) {
  OperationState state(getLocation(), name);
  for (Value operand : operands)
    if (operand)
      state.operands.push_back(operand);
  state.addAttributes(attributes);
  if (std::optional<Phase> phase = getPhase())
    state.addAttribute(kPhaseAttr, PhaseAttr::get(getContext(), *phase));
  return state;
}

Value NodeImporter::foldConstants(Operation *op) {
  bool isKnown = op->getNumResults() == 1 && op->getNumOperands() > 0 &&
                 llvm::all_of(op->getOperands(), [](Value operand) {
                   return operand.getDefiningOp<ConstantOp>();
                 });
  SmallVector<Value> results;
  if (!isKnown || mlir::failed(function.getBuilder().tryFold(op, results)))
    return op->getResult(0);
  op->erase();
  return results.front();
}

// The largest result in bytes, 64 TiB: more than the memory of any machine that
// mpc runs on.
static constexpr int64_t kMostBytes = int64_t(1) << 46;

// Refuses a contraction with an operand of no elements: its sums would have no
// terms, or the result no elements.
static LogicalResult verifyContracted(Operation *op) {
  auto precise = dyn_cast<PrecisionOpInterface>(op);
  if (!precise || precise.getNumContractedOperands() == 0)
    return success();
  for (OpOperand &operand : op->getOpOperands())
    if (llvm::is_contained(shapeOf(operand.get()), 0))
      return emitError(op->getLoc())
             << "input " << operand.getOperandNumber()
             << " of a product has an axis of 0 elements, found "
             << printTensorType(typeOf(operand.get()));
  return success();
}

// Refuses an optimizer on 16-bit parameters: most updates are smaller than the
// rounding of such a parameter, and would be lost.
static LogicalResult verifyUpdated(Operation *op) {
  if (!isa<OptimizerOpInterface, ClipGradNormOp>(op))
    return success();
  for (Value operand : op->getOperands())
    if (auto type = dyn_cast<FloatType>(elementOf(operand));
        type && type.getWidth() < 32)
      return emitError(op->getLoc())
             << "an optimizer takes float32 or float64, found " << type
             << "; export the graph in float32, and choose its computing "
                "precision "
             << "with --precision";
  return success();
}

Operation *NodeImporter::finishOp(OperationState &state) {
  for (Type type : state.types) {
    auto tensor = cast<RankedTensorType>(type);
    auto bytes = getCheckedBytes(tensor.getShape(), tensor.getElementType());
    if (bytes && *bytes <= kMostBytes)
      continue;
    emitError(state.location)
        << "a result of type " << type << " does not fit into memory";
    return nullptr;
  }
  Operation *op = function.getBuilder().create(state);
  if (succeeded(verify(op, /*verifyRecursively=*/false)) &&
      succeeded(verifyContracted(op)) && succeeded(verifyUpdated(op)))
    return op;
  op->erase();
  return nullptr;
}

FailureOr<int64_t> NodeImporter::normalizeAxis(int64_t axis, int64_t rank) {
  assert(rank >= 0 && "a number of axes");
  if (axis < -rank || axis >= rank)
    return invalid("axis " + Twine(axis) + " is not in [" + Twine(-rank) +
                   ", " + Twine(rank) + ")");
  return axis < 0 ? axis + rank : axis;
}

FailureOr<SmallVector<int64_t>>
NodeImporter::normalizeAxes(ArrayRef<int64_t> axes, int64_t rank) {
  SmallVector<int64_t> result;
  for (int64_t axis : axes) {
    FailureOr<int64_t> normalized = normalizeAxis(axis, rank);
    if (mlir::failed(normalized))
      return failure();
    result.push_back(*normalized);
  }
  llvm::sort(result);
  if (std::adjacent_find(result.begin(), result.end()) != result.end())
    return invalid("expected each axis once, found " + printShape(axes));
  return result;
}

Value NodeImporter::reshape(Value value, ArrayRef<int64_t> shape) {
  if (!value || shapeOf(value) == shape)
    return value;
  auto type = RankedTensorType::get(shape, typeOf(value).getElementType());
  return emit<ReshapeOp>({value}, {}, type);
}

Value NodeImporter::scalarConstant(double value, Type elementType) {
  if (!isa<FloatType>(elementType)) {
    (void)unsupported("expected floats, found " +
                      printElementType(elementType));
    return {};
  }
  Builder &builder = attributes();
  auto type = RankedTensorType::get({}, elementType);
  auto element = builder.getFloatAttr(elementType, value);
  auto op = create<ConstantOp>(
      {}, {attribute("value", DenseElementsAttr::get(type, element))}, type);
  return op ? op.getOutput() : Value();
}
