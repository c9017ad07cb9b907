// LSTM, GRU and RNN: one scan for each direction.
//
// What the gates take from the input is one product for all steps, before the
// loop. Padded steps, which sequence_lens tells, change no state and give
// zeros.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Importer.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;
using AttributeProto = proto::AttributeProto;

namespace {
/// A function of a gate, with its parameters.
struct Activation {
  std::string name;
  std::optional<double> alpha, beta;
};

class RecurrentImporter;

/// What tells the three ops apart.
struct Cell {
  unsigned gates, states;
  /// The functions of a direction; an absent one has no default.
  SmallVector<StringRef, 3> activations;
  /// What an iteration reads beside the input and the states, of the weights
  /// and the bias of recurrence and the peepholes of a direction.
  SmallVector<Value> (*prepare)(RecurrentImporter &importer, Value r, Value rb,
                                Value p);
  /// New states of what the gates take from the input, the old states and what
  /// `prepare` gave. The first is what a step gives.
  SmallVector<Value> (*step)(RecurrentImporter &importer, Value x,
                             ArrayRef<Value> states, ArrayRef<Value> prepared);
};

class RecurrentImporter {
public:
  RecurrentImporter(NodeImporter &node, const Cell &cell)
      : node(node), cell(cell) {}

  LogicalResult import();

  //===--- For cells ---===//
  NodeImporter &getNode() { return node; }
  bool joinsInputGate() const { return inputForget; }
  bool resetsProduct() const { return linearBeforeReset; }
  int64_t getHidden() const { return hidden; }
  /// h times the transposed weights.
  Value recur(Value h, Value r) {
    return node.emit<GemmOp>({h, r}, {node.attribute("transB", true)});
  }
  Value add(Value a, Value b) { return node.emit<AddOp>({a, b}); }
  Value mul(Value a, Value b) { return node.emit<MulOp>({a, b}); }
  Value one(Value like) { return node.scalarConstant(1.0, elementOf(like)); }
  /// Gates [first, first + count) of `value` along its axis `axis`.
  Value gates(Value value, unsigned first, unsigned count, int64_t axis);
  /// Function `index` of the direction, of a gate, which is clipped first, or
  /// of a state, which is not.
  Value activate(unsigned index, Value x);
  Value activateState(unsigned index, Value x) {
    return x ? apply(activations[current * cell.activations.size() + index], x)
             : Value();
  }

private:
  LogicalResult readTypes();
  LogicalResult readShapes();
  LogicalResult readAttributes();
  LogicalResult readActivations();
  bool isZeroOfExportedBatch(unsigned index);
  LogicalResult addLoop(ArrayRef<Value> carried, ArrayRef<Value> scanned,
                        ArrayRef<Value> prepared, bool isReversed);
  LogicalResult importDirection(unsigned index);
  LogicalResult defineOutputs();
  Value part(unsigned input, unsigned index);
  Value initialState(unsigned input, unsigned index);
  Value projectInput(unsigned index);
  Value createMask();
  Value select(Value mask, Value onTrue, Value onFalse);
  Value stackDirections(ArrayRef<Value> values, int64_t axis);
  Value apply(const Activation &activation, Value x);

  NodeImporter &node;
  const Cell &cell;
  int64_t length = 0, batch = 0, inputSize = 0, hidden = 0, directions = 1;
  Type element;
  bool batchFirst = false, inputForget = false, linearBeforeReset = false;
  std::optional<double> clip;
  std::string direction;
  SmallVector<Activation> activations;
  unsigned current = 0; ///< the direction
  Value input;          ///< [length, batch, inputSize]
  /// By direction: all steps, and the states after the last.
  SmallVector<Value> sequences;
  SmallVector<SmallVector<Value>> last;
};
} // namespace

//===----------------------------------------------------------------------===//
// Attributes
//===----------------------------------------------------------------------===//

LogicalResult RecurrentImporter::readAttributes() {
  batchFirst = node.integer("layout", 0) != 0;
  inputForget = node.integer("input_forget", 0) != 0;
  linearBeforeReset = node.integer("linear_before_reset", 0) != 0;
  if (node.hasAttribute("clip"))
    clip = node.real("clip", 0.0);
  if (clip && !(*clip >= 0))
    return node.invalid("expected attribute 'clip' of at least 0");
  direction = node.string("direction", "forward");
  if (direction != "forward" && direction != "reverse" &&
      direction != "bidirectional")
    return node.invalid("expected attribute 'direction' to be 'forward', "
                        "'reverse' or 'bidirectional', found '" +
                        direction + "'");
  directions = direction == "bidirectional" ? 2 : 1;
  return readActivations();
}

// Whether the function has parameters alpha and beta, and their defaults.
static std::optional<Activation> findActivation(StringRef name) {
  static const Activation known[] = {{"Affine", 1.0, 0.0},
                                     {"Elu", 1.0, {}},
                                     {"HardSigmoid", 0.2, 0.5},
                                     {"LeakyRelu", 0.01, {}},
                                     {"Relu", {}, {}},
                                     {"ScaledTanh", 1.0, 1.0},
                                     {"Sigmoid", {}, {}},
                                     {"Softplus", {}, {}},
                                     {"Softsign", {}, {}},
                                     {"Tanh", {}, {}},
                                     {"ThresholdedRelu", 1.0, {}}};
  for (const Activation &activation : known)
    if (name.equals_insensitive(activation.name))
      return activation;
  return std::nullopt;
}

// Names of functions and their parameters, which those that have any take in
// turn.
LogicalResult RecurrentImporter::readActivations() {
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
                        " activations, found " + Twine(names.size()));
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
    std::optional<Activation> activation = findActivation(name);
    if (!activation)
      return node.unsupported("activation '" + name + "' is not known");
    if (activation->alpha && nextAlpha < alphas.size())
      activation->alpha = alphas[nextAlpha++];
    if (activation->beta && nextBeta < betas.size())
      activation->beta = betas[nextBeta++];
    activations.push_back(*activation);
  }
  return success();
}

Value RecurrentImporter::apply(const Activation &activation, Value x) {
  auto alpha = [&] { return node.attribute("alpha", *activation.alpha); };
  auto constant = [&](std::optional<double> value) {
    return node.scalarConstant(*value, elementOf(x));
  };
  StringRef name = activation.name;
  if (name == "Affine")
    return add(mul(x, constant(activation.alpha)), constant(activation.beta));
  if (name == "Elu")
    return node.emit<EluOp>({x}, {alpha()});
  if (name == "HardSigmoid")
    return node.emit<HardSigmoidOp>(
        {x}, {alpha(), node.attribute("beta", *activation.beta)});
  if (name == "LeakyRelu")
    return node.emit<LeakyReluOp>({x}, {alpha()});
  if (name == "Relu")
    return node.emit<ReluOp>({x});
  if (name == "ScaledTanh")
    return mul(node.emit<TanhOp>({mul(x, constant(activation.beta))}),
               constant(activation.alpha));
  if (name == "Sigmoid")
    return node.emit<SigmoidOp>({x});
  if (name == "Softplus")
    return node.emit<SoftplusOp>({x});
  if (name == "Softsign")
    return node.emit<SoftsignOp>({x});
  if (name == "ThresholdedRelu")
    return node.emit<ThresholdedReluOp>({x}, {alpha()});
  return node.emit<TanhOp>({x});
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

// Elements [offset, offset + size) along `axis`.
static Value slice(NodeImporter &node, Value value, int64_t axis,
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
  return slice(node, value, axis, first * hidden, count * hidden);
}

// What input `input` has for direction `index`, along its first axis; null
// where there is no such input.
Value RecurrentImporter::part(unsigned input, unsigned index) {
  if (!node.hasInput(input))
    return {};
  Value value = slice(node, node.operand(input), 0, index, 1);
  return value ? node.reshape(value, shapeOf(value).drop_front()) : Value();
}

// All inputs but sequence_lens have the type of X.
LogicalResult RecurrentImporter::readTypes() {
  element = node.operandType(0).getElementType();
  if (!isa<FloatType>(element))
    return node.invalid("expected floats");
  for (unsigned index : {1, 2, 3, 5, 6, 7})
    if (node.hasInput(index) &&
        node.operandType(index).getElementType() != element)
      return node.invalid("expected input " + Twine(index) +
                          " to have the element type of X");
  return success();
}

// The shapes of all inputs, against each other.
LogicalResult RecurrentImporter::readShapes() {
  auto shape = node.operandShape(0), w = node.operandShape(1);
  if (shape.size() != 3 || w.size() != 3)
    return node.invalid("expected X and W of three axes");
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
    return node.unsupported("expected an element of each axis of X at least");
  int64_t gates = cell.gates * hidden;
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

// Whether an initial state is zeros for the batch that the model was exported
// with: zeros for this one stand for it.
bool RecurrentImporter::isZeroOfExportedBatch(unsigned index) {
  std::optional<HostTensor> state =
      index == 5 || index == 6 ? node.constant(index) : std::nullopt;
  if (!state || !state->isFloat() ||
      !node.getFunction().getModule().getRebatch())
    return false;
  return llvm::all_of(llvm::seq<int64_t>(0, state->getNumElements()),
                      [&](int64_t i) { return state->getDouble(i) == 0; });
}

// [batch, hidden], zeros where the model gives none.
Value RecurrentImporter::initialState(unsigned input, unsigned index) {
  if (node.hasInput(input) && !isZeroOfExportedBatch(input)) {
    Value value =
        slice(node, node.operand(input), batchFirst ? 1 : 0, index, 1);
    return node.reshape(value, {batch, hidden});
  }
  auto type = RankedTensorType::get({batch, hidden}, element);
  Attribute zeros =
      DenseElementsAttr::get(type, node.attributes().getZeroAttr(element));
  return node.create<ConstantOp>({}, {node.attribute("value", zeros)}, type);
}

// What the gates take from the input, of all steps: [length, batch, gates].
Value RecurrentImporter::projectInput(unsigned index) {
  int64_t gates = cell.gates * hidden;
  Value rows = node.reshape(input, {length * batch, inputSize});
  Value product = node.emit<GemmOp>({rows, part(1, index)},
                                    {node.attribute("transB", true)});
  if (Value bias = part(3, index)) {
    Value sum = slice(node, bias, 0, 0, gates);
    // The bias of recurrence too, but for what a reset gate takes part in.
    unsigned shared = linearBeforeReset ? cell.gates - 1 : cell.gates;
    Value more = slice(node, bias, 0, gates, shared * hidden);
    if (linearBeforeReset) {
      Value rest = slice(node, sum, 0, shared * hidden, hidden);
      Value first = add(slice(node, sum, 0, 0, shared * hidden), more);
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

// Whether step t is one of sequence b: [length, batch, 1].
Value RecurrentImporter::createMask() {
  if (!node.hasInput(4))
    return {};
  auto integer = node.attributes().getI32Type();
  auto type = RankedTensorType::get({length, 1, 1}, integer);
  Attribute numbers = DenseIntElementsAttr::get(
      type, llvm::to_vector(llvm::seq<int32_t>(0, length)));
  Value steps =
      node.create<ConstantOp>({}, {node.attribute("value", numbers)}, type);
  Value lengths = node.reshape(node.operand(4), {1, batch, 1});
  return steps && lengths ? node.emit<LessOp>({steps, lengths}) : Value();
}

Value RecurrentImporter::select(Value mask, Value onTrue, Value onFalse) {
  if (!mask || !onTrue || !onFalse)
    return onTrue;
  return node.emit<SelectOp>({mask, onTrue, onFalse});
}

//===----------------------------------------------------------------------===//
// A direction
//===----------------------------------------------------------------------===//

// The loop of the current direction, given what it carries, scans (the gates'
// input, and a mask where there is one) and reads in each iteration, which may
// be null. Adds its results.
LogicalResult RecurrentImporter::addLoop(ArrayRef<Value> carried,
                                         ArrayRef<Value> scanned,
                                         ArrayRef<Value> prepared,
                                         bool isReversed) {
  SmallVector<Value> invariant;
  llvm::copy_if(prepared, std::back_inserter(invariant),
                [](Value value) { return value != nullptr; });
  OpBuilder &builder = node.getFunction().getBuilder();
  auto sequence = RankedTensorType::get({length, batch, hidden}, element);
  auto scan =
      ScanOp::create(builder, node.getLocation(), length, carried, scanned,
                     invariant, TypeRange(sequence),
                     SmallVector<bool>(scanned.size(), isReversed), isReversed);
  if (StringRef phase = node.getPhase(); !phase.empty())
    scan->setAttr(kPhaseAttr, builder.getStringAttr(phase));

  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&scan.getBody().front());
  SmallVector<Value> old(scan.getCarriedArguments()), arguments;
  const auto *next = scan.getInvariantArguments().begin();
  for (Value value : prepared)
    arguments.push_back(value ? Value(*next++) : Value());
  ArrayRef<BlockArgument> parts = scan.getScannedArguments();
  Value mask = parts.size() > 1 ? Value(parts[1]) : Value();
  SmallVector<Value> yielded = cell.step(*this, parts[0], old, arguments);
  for (auto [state, before] : llvm::zip(yielded, old))
    state = select(mask, state, before);
  Value zero = node.scalarConstant(0.0, element);
  yielded.push_back(select(mask, yielded.front(), zero));
  if (node.hasFailed() || llvm::is_contained(yielded, Value()))
    return failure();
  YieldOp::create(builder, node.getLocation(), yielded);
  last.emplace_back(scan.getLast());
  sequences.push_back(scan.getStacked().front());
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
      *this, part(2, index), bias ? slice(node, bias, 0, rows, rows) : Value(),
      part(7, index));
  for (ArrayRef<Value> values : {ArrayRef(carried), ArrayRef(scanned)})
    if (node.hasFailed() || llvm::is_contained(values, Value()))
      return failure();
  return addLoop(carried, scanned, prepared,
                 direction == "reverse" || index == 1);
}

//===----------------------------------------------------------------------===//
// The node
//===----------------------------------------------------------------------===//

// The values of all directions, along a new axis `axis`.
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
  return result;
}

LogicalResult RecurrentImporter::import() {
  if (failed(readTypes()) || failed(readAttributes()) || failed(readShapes()))
    return failure();
  input = node.operand(0);
  if (batchFirst)
    input = node.emit<TransposeOp>(
        {input}, {node.attribute("perm", ArrayRef<int64_t>{1, 0, 2})});
  for (int64_t index = 0; index < directions; ++index)
    if (!input || failed(importDirection(index)))
      return failure();
  return defineOutputs();
}

//===----------------------------------------------------------------------===//
// The cells
//===----------------------------------------------------------------------===//

// Gates: input, output, forget, cell; states: hidden, cell. Peepholes: input,
// output, forget.
static LogicalResult importLSTM(NodeImporter &node) {
  static const Cell cell = {
      4,
      2,
      {"Sigmoid", "Tanh", "Tanh"},
      [](RecurrentImporter &, Value r, Value, Value p) {
        return SmallVector<Value>{r, p};
      },
      [](RecurrentImporter &lstm, Value x, ArrayRef<Value> states,
         ArrayRef<Value> prepared) {
        Value h = states[0], c = states[1], r = prepared[0], p = prepared[1];
        Value sum = lstm.add(x, lstm.recur(h, r));
        auto gate = [&](unsigned index, unsigned peephole, Value of) {
          Value value = lstm.gates(sum, index, 1, 1);
          if (p && of)
            value =
                lstm.add(value, lstm.mul(lstm.gates(p, peephole, 1, 0), of));
          return value;
        };
        Value in = lstm.activate(0, gate(0, 0, c));
        Value forget = lstm.joinsInputGate() && in
                           ? lstm.getNode().emit<SubOp>({lstm.one(in), in})
                           : lstm.activate(0, gate(2, 2, c));
        Value candidate = lstm.activate(1, gate(3, 0, Value()));
        Value next = lstm.add(lstm.mul(forget, c), lstm.mul(in, candidate));
        Value out = lstm.activate(0, gate(1, 1, next));
        return SmallVector<Value>{lstm.mul(out, lstm.activateState(2, next)),
                                  next};
      }};
  return RecurrentImporter(node, cell).import();
}

// Gates: update, reset, hidden.
static LogicalResult importGRU(NodeImporter &node) {
  static const Cell cell = {
      3,
      1,
      {"Sigmoid", "Tanh"},
      [](RecurrentImporter &gru, Value r, Value rb, Value) {
        bool separate = gru.resetsProduct();
        return SmallVector<Value>{separate ? r : gru.gates(r, 0, 2, 0),
                                  separate ? Value() : gru.gates(r, 2, 1, 0),
                                  separate && rb ? gru.gates(rb, 2, 1, 0)
                                                 : Value()};
      },
      [](RecurrentImporter &gru, Value x, ArrayRef<Value> states,
         ArrayRef<Value> prepared) {
        Value h = states[0], product = gru.recur(h, prepared[0]);
        auto gate = [&](unsigned index) {
          return gru.activate(0, gru.add(gru.gates(x, index, 1, 1),
                                         gru.gates(product, index, 1, 1)));
        };
        Value update = gate(0), reset = gate(1), from;
        if (gru.resetsProduct()) {
          from = gru.gates(product, 2, 1, 1);
          if (prepared[2])
            from = gru.add(from, prepared[2]);
          from = gru.mul(reset, from);
        } else {
          from = gru.recur(gru.mul(reset, h), prepared[1]);
        }
        Value hidden = gru.activate(1, gru.add(gru.gates(x, 2, 1, 1), from));
        if (!update)
          return SmallVector<Value>{Value()};
        Value rest = gru.getNode().emit<SubOp>({gru.one(update), update});
        return SmallVector<Value>{
            gru.add(gru.mul(rest, hidden), gru.mul(update, h))};
      }};
  return RecurrentImporter(node, cell).import();
}

static LogicalResult importRNN(NodeImporter &node) {
  static const Cell cell = {
      1,
      1,
      {"Tanh"},
      [](RecurrentImporter &, Value r, Value, Value) {
        return SmallVector<Value>{r};
      },
      [](RecurrentImporter &rnn, Value x, ArrayRef<Value> states,
         ArrayRef<Value> prepared) {
        return SmallVector<Value>{
            rnn.activate(0, rnn.add(x, rnn.recur(states[0], prepared[0])))};
      }};
  return RecurrentImporter(node, cell).import();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getRecurrentOps() {
  static const OpEntry entries[] = {
      {"", "GRU", 7, kNoEnd, 3, 6, 2, importGRU},
      {"", "LSTM", 7, kNoEnd, 3, 8, 3, importLSTM},
      {"", "RNN", 7, kNoEnd, 3, 6, 2, importRNN},
  };
  return entries;
}
