// Imports LinearAttention as one scan over the steps, which carries a matrix
// per key head, and CausalConvWithState, the convolution that precedes it in
// such models.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

//===----------------------------------------------------------------------===//
// LinearAttention
//===----------------------------------------------------------------------===//

namespace {
/// Builds one LinearAttention node. There are `kv` heads of keys and values.
/// Each has a state, a matrix that `group` query heads read.
class LinearAttention {
public:
  explicit LinearAttention(NodeImporter &node) : node(node) {}

  LogicalResult import();

private:
  LogicalResult readRule();
  LogicalResult readShapes();
  LogicalResult checkGates();
  Value steps(unsigned index, ArrayRef<int64_t> shape);
  SmallVector<Value> collectSteps();
  Value firstState();
  SmallVector<Value> step(Value state, ArrayRef<Value> parts);

  NodeImporter &node;
  bool decays = false, corrects = false;
  int64_t batch = 0, length = 0, kv = 0, group = 0, keySize = 0, valueSize = 0;
  double scale = 1;
  Type compute; ///< the type of the state: at least f32
};
} // namespace

enum LinearAttentionInput { kQuery, kKey, kValue, kPast, kDecay, kBeta };

// Reads the rule that updates the state, and checks that the inputs of the
// rule, decay and beta, are present.
LogicalResult LinearAttention::readRule() {
  node.ignore("chunk_size"); // a hint that changes no result
  std::string rule = node.string("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" &&
      rule != "gated_delta")
    return node.invalid("expected attribute 'update_rule' to be 'linear', "
                        "'gated', 'delta' or 'gated_delta', found '" +
                        rule + "'");
  decays = StringRef(rule).starts_with("gated");
  corrects = StringRef(rule).ends_with("delta");
  const std::pair<unsigned, bool> gates[] = {{kDecay, decays},
                                             {kBeta, corrects}};
  for (auto [index, isRead] : gates)
    if (node.hasInput(index) != isRead)
      return node.invalid(
          "update_rule '" + rule + (isRead ? "' needs" : "' does not take") +
          " input " + Twine(index) + (index == kDecay ? ", decay" : ", beta"));
  return success();
}

LogicalResult LinearAttention::readShapes() {
  for (unsigned index : {kQuery, kKey, kValue})
    if (node.operandShape(index).size() != 3)
      return node.invalid("expected input " + Twine(index) +
                          " of shape [batch, steps, heads * size]" +
                          node.found({index}));
  // `group` query heads share one head of keys and values.
  int64_t queries = node.integer("q_num_heads", 0);
  kv = node.integer("kv_num_heads", 0);
  if (queries < 1 || kv < 1 || queries % kv != 0)
    return node.invalid("expected attribute 'q_num_heads' to be a multiple of "
                        "'kv_num_heads', found " +
                        Twine(queries) + " and " + Twine(kv));
  group = queries / kv;
  ArrayRef<int64_t> query = node.operandShape(kQuery);
  ArrayRef<int64_t> key = node.operandShape(kKey);
  ArrayRef<int64_t> value = node.operandShape(kValue);
  batch = query[0], length = query[1];
  keySize = query[2] / queries, valueSize = value[2] / kv;
  if (query[2] != queries * keySize || value[2] != kv * valueSize ||
      key[2] != kv * keySize || key.take_front(2) != query.take_front(2) ||
      value.take_front(2) != query.take_front(2))
    return node.invalid("expected query [batch, steps, " + Twine(queries) +
                        " heads * size], key [batch, steps, " + Twine(kv) +
                        " heads * size] and value [batch, steps, " + Twine(kv) +
                        " heads * any size]" +
                        node.found({kQuery, kKey, kValue}));
  if (batch < 1 || length < 1 || keySize < 1 || valueSize < 1)
    return node.unsupported("expected inputs without empty axes" +
                            node.found({kQuery, kKey, kValue}));
  // All inputs have one type. The state is f32 or f64, because it sums over all
  // steps.
  Type element = node.operandType(kQuery).getElementType();
  if (!isa<FloatType>(element))
    return node.invalid("expected floats" + node.found({kQuery}));
  for (unsigned index : {kKey, kValue, kDecay, kBeta})
    if (node.hasInput(index) &&
        node.operandType(index).getElementType() != element)
      return node.refuseTypes(element,
                              node.operandType(index).getElementType());
  compute = element.isF64() ? element : Type(node.attributes().getF32Type());
  scale = node.real("scale", 0);
  if (scale == 0)
    scale = 1 / std::sqrt(static_cast<double>(keySize));
  return success();
}

// Checks the shapes of decay (one number per head or per key element), of beta
// (one per head or one for all) and of past_state.
LogicalResult LinearAttention::checkGates() {
  auto hasSize = [&](unsigned index, std::initializer_list<int64_t> sizes) {
    ArrayRef<int64_t> shape = node.operandShape(index);
    return shape.size() == 3 && shape[0] == batch && shape[1] == length &&
           llvm::is_contained(sizes, shape[2]);
  };
  if (decays && !hasSize(kDecay, {kv, kv * keySize}))
    return node.invalid("expected decay of shape [" + Twine(batch) + ", " +
                        Twine(length) + ", " + Twine(kv) + " or " +
                        Twine(kv * keySize) + "]" + node.found({kDecay}));
  if (corrects && !hasSize(kBeta, {kv, 1}))
    return node.invalid("expected beta of shape [" + Twine(batch) + ", " +
                        Twine(length) + ", " + Twine(kv) + " or 1]" +
                        node.found({kBeta}));
  // The state of each head is a matrix of keys by values.
  const int64_t state[] = {batch, kv, keySize, valueSize};
  if (node.hasInput(kPast) && node.operandShape(kPast) != ArrayRef(state))
    return node.invalid("expected past_state of shape " + printShape(state) +
                        node.found({kPast}));
  return success();
}

// Rearranges input `index`, [batch, length, ...], to [length, batch, shape...],
// so that a scan takes one step at a time.
Value LinearAttention::steps(unsigned index, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> apart = {batch, length}, order = {1, 0};
  apart.append(shape.begin(), shape.end());
  for (size_t axis = 2; axis < apart.size(); ++axis)
    order.push_back(axis);
  Value value = castTo(node, node.operand(index), compute);
  return value ? transpose(node, node.reshape(value, apart), order) : Value();
}

// Returns the tensors that the scan takes step by step: queries, keys, values,
// then the decay factors and the correction rates (beta), if any.
SmallVector<Value> LinearAttention::collectSteps() {
  SmallVector<Value> all = {steps(kQuery, {kv, group, keySize}),
                            steps(kKey, {kv, keySize, 1}),
                            steps(kValue, {kv, 1, valueSize})};
  if (decays) {
    int64_t each = node.operandShape(kDecay)[2] / kv;
    all.push_back(node.emit<ExpOp>({steps(kDecay, {kv, each, 1})}));
  }
  if (corrects)
    all.push_back(steps(kBeta, {node.operandShape(kBeta)[2], 1, 1}));
  return all;
}

Value LinearAttention::firstState() {
  if (node.hasInput(kPast))
    return castTo(node, node.operand(kPast), compute);
  return expand(node, numberConstant(node, 0, compute),
                {batch, kv, keySize, valueSize});
}

// Computes one step of the scan: the new state, and the result that the queries
// read from the new state.
SmallVector<Value> LinearAttention::step(Value state, ArrayRef<Value> parts) {
  Value query = parts[0], key = parts[1], value = parts[2];
  if (decays)
    state = node.emit<MulOp>({state, parts[3]});
  // Add only the difference between the value and what the state already
  // returns for this key.
  if (corrects) {
    Value known = node.emit<MatMulOp>(
        {node.reshape(key, {batch, kv, 1, keySize}), state});
    value = node.emit<MulOp>({parts.back(), node.emit<SubOp>({value, known})});
  }
  state = node.emit<AddOp>({state, node.emit<MulOp>({key, value})});
  return {state, node.emit<MatMulOp>({query, state},
                                     {node.attribute("alpha", scale)})};
}

LogicalResult LinearAttention::import() {
  if (failed(readRule()) || failed(readShapes()) || failed(checkGates()))
    return failure();
  SmallVector<Value> scanned = collectSteps();
  Value first = firstState();
  if (!first || llvm::is_contained(scanned, Value()))
    return failure();
  OpBuilder &builder = node.getFunction().getBuilder();
  Type all =
      RankedTensorType::get({length, batch, kv, group, valueSize}, compute);
  auto scan = ScanOp::create(builder, node.getLocation(), length, first,
                             scanned, ValueRange(), TypeRange(all),
                             SmallVector<bool>(scanned.size(), false), false);
  if (std::optional<Phase> phase = node.getPhase())
    setPhase(scan, *phase);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&scan.getBody().front());
    SmallVector<Value> yielded =
        step(scan.getCarriedArguments().front(),
             SmallVector<Value>(scan.getScannedArguments()));
    if (node.hasFailed() || llvm::is_contained(yielded, Value()))
      return failure();
    YieldOp::create(builder, node.getLocation(), yielded);
  }
  // Convert the scan's results to the node's axis order and types.
  Type element = node.operandType(kQuery).getElementType();
  Value output = transpose(node, scan.getStacked().front(), {1, 0, 2, 3, 4});
  output = castTo(node,
                  node.reshape(output, {batch, length, kv * group * valueSize}),
                  element);
  Type stateType =
      node.hasInput(kPast) ? node.operandType(kPast).getElementType() : element;
  if (node.hasOutput(1) &&
      failed(node.define(1, castTo(node, scan.getLast().front(), stateType))))
    return failure();
  return node.define(0, output);
}

static LogicalResult importLinearAttention(NodeImporter &node) {
  return LinearAttention(node).import();
}

//===----------------------------------------------------------------------===//
// CausalConvWithState
//===----------------------------------------------------------------------===//

// Returns the last `size` positions of x. If x is shorter, positions of `past`
// come in front, or zeros if `past` is null.
static Value lastPositions(NodeImporter &node, Value x, Value past,
                           int64_t size) {
  SmallVector<int64_t> shape(NodeImporter::shapeOf(x));
  int64_t missing = size - shape[2];
  if (missing > 0) {
    Value zero = numberConstant(node, 0, elementTypeOf(x));
    Value before = past ? slice(node, past, {0, 0, shape[2]},
                                {shape[0], shape[1], missing})
                        : expand(node, zero, {shape[0], shape[1], missing});
    return concatenate(node, {before, x}, 2);
  }
  return slice(node, x, {0, 0, -missing}, {shape[0], shape[1], size});
}

// Imports CausalConvWithState: convolves each channel, so that a result depends
// on its own and earlier positions. `past_state` holds the positions before the
// first.
static LogicalResult importCausalConv(NodeImporter &node) {
  SmallVector<int64_t> shape(node.operandShape(0)),
      weight(node.operandShape(1));
  // One filter per channel, as in a depthwise convolution.
  if (shape.size() != 3 || weight.size() != 3 || weight[0] != shape[1] ||
      weight[1] != 1 || weight[2] < 1)
    return node.invalid("expected an input of shape [batch, channels, length] "
                        "and a weight of shape [channels, 1, size]" +
                        node.found({0, 1}));
  int64_t before = weight[2] - 1;
  std::string activation = node.string("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return node.invalid("expected attribute 'activation' to be 'none', 'silu' "
                        "or 'swish', found '" +
                        activation + "'");
  // The state holds the last `size - 1` positions before the input.
  const int64_t state[] = {shape[0], shape[1], before};
  Value x = node.operand(0), past;
  if (node.hasInput(3)) {
    if (node.operandShape(3) != ArrayRef(state))
      return node.invalid("expected past_state of shape " + printShape(state) +
                          node.found({3}));
    past = before ? node.operand(3) : Value();
  }
  Value whole = past ? concatenate(node, {past, x}, 2) : x;
  const int64_t one[] = {1}, pads[] = {past ? 0 : before, 0};
  // Without a past, zero padding stands for the past.
  SmallVector<Value> operands = {whole, node.operand(1)};
  if (node.hasInput(2))
    operands.push_back(node.operand(2));
  Value y =
      node.emit<ConvOp>(operands, {node.attribute("strides", ArrayRef(one)),
                                   node.attribute("pads", ArrayRef(pads)),
                                   node.attribute("dilations", ArrayRef(one)),
                                   node.attribute("group", shape[1])});
  if (activation != "none")
    y = node.emit<SwishOp>({y}, {node.attribute("alpha", 1.0)});
  // With a weight of size 1, the state has no positions.
  if (!node.hasOutput(1))
    return node.define(0, y);
  if (before == 0) {
    auto none = RankedTensorType::get(state, elementTypeOf(x));
    (void)node.define(1, HostTensor::allocate(none).first);
  } else {
    (void)node.define(1, lastPositions(node, x, past, before));
  }
  return node.define(0, y);
}

ArrayRef<OpEntry> mpc::onnx_frontend::getLinearAttentionOps() {
  static const OpEntry entries[] = {
      {"", "CausalConvWithState", 27, kNoEnd, 2, 4, 2, importCausalConv},
      {"", "LinearAttention", 27, kNoEnd, 3, 6, 2, importLinearAttention},
  };
  return entries;
}
