// Attention, in one op or of products and a softmax, and rotary embeddings.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/NN/AttentionHeads.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

static constexpr double kHidden = -std::numeric_limits<double>::infinity();

static Value multiply(NodeImporter &node, Value x, double factor) {
  return x ? node.emit<MulOp>(
                 {x, numberConstant(node, factor, elementTypeOf(x))})
           : Value();
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
/// One Attention node: softmax(Q * K^T * scale + mask) * V for each head. A
/// head of keys and values may serve several of queries; these then have an
/// axis of their own behind that of the heads.
class AttentionBuilder {
public:
  explicit AttentionBuilder(NodeImporter &node) : node(node) {}
  LogicalResult build();

private:
  LogicalResult readHeads();
  LogicalResult appendToCache();
  LogicalResult checkShapes();
  Value shareHeads(Value value, int64_t heads);
  Value score();
  LogicalResult readMask();
  LogicalResult readLengths();
  LogicalResult readWindow();
  Value placeQueries();
  int64_t getScoresRank() const { return queryHeads == heads ? 4 : 5; }
  void alsoSee(Value isSeen);
  Value addBias(Value scores);
  Value cap(Value scores);
  Value hide(Value scores);
  bool mayHideAllKeys() const { return mask || bias; }
  bool isCapped() { return node.real("softcap", 0) > 0; }
  bool isCausal() { return node.integer("is_causal", 0) != 0; }
  /// Whether the order of keys is not in the mask.
  bool hasCausalOffset() { return isCausal() && !node.hasInput(6); }
  Value normalize(Value scores);
  Value mix(Value weights);
  LogicalResult defineScores(int64_t mode, Value scores);
  bool isOneOp();
  Value buildOneOp();
  Value buildParts();

  NodeImporter &node;
  Value query, key, value;
  /// What is added to the scores, and which of them are seen; null: none, all.
  Value bias, mask;
  /// Of each sample, how many keys there are; null: all.
  Value lengths;
  int64_t batch = 0, queryHeads = 0, heads = 0;
  int64_t queries = 0, keys = 0, past = 0;
};
} // namespace

/// Queries, keys and values as [batch, heads, tokens, size].
LogicalResult AttentionBuilder::readHeads() {
  Value *const inputs[] = {&query, &key, &value};
  int64_t counts[] = {node.integer("q_num_heads", 0),
                      node.integer("kv_num_heads", 0), 0};
  counts[2] = counts[1];
  size_t rank = node.operandShape(0).size();
  for (unsigned i = 0; i < 3; ++i) {
    if (node.operandShape(i).size() != rank || (rank != 3 && rank != 4))
      return node.invalid("expected query, key and value of rank 3 or 4");
    *inputs[i] = node.operand(i);
    if (rank == 4)
      continue;
    FailureOr<Value> apart = splitHeads(node, *inputs[i], counts[i]);
    if (failed(apart))
      return failure();
    *inputs[i] = transpose(node, *apart, {0, 2, 1, 3});
  }
  return success(query && key && value);
}

/// Keys and values of earlier tokens go in front of those of these.
LogicalResult AttentionBuilder::appendToCache() {
  if (node.hasInput(4) != node.hasInput(5))
    return node.invalid("expected both past_key and past_value or neither");
  if (node.hasInput(4)) {
    if (node.operandShape(4).size() != 4 || node.operandShape(5).size() != 4)
      return node.invalid("expected past_key and past_value of rank 4");
    past = node.operandShape(4)[2];
    key = concatenate(node, {node.operand(4), key}, 2);
    value = concatenate(node, {node.operand(5), value}, 2);
  }
  if (!key || !value)
    return failure();
  (void)node.define(1, key);
  (void)node.define(2, value);
  return success();
}

LogicalResult AttentionBuilder::checkShapes() {
  ArrayRef<int64_t> q = NodeImporter::shapeOf(query);
  ArrayRef<int64_t> k = NodeImporter::shapeOf(key);
  ArrayRef<int64_t> v = NodeImporter::shapeOf(value);
  batch = q[0], queryHeads = q[1], queries = q[2], heads = k[1], keys = k[2];
  if (k[0] != batch || v[0] != batch || v[1] != heads || v[2] != keys ||
      k[3] != q[3])
    return node.invalid("query, key and value do not fit each other");
  if (heads == 0 || queryHeads % heads != 0)
    return node.invalid(Twine(heads) + " heads of keys do not divide " +
                        Twine(queryHeads) + " of queries");
  return success();
}

/// Splits the axis of query heads in two, key heads and the query heads that
/// share each: [batch, 8, ...] is [batch, 2, 4, ...] of two key heads. A tensor
/// that is one for all heads gets two axes of size 1.
Value AttentionBuilder::shareHeads(Value value, int64_t count) {
  if (!value || queryHeads == heads)
    return value;
  SmallVector<int64_t> shape(NodeImporter::shapeOf(value));
  shape[1] = count == 1 ? 1 : heads;
  shape.insert(shape.begin() + 2, count == queryHeads ? queryHeads / heads : 1);
  return node.reshape(value, shape);
}

/// The products of queries and keys. Each factor takes the root of the scale:
/// no product of theirs needs a wider range than the scaled one has.
Value AttentionBuilder::score() {
  double size = NodeImporter::shapeOf(query).back();
  double scale = node.real("scale", 1 / std::sqrt(size));
  double root = std::sqrt(std::abs(scale));
  Value left = multiply(node, query, std::copysign(root, scale));
  Value right = multiply(node, transpose(node, key, {0, 1, 3, 2}), root);
  left = shareHeads(left, queryHeads);
  right = shareHeads(right, heads);
  return node.emit<MatMulOp>({left, right});
}

/// Reads input 'attn_mask', which broadcasts to the scores: booleans that are
/// true where a key is seen, or floats that are added to scores. Keys behind
/// the end of a short mask are not seen.
LogicalResult AttentionBuilder::readMask() {
  if (!node.hasInput(3))
    return success();
  Value given = node.operand(3);
  SmallVector<int64_t> shape(node.operandShape(3));
  if (shape.empty() || shape.size() > 4)
    return node.invalid("expected attn_mask of rank 1 to 4");
  // Keys that the mask does not reach are hidden.
  bool isBoolean = elementTypeOf(given).isInteger(1);
  if (int64_t missing = keys - shape.back(); missing > 0) {
    SmallVector<int64_t> rest(shape);
    rest.back() = missing;
    Type element = elementTypeOf(given);
    Value hidden = numberConstant(node, isBoolean ? 0 : kHidden, element);
    given = concatenate(node, {given, expand(node, hidden, rest)},
                        shape.size() - 1);
    shape.back() = keys;
  }
  // It broadcasts to [batch, heads, queries, keys].
  SmallVector<int64_t> whole = {batch, queryHeads, queries, keys};
  auto spread = broadcastShapes(whole, shape);
  if (failed(spread) || *spread != whole)
    return node.invalid("attn_mask does not broadcast to the scores");
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  given = shareHeads(node.reshape(given, shape), shape[1]);
  if (!given)
    return failure();
  // Booleans choose; numbers are added to the scores.
  if (isBoolean)
    mask = given;
  else
    bias = castTo(node, given, elementTypeOf(query));
  return success();
}

/// Hides the keys where `isSeen` is false, beside those the mask hides already.
void AttentionBuilder::alsoSee(Value isSeen) {
  mask = mask ? node.emit<AndOp>({mask, isSeen}) : isSeen;
}

/// Input 'nonpad_kv_seqlen': of each sample, how many keys are seen at most.
/// Its last query sees all of them, where queries see the keys up to their own.
LogicalResult AttentionBuilder::readLengths() {
  if (!node.hasInput(6))
    return success();
  if (node.operandShape(6) != ArrayRef<int64_t>(batch))
    return node.invalid("expected nonpad_kv_seqlen of shape [" + Twine(batch) +
                        "]");
  if (node.hasInput(4))
    return node.invalid("expected nonpad_kv_seqlen or a past, not both");
  int64_t rank = getScoresRank();
  SmallVector<int64_t> shape(rank, 1);
  shape.front() = batch;
  lengths = castTo(node, node.reshape(node.operand(6), shape),
                   node.attributes().getI64Type());
  Value places = iota(node, rank, rank - 1, keys);
  alsoSee(node.emit<LessOp>({places, lengths}));
  if (mask && isCausal())
    alsoSee(node.emit<LessOrEqualOp>({places, placeQueries()}));
  return success(mask != nullptr);
}

/// The place of each query among the keys, along the scores: behind the past,
/// or so that the last one is a sample's last key.
Value AttentionBuilder::placeQueries() {
  int64_t rank = getScoresRank();
  Value order = iota(node, rank, rank - 2, queries);
  Value first = integerConstant(node, {}, past);
  if (lengths)
    first = node.emit<SubOp>({lengths, integerConstant(node, {}, queries)});
  return node.emit<AddOp>({first, order});
}

/// How far a query sees to either side, since opset 25.
LogicalResult AttentionBuilder::readWindow() {
  if (node.getOpset() < 25)
    return success();
  int64_t left = node.integer("left_window_size", -1);
  int64_t right = node.integer("right_window_size", -1);
  if (left < -1 || right < -1)
    return node.invalid("expected windows of -1 or more, found " + Twine(left) +
                        " and " + Twine(right));
  int64_t rank = getScoresRank();
  // Beyond this a window has no end.
  constexpr int64_t kFar = int64_t(1) << 40;
  auto shift = [&](int64_t by) {
    return node.emit<AddOp>({placeQueries(), integerConstant(node, {}, by)});
  };
  Value places = iota(node, rank, rank - 1, keys);
  if (left >= 0)
    alsoSee(node.emit<LessOrEqualOp>({shift(-std::min(left, kFar)), places}));
  if (right >= 0)
    alsoSee(node.emit<LessOrEqualOp>({places, shift(std::min(right, kFar))}));
  return success(!node.hasFailed());
}

Value AttentionBuilder::addBias(Value scores) {
  return bias ? node.emit<AddOp>({scores, bias}) : scores;
}

Value AttentionBuilder::cap(Value scores) {
  if (!isCapped())
    return scores;
  double cap = node.real("softcap", 0);
  return multiply(node, node.emit<TanhOp>({multiply(node, scores, 1 / cap)}),
                  cap);
}

/// The scores with minus infinity where a key is not seen: where the mask says
/// so, and where a key comes after its query.
Value AttentionBuilder::hide(Value scores) {
  if (!scores)
    return {};
  Value hidden = numberConstant(node, kHidden, elementTypeOf(scores));
  if (mask)
    scores = node.emit<SelectOp>({mask, scores, hidden});
  if (!scores || !hasCausalOffset())
    return scores;
  int64_t rank = NodeImporter::shapeOf(scores).size();
  Value last = node.emit<AddOp>(
      {iota(node, rank, rank - 2, queries), integerConstant(node, {}, past)});
  Value isSeen =
      node.emit<LessOrEqualOp>({iota(node, rank, rank - 1, keys), last});
  return node.emit<SelectOp>({isSeen, scores, hidden});
}

/// Output 'qk_matmul_output', where it is these scores.
LogicalResult AttentionBuilder::defineScores(int64_t mode, Value scores) {
  if (node.integer("qk_matmul_output_mode", 0) != mode)
    return success();
  if (!scores)
    return failure();
  Value whole = node.reshape(scores, {batch, queryHeads, queries, keys});
  return node.define(3, castTo(node, whole, elementTypeOf(query)));
}

/// The softmax; zeros for a query that sees no key, as the specification has
/// it. The order of keys alone leaves every query one.
Value AttentionBuilder::normalize(Value scores) {
  if (!scores)
    return {};
  FailureOr<Type> type =
      node.elementType("softmax_precision", elementTypeOf(scores));
  if (failed(type))
    return {};
  int64_t axis = NodeImporter::shapeOf(scores).size() - 1;
  Value weights = node.emit<SoftmaxOp>({castTo(node, scores, *type)},
                                       {node.attribute("axis", axis)});
  if (!weights || !mayHideAllKeys())
    return weights;
  return node.emit<SelectOp>(
      {node.emit<IsNaNOp>({weights}), numberConstant(node, 0, *type), weights});
}

/// The values that each query sees, as [batch, heads, queries, size].
Value AttentionBuilder::mix(Value weights) {
  int64_t size = NodeImporter::shapeOf(value).back();
  Value mixed = node.emit<MatMulOp>(
      {castTo(node, weights, elementTypeOf(value)), shareHeads(value, heads)});
  return mixed ? node.reshape(mixed, {batch, queryHeads, queries, size})
               : Value();
}

/// True if one mpc.attention is the whole node: no scores are an output.
bool AttentionBuilder::isOneOp() {
  FailureOr<Type> type =
      node.elementType("softmax_precision", elementTypeOf(query));
  bool isPrecise =
      succeeded(type) && (!type->isF64() || *type == elementTypeOf(query));
  bool isOfOneType = elementTypeOf(key) == elementTypeOf(query) &&
                     elementTypeOf(value) == elementTypeOf(query);
  return !node.hasOutput(3) && isPrecise && isOfOneType;
}

/// The output, as [batch, heads, queries, size].
Value AttentionBuilder::buildOneOp() {
  // All operands with as many heads as the query.
  AttentionOperands operands = {shareHeads(query, queryHeads),
                                shareHeads(key, heads),
                                shareHeads(value, heads), bias, mask};
  // Scores are scaled by 1 / sqrt(size) unless the model says otherwise.
  double size = NodeImporter::shapeOf(query).back();
  SmallVector<NamedAttribute> attributes = {
      node.attribute("scale", node.real("scale", 1 / std::sqrt(size))),
      node.attribute("softcap", std::max(0.0, node.real("softcap", 0)))};
  if (hasCausalOffset())
    attributes.push_back(node.attribute("causal_offset", past));
  if (mayHideAllKeys())
    attributes.emplace_back("zero_empty_rows", node.attributes().getUnitAttr());
  // Heads side by side again.
  int64_t columns = NodeImporter::shapeOf(value).back();
  return node.reshape(attend(node, operands, attributes),
                      {batch, queryHeads, queries, columns});
}

/// An attention as separate ops, products and a softmax, for a model that has
/// the scores as output 3.
Value AttentionBuilder::buildParts() {
  // Mode 0 of the output of scores: the product alone.
  Value scores = score();
  if (failed(defineScores(0, scores)))
    return {};
  // Mode 1: behind the cap, in front of the bias.
  scores = cap(scores);
  if (failed(defineScores(1, scores)))
    return {};
  // Mode 2: behind bias and mask, in front of the softmax; mode 3: behind it.
  scores = hide(addBias(scores));
  if (failed(defineScores(2, scores)))
    return {};
  Value weights = normalize(scores);
  if (failed(defineScores(3, weights)))
    return {};
  return mix(weights);
}

LogicalResult AttentionBuilder::build() {
  if (failed(readHeads()) || failed(appendToCache()) || failed(checkShapes()))
    return failure();
  int64_t mode = node.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3)
    return node.invalid("expected attribute 'qk_matmul_output_mode' of 0 to 3, "
                        "found " +
                        Twine(mode));
  if (failed(readMask()) || failed(readLengths()) || failed(readWindow()))
    return failure();
  Value mixed = isOneOp() ? buildOneOp() : buildParts();
  bool isApart = node.operandShape(0).size() == 4;
  return node.define(0, isApart ? mixed : joinHeads(node, mixed));
}

static LogicalResult importAttention(NodeImporter &node) {
  return AttentionBuilder(node).build();
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

// The position of each token, [batch, tokens]. In com.microsoft one number may
// stand for them: the position of every sample's first token.
static FailureOr<Value> readPositions(NodeImporter &node, unsigned index,
                                      ArrayRef<int64_t> tokens) {
  Value ids = node.operand(index);
  ArrayRef<int64_t> shape = node.operandShape(index);
  if (shape == tokens)
    return ids;
  if (shape != ArrayRef<int64_t>(1) || node.getNode().domain().empty())
    return node.invalid("expected position_ids of [batch, tokens]");
  Value all =
      node.emit<AddOp>({castTo(node, ids, node.attributes().getI64Type()),
                        iota(node, 2, 1, tokens[1])});
  return all ? expand(node, all, tokens) : Value();
}

// The cosines or sines of every token, [batch, tokens, pairs]: rows of the
// table that `position_ids` name, or the input itself.
static FailureOr<Value> readAngles(NodeImporter &node, unsigned index,
                                   unsigned positions, ArrayRef<int64_t> tokens,
                                   int64_t pairs) {
  Value angles = node.operand(index);
  if (node.hasInput(positions)) {
    FailureOr<Value> ids = readPositions(node, positions, tokens);
    if (failed(ids))
      return failure();
    if (node.operandShape(index).size() != 2)
      return node.invalid("expected a table of rank 2 beside position_ids");
    if (failed(checkIndices(node, positions, node.operandShape(index)[0])))
      return failure();
    markIndices(node, *ids, node.operandShape(index)[0]);
    angles = gather(node, angles, *ids, /*axis=*/0);
  }
  if (!angles)
    return failure();
  SmallVector<int64_t> wanted = {tokens[0], tokens[1], pairs};
  if (NodeImporter::shapeOf(angles) != ArrayRef<int64_t>(wanted))
    return node.invalid("input " + Twine(index) + " has another shape than [" +
                        Twine(tokens[0]) + ", " + Twine(tokens[1]) + ", " +
                        Twine(pairs) + "]");
  return angles;
}

namespace {
/// Where a rotary embedding has what.
struct RotaryInputs {
  unsigned cosines, sines, positions;
  int64_t heads;
};
} // namespace

// Pairs of elements of each head, which lie along [batch, heads, tokens, size]
// or, where the heads are in one, along [batch, tokens, heads, size].
static LogicalResult importRotation(NodeImporter &node,
                                    const RotaryInputs &inputs) {
  size_t rank = node.operandShape(0).size();
  if (rank != 3 && rank != 4)
    return node.invalid("expected an input of rank 3 or 4");
  // Heads apart, as [batch, tokens, heads, size].
  Value x = node.operand(0);
  if (rank == 3) {
    FailureOr<Value> apart = splitHeads(node, x, inputs.heads);
    if (failed(apart))
      return failure();
    x = *apart;
  }
  if (!x)
    return failure();
  ArrayRef<int64_t> shape = NodeImporter::shapeOf(x);
  // The first elements of each head turn; without the attribute, all.
  int64_t turned = node.integer("rotary_embedding_dim", 0);
  if (turned == 0)
    turned = shape[3];
  if (turned < 1 || turned > shape[3] || turned % 2 != 0)
    return node.invalid("expected an even number of elements to turn, of " +
                        Twine(shape[3]) + ", found " + Twine(turned));
  // Angles of every token, the same for all heads: an axis of size 1.
  SmallVector<int64_t> tokens = {shape[0], shape[rank == 3 ? 1 : 2]};
  Value operands[] = {x, {}, {}};
  for (auto [operand, input] :
       {std::pair(1u, inputs.cosines), std::pair(2u, inputs.sines)}) {
    FailureOr<Value> angles =
        readAngles(node, input, inputs.positions, tokens, turned / 2);
    if (failed(angles))
      return failure();
    SmallVector<int64_t> along(NodeImporter::shapeOf(*angles));
    along.insert(along.begin() + (rank == 3 ? 2 : 1), 1);
    operands[operand] = node.reshape(*angles, along);
  }
  // Pairs are neighbours, or an element of the first half with one of the
  // second.
  SmallVector<NamedAttribute> attributes;
  if (node.integer("interleaved", 0) != 0)
    attributes.emplace_back("interleaved", node.attributes().getUnitAttr());
  Value result = node.emit<RotaryEmbeddingOp>(operands, attributes);
  return node.define(0, result ? node.reshape(result, node.operandShape(0))
                               : Value());
}

static LogicalResult importRotaryEmbedding(NodeImporter &node) {
  return importRotation(node, {1, 2, 3, node.integer("num_heads", 0)});
}

// ONNX Runtime's, of before there was one of ONNX: positions come first, and
// the tables say how large a head is.
static LogicalResult importMicrosoftRotary(NodeImporter &node) {
  if (node.real("scale", 1.0) != 1.0 ||
      node.integer("is_packed_batching", 0) != 0)
    return node.unsupported("attributes 'scale' and 'is_packed_batching' are "
                            "not supported");
  int64_t heads = node.integer("num_heads", 0);
  ArrayRef<int64_t> shape = node.operandShape(0), table = node.operandShape(2);
  if (heads == 0 && node.integer("rotary_embedding_dim", 0) == 0 &&
      !shape.empty() && table.size() == 2 && table[1] > 0)
    heads = shape.back() / (2 * table[1]);
  return importRotation(node, {2, 3, 1, heads});
}

ArrayRef<OpEntry> mpc::onnx_frontend::getAttentionOps() {
  static const OpEntry entries[] = {
      {"", "Attention", 23, kNoEnd, 3, 7, 4, importAttention},
      {"", "RotaryEmbedding", 23, kNoEnd, 3, 4, 1, importRotaryEmbedding},
      {kMicrosoft, "RotaryEmbedding", 1, kNoEnd, 4, 4, 1,
       importMicrosoftRotary},
  };
  return entries;
}
