// Imports LSTM, GRU and RNN, which differ only in their cells.
//
// One product before the loop computes the gates' input of all steps. Steps
// behind the end of a sequence (sequence_lens) leave the state unchanged and
// output zeros.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/NN/Recurrent.h"

#include "frontends/ONNX/Importer/Assemble.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using AttributeProto = proto::AttributeProto;

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

// True for LSTMTraining and GRUTraining, whose gates and states LSTMGrad and
// GRUGrad read.
bool RecurrentImporter::isTraining() const {
  return node.getOpType().ends_with("Training");
}

LogicalResult RecurrentImporter::readAttributes() {
  batchFirst = node.integer("layout", 0) != 0;
  inputForget = node.integer("input_forget", 0) != 0;
  linearBeforeReset = node.integer("linear_before_reset", 0) != 0;
  if (node.hasAttribute("clip"))
    clip = node.real("clip", 0.0);
  if (clip && !(*clip >= 0))
    return node.invalid("expected attribute 'clip' of at least 0, found " +
                        std::to_string(*clip));
  direction = node.string("direction", "forward");
  if (direction != "forward" && direction != "reverse" &&
      direction != "bidirectional")
    return node.invalid("expected attribute 'direction' to be 'forward', "
                        "'reverse' or 'bidirectional', found '" +
                        direction + "'");
  directions = direction == "bidirectional" ? 2 : 1;
  if (failed(readActivations()))
    return failure();
  // LSTMGrad and GRUGrad differentiate only nodes with default attributes and
  // without sequence lengths.
  if (isTraining() &&
      (batchFirst || inputForget || clip || direction != "forward" ||
       node.hasInput(4) || node.hasAttribute("activations")))
    return node.unsupported(
        "training is supported only with direction 'forward', the default "
        "activations, and without clip, input_forget, layout and "
        "sequence_lens; export the forward "
        "model instead, which may have them");
  return success();
}

//===----------------------------------------------------------------------===//
// Functions of gates
//===----------------------------------------------------------------------===//

template <typename OpT>
static Value buildPlain(RecurrentImporter &importer, const GateFunction &,
                        Value x) {
  return importer.getNode().emit<OpT>({x});
}

template <typename OpT>
static Value buildWithAlpha(RecurrentImporter &importer,
                            const GateFunction &function, Value x) {
  NodeImporter &node = importer.getNode();
  return node.emit<OpT>({x}, {node.attribute("alpha", *function.alpha)});
}

static Value buildHardSigmoid(RecurrentImporter &importer,
                              const GateFunction &function, Value x) {
  NodeImporter &node = importer.getNode();
  return node.emit<HardSigmoidOp>({x},
                                  {node.attribute("alpha", *function.alpha),
                                   node.attribute("beta", *function.beta)});
}

// Emits alpha x + beta.
static Value buildAffine(RecurrentImporter &importer,
                         const GateFunction &function, Value x) {
  NodeImporter &node = importer.getNode();
  Value factor = node.scalarConstant(*function.alpha, elementOf(x));
  Value summand = node.scalarConstant(*function.beta, elementOf(x));
  return importer.add(importer.mul(x, factor), summand);
}

// Emits alpha tanh(beta x).
static Value buildScaledTanh(RecurrentImporter &importer,
                             const GateFunction &function, Value x) {
  NodeImporter &node = importer.getNode();
  Value inner = node.scalarConstant(*function.beta, elementOf(x));
  Value outer = node.scalarConstant(*function.alpha, elementOf(x));
  return importer.mul(node.emit<TanhOp>({importer.mul(x, inner)}), outer);
}

// Returns the function `name` with its default parameters; nullopt if unknown.
static std::optional<GateFunction> findActivation(StringRef name) {
  static const GateFunction known[] = {
      {"Affine", 1.0, 0.0, buildAffine},
      {"Elu", 1.0, {}, buildWithAlpha<EluOp>},
      {"HardSigmoid", 0.2, 0.5, buildHardSigmoid},
      {"LeakyRelu", 0.01, {}, buildWithAlpha<LeakyReluOp>},
      {"Relu", {}, {}, buildPlain<ReluOp>},
      {"ScaledTanh", 1.0, 1.0, buildScaledTanh},
      {"Sigmoid", {}, {}, buildPlain<SigmoidOp>},
      {"Softplus", {}, {}, buildPlain<SoftplusOp>},
      {"Softsign", {}, {}, buildPlain<SoftsignOp>},
      {"Tanh", {}, {}, buildPlain<TanhOp>},
      {"ThresholdedRelu", 1.0, {}, buildWithAlpha<ThresholdedReluOp>}};
  for (const GateFunction &activation : known)
    if (name.equals_insensitive(activation.name))
      return activation;
  return std::nullopt;
}

// Reads the activations: names, and lists of alpha and beta. Each function that
// has the parameter takes the next number of the list.
LogicalResult RecurrentImporter::readActivations() {
  // The list holds the names of all directions, one after the other.
  SmallVector<std::string> names;
  for (int64_t i = 0; i < directions; ++i)
    for (StringRef name : cell.activations)
      names.push_back(name.str());
  if (node.hasAttribute("activations"))
    if (const auto *given = node.find("activations", AttributeProto::STRINGS))
      names.assign(given->strings().begin(), given->strings().end());
  if (names.size() != cell.activations.size() * directions)
    return node.invalid("expected " +
                        Twine(cell.activations.size() * directions) +
                        " activations in attribute 'activations', found " +
                        Twine(names.size()));
  auto readFloats = [&](StringRef name) {
    SmallVector<double> values;
    if (node.hasAttribute(name))
      if (const auto *given = node.find(name, AttributeProto::FLOATS))
        values.assign(given->floats().begin(), given->floats().end());
    return values;
  };
  SmallVector<double> alphas = readFloats("activation_alpha");
  SmallVector<double> betas = readFloats("activation_beta");
  size_t nextAlpha = 0, nextBeta = 0;
  for (const std::string &name : names) {
    std::optional<GateFunction> activation = findActivation(name);
    if (!activation)
      return node.unsupported("activation '" + name +
                              "' is not known: expected a function of ONNX, "
                              "such as Sigmoid or Tanh");
    if (activation->alpha && nextAlpha < alphas.size())
      activation->alpha = alphas[nextAlpha++];
    if (activation->beta && nextBeta < betas.size())
      activation->beta = betas[nextBeta++];
    activations.push_back(*activation);
  }
  return success();
}

Value RecurrentImporter::activate(unsigned index, Value x) {
  if (x && clip)
    x = node.emit<ClipOp>(
        {x}, {node.attribute("min", -*clip), node.attribute("max", *clip)});
  return activateState(index, x);
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

// Takes elements [offset, offset + size) along `axis`.
static Value sliceGates(NodeImporter &node, Value value, int64_t axis,
                        int64_t offset, int64_t size) {
  if (!value)
    return {};
  SmallVector<int64_t> sizes(shapeOf(value)), offsets(sizes.size(), 0);
  if (sizes[axis] == size)
    return value;
  offsets[axis] = offset;
  sizes[axis] = size;
  return node.emit<SliceOp>(
      {value}, {node.attribute("offsets", ArrayRef<int64_t>(offsets)),
                node.attribute("sizes", ArrayRef<int64_t>(sizes))});
}

Value RecurrentImporter::gates(Value value, unsigned first, unsigned count,
                               int64_t axis) {
  return sliceGates(node, value, axis, first * hidden, count * hidden);
}

// Takes direction `index` of input `input` and drops the axis of directions.
// Null if the input is absent.
Value RecurrentImporter::part(unsigned input, unsigned index) {
  if (!node.hasInput(input))
    return {};
  Value value = sliceGates(node, node.operand(input), 0, index, 1);
  return value ? node.reshape(value, shapeOf(value).drop_front()) : Value();
}

// Checks that all inputs but sequence_lens have the type of X.
LogicalResult RecurrentImporter::readTypes() {
  element = node.operandType(0).getElementType();
  if (!isa<FloatType>(element))
    return node.invalid("expected floats" + node.found({0}));
  for (unsigned index : {1, 2, 3, 5, 6, 7})
    if (node.hasInput(index) &&
        node.operandType(index).getElementType() != element)
      return node.invalid("expected input " + Twine(index) +
                          " to have the element type of X" +
                          node.found({0, index}));
  return success();
}

// Reads the sizes from X and W, and checks the shapes of all other inputs.
LogicalResult RecurrentImporter::readShapes() {
  auto shape = node.operandShape(0), w = node.operandShape(1);
  if (shape.size() != 3 || w.size() != 3)
    return node.invalid("expected X and W of three axes" + node.found({0, 1}));
  length = shape[batchFirst ? 1 : 0];
  batch = shape[batchFirst ? 0 : 1];
  inputSize = shape[2];
  hidden = w[1] / cell.gates;
  if (int64_t size = node.integer("hidden_size", hidden); size != hidden)
    return node.invalid("hidden_size is " + Twine(size) + ", but W has " +
                        Twine(w[1]) + " rows for " + Twine(cell.gates) +
                        " gates");
  if (hidden < 1 || w[1] % cell.gates != 0)
    return node.invalid("expected W to have rows for " + Twine(cell.gates) +
                        " gates, found " + Twine(w[1]));
  if (length < 1 || batch < 1 || inputSize < 1)
    return node.unsupported("expected X without empty axes" + node.found({0}));
  int64_t gates = cell.gates * hidden;
  // ONNX's LSTM has no projection. PyTorch's exporter still writes an LSTM with
  // a projection, as a hidden state smaller than the cell state.
  bool isProjected = node.hasInput(5) && node.hasInput(6) &&
                     node.operandShape(5).size() == 3 &&
                     node.operandShape(6).size() == 3 &&
                     node.operandShape(5).back() < node.operandShape(6).back();
  if (isProjected)
    return node.unsupported(
        "initial_h has " + Twine(node.operandShape(5).back()) +
        " elements for each sample and initial_c " +
        Twine(node.operandShape(6).back()) +
        ": an LSTM with a projection (proj_size of torch.nn.LSTM), whose "
        "weights ONNX's LSTM has no input for; export it without proj_size, "
        "with a torch.nn.Linear behind it, or write its steps as a loop");
  SmallVector<int64_t> state = {batchFirst ? batch : directions,
                                batchFirst ? directions : batch, hidden};
  const std::pair<unsigned, SmallVector<int64_t>> expected[] = {
      {1, {directions, gates, inputSize}},
      {2, {directions, gates, hidden}},
      {3, {directions, 2 * gates}},
      {4, {batch}},
      {5, state},
      {6, state},
      {7, {directions, 3 * hidden}}};
  // Initial states of zeros may have the batch size of the export instead of
  // the current batch size.
  for (const auto &[index, wanted] : expected)
    if (node.hasInput(index) && node.operandShape(index) != ArrayRef(wanted) &&
        !isZeroOfExportedBatch(index)) {
      std::string text;
      llvm::raw_string_ostream os(text);
      os << "expected input " << index << " of shape [";
      llvm::interleaveComma(wanted, os);
      os << "], found [";
      llvm::interleaveComma(node.operandShape(index), os);
      os << "]";
      return node.invalid(text);
    }
  return success();
}

// True if an initial state is all zeros in an import for another batch size.
// Zeros of the new batch size can replace it.
bool RecurrentImporter::isZeroOfExportedBatch(unsigned index) {
  std::optional<HostTensor> state =
      index == 5 || index == 6 ? node.constant(index) : std::nullopt;
  if (!state || !state->isFloat() ||
      !node.getFunction().getModule().getRebatch())
    return false;
  return llvm::all_of(llvm::seq<int64_t>(0, state->getNumElements()),
                      [&](int64_t i) { return state->getDouble(i) == 0; });
}

// Returns the initial state in input `input` of direction `index`, [batch,
// hidden]: zeros if the model gives none.
Value RecurrentImporter::initialState(unsigned input, unsigned index) {
  if (node.hasInput(input) && !isZeroOfExportedBatch(input)) {
    Value value =
        sliceGates(node, node.operand(input), batchFirst ? 1 : 0, index, 1);
    return node.reshape(value, {batch, hidden});
  }
  auto type = RankedTensorType::get({batch, hidden}, element);
  Attribute zeros =
      DenseElementsAttr::get(type, node.attributes().getZeroAttr(element));
  return node.emit<ConstantOp>({}, {node.attribute("value", zeros)}, type);
}

// Computes the product of the inputs and the weights, plus biases, for all
// gates and steps: [length, batch, gates].
Value RecurrentImporter::projectInput(unsigned index) {
  int64_t gates = cell.gates * hidden;
  Value rows = node.reshape(input, {length * batch, inputSize});
  Value product = node.emit<GemmOp>({rows, part(1, index)},
                                    {node.attribute("transB", true)});
  if (Value bias = part(3, index)) {
    Value sum = sliceGates(node, bias, 0, 0, gates);
    // Add the recurrence bias too. With linear_before_reset, the last gate is
    // an exception: the reset gate scales the product together with the bias,
    // so the loop adds it.
    unsigned shared = linearBeforeReset ? cell.gates - 1 : cell.gates;
    Value more = sliceGates(node, bias, 0, gates, shared * hidden);
    if (linearBeforeReset) {
      Value rest = sliceGates(node, sum, 0, shared * hidden, hidden);
      Value first = add(sliceGates(node, sum, 0, 0, shared * hidden), more);
      sum = first && rest
                ? node.emit<ConcatOp>({first, rest},
                                      {node.attribute("axis", int64_t(0))})
                : Value();
    } else {
      sum = add(sum, more);
    }
    product = add(product, sum);
  }
  return product ? node.reshape(product, {length, batch, gates}) : Value();
}

// Returns a mask, [length, batch, 1]: true if step t is within sequence b. Null
// without sequence_lens.
Value RecurrentImporter::createMask() {
  if (!node.hasInput(4))
    return {};
  auto integer = node.attributes().getI32Type();
  auto type = RankedTensorType::get({length, 1, 1}, integer);
  Attribute numbers = DenseIntElementsAttr::get(
      type, llvm::to_vector(llvm::seq<int32_t>(0, length)));
  Value steps =
      node.emit<ConstantOp>({}, {node.attribute("value", numbers)}, type);
  Value lengths = node.reshape(node.operand(4), {1, batch, 1});
  return steps && lengths ? node.emit<LessOp>({steps, lengths}) : Value();
}

Value RecurrentImporter::select(Value mask, Value onTrue, Value onFalse) {
  if (!mask || !onTrue || !onFalse)
    return onTrue;
  return node.emit<SelectOp>({mask, onTrue, onFalse});
}

//===----------------------------------------------------------------------===//
// One direction
//===----------------------------------------------------------------------===//

// Creates the scan of the current direction and records its results. `scanned`
// holds the gates' input and the mask, if any. `prepared` holds values that
// every iteration reads; a null entry is also null for the cell.
LogicalResult RecurrentImporter::addLoop(ArrayRef<Value> carried,
                                         ArrayRef<Value> scanned,
                                         ArrayRef<Value> prepared,
                                         bool isReversed) {
  SmallVector<Value> invariant;
  llvm::copy_if(prepared, std::back_inserter(invariant),
                [](Value value) { return value != nullptr; });
  OpBuilder &builder = node.getFunction().getBuilder();
  // The scan stacks hidden states; for a gradient op, also cell states and
  // gates.
  auto sequence = RankedTensorType::get({length, batch, hidden}, element);
  SmallVector<Type> stacked = {sequence};
  if (isTraining()) {
    stacked.append(cell.states - 1, sequence);
    stacked.push_back(sequence.clone({length, batch, cell.gates * hidden}));
  }
  auto scan = ScanOp::create(builder, node.getLocation(), length, carried,
                             scanned, invariant, stacked,
                             SmallVector<bool>(scanned.size(), isReversed),
                             SmallVector<bool>(stacked.size(), isReversed));
  if (std::optional<Phase> phase = node.getPhase())
    setPhase(scan, *phase);

  // The body reads the previous state, the input of this step, and the values
  // that all steps share.
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&scan.getBody().front());
  SmallVector<Value> old(scan.getCarriedArguments()), arguments;
  const auto *next = scan.getInvariantArguments().begin();
  for (Value value : prepared)
    arguments.push_back(value ? Value(*next++) : Value());
  ArrayRef<BlockArgument> parts = scan.getScannedArguments();
  Value mask = parts.size() > 1 ? Value(parts[1]) : Value();
  // Behind the end of a sequence, the old state stays and the output is 0.
  RecurrentStep step = cell.step(*this, parts[0], old, arguments);
  SmallVector<Value> yielded = step.states;
  for (auto [state, before] : llvm::zip(yielded, old))
    state = select(mask, state, before);
  Value zero = node.scalarConstant(0.0, element);
  yielded.push_back(select(mask, yielded.front(), zero));
  if (isTraining()) {
    llvm::append_range(yielded, ArrayRef(step.states).drop_front());
    yielded.push_back(concatenate(node, step.gates, 1));
  }
  if (node.hasFailed() || llvm::is_contained(yielded, Value()))
    return failure();
  YieldOp::create(builder, node.getLocation(), yielded);
  last.emplace_back(scan.getLast());
  sequences.push_back(scan.getStacked().front());
  llvm::append_range(saved, scan.getStacked().drop_front());
  return success();
}

LogicalResult RecurrentImporter::importDirection(unsigned index) {
  current = index;
  int64_t rows = cell.gates * hidden;
  Value bias = part(3, index);
  SmallVector<Value> carried, scanned = {projectInput(index)};
  for (unsigned state = 0; state < cell.states; ++state)
    carried.push_back(initialState(5 + state, index));
  if (node.hasInput(4))
    scanned.push_back(createMask());
  SmallVector<Value> prepared = cell.prepare(
      *this, part(2, index),
      bias ? sliceGates(node, bias, 0, rows, rows) : Value(), part(7, index));
  for (ArrayRef<Value> values : {ArrayRef(carried), ArrayRef(scanned)})
    if (node.hasFailed() || llvm::is_contained(values, Value()))
      return failure();
  return addLoop(carried, scanned, prepared,
                 direction == "reverse" || index == 1);
}

//===----------------------------------------------------------------------===//
// The node
//===----------------------------------------------------------------------===//

// Stacks one value per direction along a new axis `axis`.
Value RecurrentImporter::stackDirections(ArrayRef<Value> values, int64_t axis) {
  SmallVector<Value> parts;
  for (Value value : values) {
    SmallVector<int64_t> shape(shapeOf(value));
    shape.insert(shape.begin() + axis, 1);
    parts.push_back(node.reshape(value, shape));
  }
  if (parts.size() == 1)
    return parts.front();
  return node.emit<ConcatOp>(parts, {node.attribute("axis", axis)});
}

LogicalResult RecurrentImporter::defineOutputs() {
  SmallVector<Value> all = sequences;
  if (batchFirst)
    for (Value &value : all)
      value = node.emit<TransposeOp>(
          {value}, {node.attribute("perm", ArrayRef<int64_t>{1, 0, 2})});
  LogicalResult result =
      node.define(0, stackDirections(all, batchFirst ? 2 : 1));
  for (unsigned state = 0; state < cell.states; ++state) {
    SmallVector<Value> values;
    for (ArrayRef<Value> states : last)
      values.push_back(states[state]);
    if (failed(node.define(1 + state,
                           stackDirections(values, batchFirst ? 1 : 0))))
      result = failure();
  }
  for (auto [i, value] : llvm::enumerate(saved))
    if (failed(node.define(1 + cell.states + i, stackDirections(value, 1))))
      result = failure();
  return result;
}

LogicalResult RecurrentImporter::import() {
  if (failed(readTypes()) || failed(readAttributes()) || failed(readShapes()))
    return failure();
  // The node's outputs already tell what attribute 'output_sequence' says.
  if (node.getOpset() < 7)
    node.ignore("output_sequence");
  input = node.operand(0);
  if (batchFirst)
    input = node.emit<TransposeOp>(
        {input}, {node.attribute("perm", ArrayRef<int64_t>{1, 0, 2})});
  for (int64_t index = 0; index < directions; ++index)
    if (!input || failed(importDirection(index)))
      return failure();
  return defineOutputs();
}
