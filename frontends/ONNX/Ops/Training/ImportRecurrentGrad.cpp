// Imports ONNX Runtime's LSTMGrad and GRUGrad, which read values that
// LSTMTraining and GRUTraining save.
//
// Each gate applies an activation to a sum: W x + R h + biases. One reverse
// scan over the steps computes the gradients of the gates' sums. The gradients
// of weights and input are products over all steps, after the loop.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// The part of the import that LSTMGrad and GRUGrad share. The node has `gates`
/// gates, and input `states` is the saved hidden states of all steps.
class RecurrentGrad {
public:
  RecurrentGrad(NodeImporter &node, unsigned gates, unsigned states)
      : node(node), gates(gates), states(states) {}

  /// Reads the inputs that both ops have, and checks the shapes of all inputs.
  /// `others` gives the positions and shapes of the inputs that only one op
  /// has.
  LogicalResult
  read(ArrayRef<std::pair<unsigned, SmallVector<int64_t>>> others);

  //===--- Inputs ---===//
  /// Read input `index` without its axis of directions; `steps` and `state`
  /// return zeros if absent.
  Value steps(unsigned index, int64_t width);
  Value state(unsigned index);
  Value matrix(unsigned index);
  /// Returns the state before each step: `first`, then `steps` without the
  /// last.
  Value before(Value steps, Value first);
  Value zeros(ArrayRef<int64_t> shape);

  //===--- Arithmetic ---===//
  /// Each emits one op; null if an operand is null.
  Value add(Value a, Value b) { return node.emit<AddOp>({a, b}); }
  Value sub(Value a, Value b) { return node.emit<SubOp>({a, b}); }
  Value mul(Value a, Value b) { return node.emit<MulOp>({a, b}); }
  /// The operand of a product that is transposed.
  enum class Transposed { None, A, B };
  Value times(Value a, Value b, Transposed factor = Transposed::None) {
    return node.emit<GemmOp>(
        {a, b}, {node.attribute("transA", factor == Transposed::A),
                 node.attribute("transB", factor == Transposed::B)});
  }
  Value sigmoidGrad(Value dy, Value y) {
    return node.emit<SigmoidGradOp>({dy, y});
  }
  Value tanhGrad(Value dy, Value y) { return node.emit<TanhGradOp>({dy, y}); }
  /// Returns gates [index, index + count) of `value`, which lie along the last
  /// axis.
  Value gate(Value value, unsigned index, unsigned count = 1);
  /// Reshapes [steps, batch, width] to rows, [steps * batch, width].
  Value rows(Value steps);
  /// Sums the rows of `rows`, [rows, width], to [width].
  Value sum(Value rows) { return reduce<ReduceSumOp>(node, rows, {0}, false); }

  //===--- The loop ---===//
  /// Creates a reverse loop that carries gradients of states and stacks one
  /// value per step. `body` computes the new carried values and the stacked
  /// value from the carried values, the parts of `scanned`, and `invariant`.
  using Body = llvm::function_ref<SmallVector<Value>(
      ArrayRef<Value> carried, ArrayRef<Value> parts, ArrayRef<Value> rest)>;
  LogicalResult loop(ArrayRef<Value> carried, ArrayRef<Value> scanned,
                     ArrayRef<Value> invariant, Body body);

  //===--- Outputs ---===//
  /// Defines output `index`, if present, as `value` in shape `shape`. Fails if
  /// `value` is null.
  LogicalResult define(unsigned index, Value value, ArrayRef<int64_t> shape);
  /// Defines the outputs dX and dW from `input`, the gradients of the gates'
  /// sums of all steps, and output dR as `recurrence`.
  LogicalResult defineProducts(Value input, Value recurrence);

  NodeImporter &node;
  unsigned gates, states;
  int64_t length = 0, batch = 0, inputSize = 0, hidden = 0;
  Value x, w, r, hBefore;
  SmallVector<Value> last; ///< the carried values after the last iteration
  Value perStep;           ///< the stacked values of all steps
};
} // namespace

//===----------------------------------------------------------------------===//
// Inputs
//===----------------------------------------------------------------------===//

LogicalResult RecurrentGrad::read(
    ArrayRef<std::pair<unsigned, SmallVector<int64_t>>> others) {
  // Only the default form is supported. ONNX Runtime's training graphs contain
  // no other.
  if (node.string("direction", "forward") != "forward" ||
      node.hasAttribute("activations") || node.hasAttribute("clip") ||
      node.integer("input_forget", 0) != 0 || node.hasInput(4))
    return node.unsupported(
        "the gradient is supported only with direction 'forward', the default "
        "activations, and without clip, input_forget and sequence_lens");
  for (unsigned index = 0; index < node.getNumInputs(); ++index)
    if (node.hasInput(index) && node.operandType(index).getElementType() !=
                                    node.operandType(0).getElementType())
      return node.invalid("expected input " + Twine(index) +
                          " to have the element type of X" +
                          node.found({0, index}));
  if (node.operandShape(0).size() != 3 || node.operandShape(2).size() != 3)
    return node.invalid("expected X and R of three axes" + node.found({0, 2}));
  length = node.operandShape(0)[0], batch = node.operandShape(0)[1];
  inputSize = node.operandShape(0)[2], hidden = node.operandShape(2)[2];
  if (node.integer("hidden_size", hidden) != hidden)
    return node.invalid("expected attribute 'hidden_size' to be " +
                        Twine(hidden) + ", as in R, found " +
                        Twine(node.integer("hidden_size", hidden)));
  if (length < 1 || batch < 1 || inputSize < 1 || hidden < 1)
    return node.unsupported("expected X without empty axes" +
                            node.found({0, 2}));
  // The gates are concatenated along one axis. So are the biases of W x and of
  // R h.
  int64_t width = gates * hidden;
  std::vector<std::pair<unsigned, SmallVector<int64_t>>> expected = {
      {1, {1, width, inputSize}},
      {2, {1, width, hidden}},
      {3, {1, 2 * width}},
      {5, {1, batch, hidden}},
      {states, {length, 1, batch, hidden}}};
  llvm::append_range(expected, others);
  for (const auto &[index, shape] : expected)
    if (node.hasInput(index) && node.operandShape(index) != ArrayRef(shape)) {
      std::string text;
      llvm::raw_string_ostream os(text);
      os << "expected input " << index << " of shape [";
      llvm::interleaveComma(shape, os);
      os << "], found [";
      llvm::interleaveComma(node.operandShape(index), os);
      os << "]";
      return node.invalid(text);
    }
  // hBefore: the initial hidden state, then the hidden states of all steps but
  // the last.
  x = node.operand(0);
  w = matrix(1), r = matrix(2);
  hBefore = before(steps(states, hidden), state(5));
  return success();
}

Value RecurrentGrad::zeros(ArrayRef<int64_t> shape) {
  auto type = RankedTensorType::get(shape, elementTypeOf(x));
  Attribute zeros = DenseElementsAttr::get(
      type, node.attributes().getZeroAttr(type.getElementType()));
  return node.emit<ConstantOp>({}, {node.attribute("value", zeros)}, type);
}

Value RecurrentGrad::steps(unsigned index, int64_t width) {
  return node.hasInput(index)
             ? node.reshape(node.operand(index), {length, batch, width})
             : zeros({length, batch, width});
}

Value RecurrentGrad::state(unsigned index) {
  return node.hasInput(index)
             ? node.reshape(node.operand(index), {batch, hidden})
             : zeros({batch, hidden});
}

Value RecurrentGrad::matrix(unsigned index) {
  Value value = node.operand(index);
  return node.reshape(value, node.operandShape(index).drop_front());
}

Value RecurrentGrad::before(Value steps, Value first) {
  first = node.reshape(first, {1, batch, hidden});
  if (length == 1)
    return first;
  Value rest = slice(node, steps, {0, 0, 0}, {length - 1, batch, hidden});
  return concatenate(node, {first, rest}, 0);
}

Value RecurrentGrad::gate(Value value, unsigned index, unsigned count) {
  if (!value)
    return {};
  SmallVector<int64_t> sizes(NodeImporter::shapeOf(value));
  SmallVector<int64_t> offsets(sizes.size(), 0);
  offsets.back() = index * hidden;
  sizes.back() = count * hidden;
  return slice(node, value, offsets, sizes);
}

Value RecurrentGrad::rows(Value steps) {
  return steps ? node.reshape(steps, {length * batch,
                                      NodeImporter::shapeOf(steps).back()})
               : Value();
}

//===----------------------------------------------------------------------===//
// The loop and the outputs
//===----------------------------------------------------------------------===//

LogicalResult RecurrentGrad::loop(ArrayRef<Value> carried,
                                  ArrayRef<Value> scanned,
                                  ArrayRef<Value> invariant, Body body) {
  // A null operand stands for an earlier error: create no loop.
  for (ArrayRef<Value> values : {carried, scanned, invariant})
    if (node.hasFailed() || llvm::is_contained(values, Value()))
      return failure();
  // The scan runs from the last step to the first, so it reads operands and
  // stacks results in reverse.
  OpBuilder &builder = node.getFunction().getBuilder();
  auto all = RankedTensorType::get({length, batch, gates * hidden},
                                   elementTypeOf(carried.front()));
  auto scan = ScanOp::create(builder, node.getLocation(), length, carried,
                             scanned, invariant, TypeRange(all),
                             SmallVector<bool>(scanned.size(), true), true);
  if (std::optional<Phase> phase = node.getPhase())
    setPhase(scan, *phase);
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToEnd(&scan.getBody().front());
  SmallVector<Value> yielded =
      body(SmallVector<Value>(scan.getCarriedArguments()),
           SmallVector<Value>(scan.getScannedArguments()),
           SmallVector<Value>(scan.getInvariantArguments()));
  if (node.hasFailed() || llvm::is_contained(yielded, Value()))
    return failure();
  YieldOp::create(builder, node.getLocation(), yielded);
  // `last`: the gradients of the initial states. `perStep`: the gradients of
  // the gates' sums.
  last.assign(scan.getLast().begin(), scan.getLast().end());
  perStep = scan.getStacked().front();
  return success();
}

LogicalResult RecurrentGrad::define(unsigned index, Value value,
                                    ArrayRef<int64_t> shape) {
  if (!node.hasOutput(index))
    return success();
  return value ? node.define(index, node.reshape(value, shape)) : failure();
}

LogicalResult RecurrentGrad::defineProducts(Value input, Value recurrence) {
  int64_t width = gates * hidden;
  if (failed(define(0, times(input, w), {length, batch, inputSize})))
    return failure();
  Value dw = times(input, rows(x), Transposed::A);
  if (failed(define(1, dw, {1, width, inputSize})))
    return failure();
  return define(2, recurrence, {1, width, hidden});
}

/// Checks that the inputs `saved`, which the forward op has saved, are present.
/// Returns the shape of the first, the hidden states of all steps.
static FailureOr<SmallVector<int64_t>> savedStates(NodeImporter &node,
                                                   ArrayRef<unsigned> saved) {
  for (unsigned index : saved)
    if (!node.hasInput(index))
      return node.invalid("expected input " + Twine(index) +
                          ", an output of the forward op, found none");
  ArrayRef<int64_t> shape = node.operandShape(saved.front());
  if (shape.size() != 4)
    return node.invalid("expected all hidden states in a tensor of four axes" +
                        node.found({saved.front()}));
  return SmallVector<int64_t>(shape);
}

//===----------------------------------------------------------------------===//
// LSTMGrad
//===----------------------------------------------------------------------===//

// Computes one backward step of an LSTM cell. `carried` has the gradients of h
// and c. `parts` has the gates, c, the previous c, and the gradient of h that
// comes from the node's inputs. `rest` has R, and the peepholes if any. Returns
// the gradients of the previous h and c, and of the sums of all gates.
static SmallVector<Value> stepLSTM(NodeImporter &node, RecurrentGrad &grad,
                                   ArrayRef<Value> carried,
                                   ArrayRef<Value> parts,
                                   ArrayRef<Value> rest) {
  Value c = parts[1], cBefore = parts[2];
  auto gate = [&](unsigned index) { return grad.gate(parts[0], index); };
  auto peephole = [&](unsigned index, Value da) {
    return grad.mul(da, grad.gate(rest[1], index));
  };
  // h = o * tanh(c), so the gradient of h is passed to o and c.
  Value dh = grad.add(carried[0], parts[3]);
  Value tanh = node.emit<TanhOp>({c});
  Value out = grad.sigmoidGrad(grad.mul(dh, tanh), gate(1));
  Value dc = grad.add(carried[1], grad.tanhGrad(grad.mul(dh, gate(1)), tanh));
  if (rest.size() > 1)
    dc = grad.add(dc, peephole(1, out));
  // c = f * cBefore + i * g, so the gradient of c is passed to f, cBefore, i
  // and g.
  Value in = grad.sigmoidGrad(grad.mul(dc, gate(3)), gate(0));
  Value forget = grad.sigmoidGrad(grad.mul(dc, cBefore), gate(2));
  Value candidate = grad.tanhGrad(grad.mul(dc, gate(0)), gate(3));
  Value dcBefore = grad.mul(dc, gate(2));
  if (rest.size() > 1)
    dcBefore =
        grad.add(dcBefore, grad.add(peephole(0, in), peephole(2, forget)));
  Value all = concatenate(node, {in, out, forget, candidate}, 1);
  return {grad.times(all, rest[0]), dcBefore, all};
}

// Imports LSTMGrad. Inputs: X, W, R, B, sequence_lens, initial_h, initial_c, P,
// all hidden states, all cell states, gates (input, output, forget, cell). Then
// the gradients of all hidden states, of the last hidden state and of the last
// cell state.
static LogicalResult importLSTMGrad(NodeImporter &node) {
  RecurrentGrad grad(node, 4, 8);
  FailureOr<SmallVector<int64_t>> all = savedStates(node, {8, 9, 10});
  if (failed(all))
    return failure();
  SmallVector<int64_t> hAll = *all;
  int64_t length = hAll[0], batch = hAll[2], hidden = hAll[3];
  SmallVector<int64_t> state = {1, batch, hidden};
  if (failed(grad.read({{6, state},
                        {7, {1, 3 * hidden}},
                        {9, hAll},
                        {10, {length, 1, batch, 4 * hidden}},
                        {11, hAll},
                        {12, state},
                        {13, state}})))
    return failure();
  Value c = grad.steps(9, hidden), gates = grad.steps(10, 4 * hidden);
  Value cBefore = grad.before(c, grad.state(6));
  SmallVector<Value> invariant = {grad.r};
  if (node.hasInput(7))
    invariant.push_back(node.reshape(node.operand(7), {3 * hidden}));
  // Inside the loop only compute the gradients of the gates' sums. One product
  // over all steps is faster than a product per step.
  auto step = [&](ArrayRef<Value> carried, ArrayRef<Value> parts,
                  ArrayRef<Value> rest) {
    return stepLSTM(node, grad, carried, parts, rest);
  };
  if (failed(grad.loop({grad.state(12), grad.state(13)},
                       {gates, c, cBefore, grad.steps(11, hidden)}, invariant,
                       step)))
    return failure();
  Value sums = grad.rows(grad.perStep);
  Value dr =
      grad.times(sums, grad.rows(grad.hBefore), RecurrentGrad::Transposed::A);
  if (failed(grad.defineProducts(sums, dr)))
    return failure();
  // Both biases, of W x and of R h, are added to the same sums, so their
  // gradients are equal.
  Value db = grad.sum(sums);
  if (failed(grad.define(3, concatenate(node, {db, db}, 0), {1, 8 * hidden})) ||
      failed(grad.define(4, grad.last[0], state)) ||
      failed(grad.define(5, grad.last[1], state)))
    return failure();
  // A peephole's weight multiplies the cell state that the gate read: the new c
  // for the output gate, the previous c for the others.
  if (!node.hasOutput(6))
    return success();
  auto peephole = [&](unsigned index, Value cells) {
    return grad.sum(grad.mul(grad.gate(sums, index), grad.rows(cells)));
  };
  Value dp = concatenate(
      node, {peephole(0, cBefore), peephole(1, c), peephole(2, cBefore)}, 0);
  return grad.define(6, dp, {1, 3 * hidden});
}

//===----------------------------------------------------------------------===//
// GRUGrad
//===----------------------------------------------------------------------===//

// Computes one backward step of a GRU cell. `carried` has the gradient of h.
// `parts` has the gates, the previous h, the factor by which the reset gate is
// multiplied, and the gradient of h that comes from the node's inputs. `rest`
// has R of the update and reset gates, and R of the hidden gate. Returns the
// gradients of the previous h and of the sums of all gates.
static SmallVector<Value> stepGRU(NodeImporter &node, RecurrentGrad &grad,
                                  bool resetsProduct, ArrayRef<Value> carried,
                                  ArrayRef<Value> parts, ArrayRef<Value> rest) {
  Value update = grad.gate(parts[0], 0), r = grad.gate(parts[0], 1);
  Value candidate = grad.gate(parts[0], 2), h = parts[1];
  // h' = (1 - z) * g + z * h, so the gradient is passed to z, g and h.
  Value dh = grad.add(carried[0], parts[3]);
  Value dUpdate =
      grad.sigmoidGrad(grad.mul(dh, grad.sub(h, candidate)), update);
  Value kept = grad.mul(dh, update);
  Value dHidden = grad.tanhGrad(grad.sub(dh, kept), candidate);
  // With linear_before_reset, g = tanh(.. + r * (h R^T + b)). Without, g =
  // tanh(.. + (r * h) R^T).
  Value dProduct =
      resetsProduct ? grad.mul(dHidden, r) : grad.times(dHidden, rest[1]);
  Value dReset = grad.sigmoidGrad(
      grad.mul(resetsProduct ? dHidden : dProduct, parts[2]), r);
  Value through =
      resetsProduct ? grad.times(dProduct, rest[1]) : grad.mul(dProduct, r);
  Value both = concatenate(node, {dUpdate, dReset}, 1);
  Value dBefore = grad.add(grad.add(kept, through), grad.times(both, rest[0]));
  return {dBefore, concatenate(node, {both, dHidden}, 1)};
}

// Imports GRUGrad. Inputs: X, W, R, B, sequence_lens, initial_h, all hidden
// states, gates (update, reset, hidden). Then the gradients of all hidden
// states and of the last hidden state.
static LogicalResult importGRUGrad(NodeImporter &node) {
  RecurrentGrad grad(node, 3, 6);
  bool resetsProduct = node.integer("linear_before_reset", 0) != 0;
  FailureOr<SmallVector<int64_t>> all = savedStates(node, {6, 7});
  if (failed(all))
    return failure();
  SmallVector<int64_t> hAll = *all;
  int64_t length = hAll[0], batch = hAll[2], hidden = hAll[3];
  SmallVector<int64_t> state = {1, batch, hidden};
  if (failed(grad.read(
          {{7, {length, 1, batch, 3 * hidden}}, {8, hAll}, {9, state}})))
    return failure();
  Value gates = grad.steps(7, 3 * hidden), h = grad.hBefore;
  // The recurrence weights of the hidden gate are separate, because its product
  // also depends on the reset gate.
  Value rGates = slice(node, grad.r, {0, 0}, {2 * hidden, hidden});
  Value rHidden = slice(node, grad.r, {2 * hidden, 0}, {hidden, hidden});
  // `reset` is the factor by which the reset gate r is multiplied in all steps:
  // h R^T + b with linear_before_reset, otherwise h.
  Value reset = h;
  if (resetsProduct) {
    reset = grad.times(grad.rows(h), rHidden, RecurrentGrad::Transposed::B);
    if (node.hasInput(3))
      reset =
          grad.add(reset, slice(node, grad.matrix(3), {5 * hidden}, {hidden}));
    reset = reset ? node.reshape(reset, {length, batch, hidden}) : Value();
  }
  auto step = [&](ArrayRef<Value> carried, ArrayRef<Value> parts,
                  ArrayRef<Value> rest) {
    return stepGRU(node, grad, resetsProduct, carried, parts, rest);
  };
  if (failed(grad.loop({grad.state(9)},
                       {gates, h, reset, grad.steps(8, hidden)},
                       {rGates, rHidden}, step)))
    return failure();
  // The recurrence weights of the hidden gate have the gradient dHidden^T *
  // from. `dHidden` is the gradient of the gate's recurrent product, and `from`
  // is the operand of that product: h, or r * h.
  Value sums = grad.rows(grad.perStep), before = grad.rows(h);
  Value resets = grad.rows(grad.gate(gates, 1));
  Value dHidden = grad.gate(sums, 2), from = grad.mul(resets, before);
  if (resetsProduct)
    dHidden = grad.mul(dHidden, resets), from = before;
  Value dr = concatenate(
      node,
      {grad.times(grad.gate(sums, 0, 2), before, RecurrentGrad::Transposed::A),
       grad.times(dHidden, from, RecurrentGrad::Transposed::A)},
      0);
  if (failed(grad.defineProducts(sums, dr)))
    return failure();
  Value db = grad.sum(sums), dbHidden = grad.sum(dHidden);
  Value biases = concatenate(node, {db, grad.gate(db, 0, 2), dbHidden}, 0);
  if (failed(grad.define(3, biases, {1, 6 * hidden})))
    return failure();
  return grad.define(4, grad.last[0], state);
}

ArrayRef<OpEntry> mpc::onnx_frontend::getRecurrentGradOps() {
  static const OpEntry entries[] = {
      {kMicrosoft, "GRUGrad", 1, kNoEnd, 3, 10, 5, importGRUGrad},
      {kMicrosoft, "LSTMGrad", 1, kNoEnd, 3, 14, 7, importLSTMGrad},
  };
  return entries;
}
