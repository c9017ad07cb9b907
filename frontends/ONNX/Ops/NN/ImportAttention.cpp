// Imports Attention (as one op, or as products and a softmax) and
// RotaryEmbedding.
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
/// Builds one Attention node: softmax(Q * K^T * scale + mask) * V for each
/// head. If several query heads share a key head, the query heads get their own
/// axis behind the axis of key heads.
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
  /// True if the attention is causal and query i is at position past + i in all
  /// samples. With input 6, positions differ by sample, and readLengths() puts
  /// the causal order into the mask.
  bool hasCausalOffset() { return isCausal() && !node.hasInput(6); }
  Value normalize(Value scores);
  Value mix(Value weights);
  LogicalResult defineScores(int64_t mode, Value scores);
  bool isOneOp();
  Value buildOneOp();
  Value buildParts();

  NodeImporter &node;
  Value query, key, value;
  /// `bias` is added to the scores; null if none. `mask` is true for visible
  /// keys; null if all are visible.
  Value bias, mask;
  /// The number of keys of each sample; null if all keys count.
  Value lengths;
  int64_t batch = 0, queryHeads = 0, heads = 0;
  int64_t queries = 0, keys = 0, past = 0;
};
} // namespace

/// Reads queries, keys and values as [batch, heads, tokens, size].
LogicalResult AttentionBuilder::readHeads() {
  Value *const inputs[] = {&query, &key, &value};
  int64_t counts[] = {node.integer("q_num_heads", 0),
                      node.integer("kv_num_heads", 0), 0};
  counts[2] = counts[1];
  size_t rank = node.operandShape(0).size();
  for (unsigned i = 0; i < 3; ++i) {
    if (node.operandShape(i).size() != rank || (rank != 3 && rank != 4))
      return node.invalid(
          "expected query, key and value of equal rank, 3 or 4" +
          node.found({0, 1, 2}));
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

/// Prepends the cached keys and values of earlier tokens.
LogicalResult AttentionBuilder::appendToCache() {
  if (node.hasInput(4) != node.hasInput(5))
    return node.invalid("expected both past_key and past_value or neither" +
                        node.found({4, 5}));
  if (node.hasInput(4)) {
    if (node.operandShape(4).size() != 4 || node.operandShape(5).size() != 4)
      return node.invalid("expected past_key and past_value of rank 4" +
                          node.found({4, 5}));
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
    return node.invalid(
        "expected query [batch, heads, queries, size], key [batch, key heads, "
        "keys, size] and value [batch, key heads, keys, any size], found " +
        printShape(q) + ", " + printShape(k) + " and " + printShape(v));
  if (heads == 0 || queryHeads % heads != 0)
    return node.invalid(Twine(heads) + " heads of keys do not divide " +
                        Twine(queryHeads) + " heads of queries");
  return success();
}

/// Splits the axis of query heads into key heads and the query heads that share
/// each: with two key heads, [batch, 8, ...] becomes [batch, 2, 4, ...]. A
/// tensor with one entry for all heads gets two axes of size 1.
Value AttentionBuilder::shareHeads(Value value, int64_t count) {
  if (!value || queryHeads == heads)
    return value;
  SmallVector<int64_t> shape(NodeImporter::shapeOf(value));
  shape[1] = count == 1 ? 1 : heads;
  shape.insert(shape.begin() + 2, count == queryHeads ? queryHeads / heads : 1);
  return node.reshape(value, shape);
}

/// Computes the scores: queries * keys^T * scale. Queries and keys are each
/// multiplied by the root of the scale before the product, so that no
/// intermediate exceeds the range of the scores.
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
/// true for visible keys, or floats that are added to the scores. Keys behind
/// the end of a short mask are hidden.
LogicalResult AttentionBuilder::readMask() {
  if (!node.hasInput(3))
    return success();
  Value given = node.operand(3);
  SmallVector<int64_t> shape(node.operandShape(3));
  if (shape.empty() || shape.size() > 4)
    return node.invalid("expected attn_mask of rank 1 to 4" + node.found({3}));
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
  SmallVector<int64_t> whole = {batch, queryHeads, queries, keys};
  auto spread = broadcastShapes(whole, shape);
  if (failed(spread) || *spread != whole)
    return node.invalid("attn_mask does not broadcast to the scores of shape " +
                        printShape(whole) + node.found({3}));
  shape.insert(shape.begin(), 4 - shape.size(), 1);
  given = shareHeads(node.reshape(given, shape), shape[1]);
  if (!given)
    return failure();
  if (isBoolean)
    mask = given;
  else
    bias = castTo(node, given, elementTypeOf(query));
  return success();
}

/// Narrows `mask`: hides also the keys where `isSeen` is false.
void AttentionBuilder::alsoSee(Value isSeen) {
  mask = mask ? node.emit<AndOp>({mask, isSeen}) : isSeen;
}

/// Reads input 'nonpad_kv_seqlen': the number of visible keys of each sample.
/// If the attention is causal, the last query of a sample sees all visible
/// keys.
LogicalResult AttentionBuilder::readLengths() {
  if (!node.hasInput(6))
    return success();
  if (node.operandShape(6) != ArrayRef<int64_t>(batch))
    return node.invalid("expected nonpad_kv_seqlen of shape [" + Twine(batch) +
                        "]" + node.found({6}));
  if (node.hasInput(4))
    return node.invalid(
        "expected nonpad_kv_seqlen or past_key and past_value, found both");
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

/// Returns the position of each query among the keys. Query i is at past + i.
/// With lengths per sample, the last query is at the sample's last key.
Value AttentionBuilder::placeQueries() {
  int64_t rank = getScoresRank();
  Value order = iota(node, rank, rank - 2, queries);
  Value first = integerConstant(node, {}, past);
  if (lengths)
    first = node.emit<SubOp>({lengths, integerConstant(node, {}, queries)});
  return node.emit<AddOp>({first, order});
}

/// Reads how far a query sees to the left and right (since opset 25).
LogicalResult AttentionBuilder::readWindow() {
  if (node.getOpset() < 25)
    return success();
  int64_t left = node.integer("left_window_size", -1);
  int64_t right = node.integer("right_window_size", -1);
  if (left < -1 || right < -1)
    return node.invalid("expected attributes 'left_window_size' and "
                        "'right_window_size' of at least -1, found " +
                        Twine(left) + " and " + Twine(right));
  int64_t rank = getScoresRank();
  // Larger windows are clamped to this size, which exceeds any number of keys.
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

/// Sets the scores of hidden keys to minus infinity: where the mask is false
/// and, if causal, where the key comes after the query.
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

/// Defines output 'qk_matmul_output' as `scores` if attribute
/// 'qk_matmul_output_mode' is `mode`.
LogicalResult AttentionBuilder::defineScores(int64_t mode, Value scores) {
  if (node.integer("qk_matmul_output_mode", 0) != mode)
    return success();
  if (!scores)
    return failure();
  Value whole = node.reshape(scores, {batch, queryHeads, queries, keys});
  return node.define(3, castTo(node, whole, elementTypeOf(query)));
}

/// Applies softmax. A query that sees no key gets zeros, as the specification
/// demands; causal order alone leaves every query at least one key.
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

/// Returns the sums of the attention's values, weighted by `weights`, as
/// [batch, heads, queries, size].
Value AttentionBuilder::mix(Value weights) {
  int64_t size = NodeImporter::shapeOf(value).back();
  Value mixed = node.emit<MatMulOp>(
      {castTo(node, weights, elementTypeOf(value)), shareHeads(value, heads)});
  return mixed ? node.reshape(mixed, {batch, queryHeads, queries, size})
               : Value();
}

/// True if one mpc.attention can replace the node: no output holds scores, and
/// the types agree.
bool AttentionBuilder::isOneOp() {
  FailureOr<Type> type =
      node.elementType("softmax_precision", elementTypeOf(query));
  bool isPrecise =
      succeeded(type) && (!type->isF64() || *type == elementTypeOf(query));
  bool isOfOneType = elementTypeOf(key) == elementTypeOf(query) &&
                     elementTypeOf(value) == elementTypeOf(query);
  return !node.hasOutput(3) && isPrecise && isOfOneType;
}

/// Builds one mpc.attention. Returns [batch, heads, queries, size].
Value AttentionBuilder::buildOneOp() {
  // All operands get the same axes of heads: one axis, or two axes (key heads,
  // and the query heads that share each).
  AttentionOperands operands = {shareHeads(query, queryHeads),
                                shareHeads(key, heads),
                                shareHeads(value, heads), bias, mask};
  double size = NodeImporter::shapeOf(query).back();
  SmallVector<NamedAttribute> attributes = {
      node.attribute("scale", node.real("scale", 1 / std::sqrt(size))),
      node.attribute("softcap", std::max(0.0, node.real("softcap", 0)))};
  if (hasCausalOffset())
    attributes.push_back(node.attribute("causal_offset", past));
  if (mayHideAllKeys())
    attributes.emplace_back("zero_empty_rows", node.attributes().getUnitAttr());
  int64_t columns = NodeImporter::shapeOf(value).back();
  return node.reshape(attend(node, operands, attributes),
                      {batch, queryHeads, queries, columns});
}

/// Builds attention from separate ops, for models that read the scores as
/// output 3.
Value AttentionBuilder::buildParts() {
  Value scores = score();
  if (failed(defineScores(0, scores)))
    return {};
  // Mode 1 of output 3: the scores after the cap, before bias and mask.
  scores = cap(scores);
  if (failed(defineScores(1, scores)))
    return {};
  // Mode 2 of output 3: the scores before the softmax. Mode 3: after.
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

// Reads the position of each token, as [batch, tokens]. In com.microsoft a
// single number may give the position of the first token of all samples.
static FailureOr<Value> readPositions(NodeImporter &node, unsigned index,
                                      ArrayRef<int64_t> tokens) {
  Value ids = node.operand(index);
  ArrayRef<int64_t> shape = node.operandShape(index);
  if (shape == tokens)
    return ids;
  if (shape != ArrayRef<int64_t>(1) || node.getNode().domain().empty())
    return node.invalid("expected position_ids of shape " + printShape(tokens) +
                        node.found({index}));
  Value all =
      node.emit<AddOp>({castTo(node, ids, node.attributes().getI64Type()),
                        iota(node, 2, 1, tokens[1])});
  return all ? expand(node, all, tokens) : Value();
}

// Returns the cosines or sines for every token, as [batch, tokens, pairs]. With
// token positions in input `positions`, input `index` is a table, and the
// positions select rows. Otherwise input `index` already has the shape of the
// result.
static FailureOr<Value> readAngles(NodeImporter &node, unsigned index,
                                   unsigned positions, ArrayRef<int64_t> tokens,
                                   int64_t pairs) {
  Value angles = node.operand(index);
  if (node.hasInput(positions)) {
    FailureOr<Value> ids = readPositions(node, positions, tokens);
    if (failed(ids))
      return failure();
    if (node.operandShape(index).size() != 2)
      return node.invalid(
          "expected a table of rank 2, because position_ids is given" +
          node.found({index}));
    if (failed(checkIndices(node, positions, node.operandShape(index)[0])))
      return failure();
    markIndices(node, *ids, node.operandShape(index)[0]);
    angles = gather(node, angles, *ids, /*axis=*/0);
  }
  if (!angles)
    return failure();
  SmallVector<int64_t> wanted = {tokens[0], tokens[1], pairs};
  if (NodeImporter::shapeOf(angles) != ArrayRef<int64_t>(wanted))
    return node.invalid("expected cosines and sines of shape " +
                        printShape(wanted) + " for all tokens, found " +
                        printShape(NodeImporter::shapeOf(angles)) +
                        " from input " + Twine(index));
  return angles;
}

namespace {
/// The inputs of a rotary embedding that hold cosines, sines and token
/// positions, and the number of heads.
struct RotaryInputs {
  unsigned cosines, sines, positions;
  int64_t heads;
};
} // namespace

// Imports a rotary embedding, which rotates pairs of elements of each head. The
// input is [batch, heads, tokens, size], or [batch, tokens, heads * size],
// which is split into [batch, tokens, heads, size].
static LogicalResult importRotation(NodeImporter &node,
                                    const RotaryInputs &inputs) {
  size_t rank = node.operandShape(0).size();
  if (rank != 3 && rank != 4)
    return node.invalid("expected an input of rank 3 or 4" + node.found({0}));
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
  // Only the first `turned` elements of each head are rotated; 0 means all.
  int64_t turned = node.integer("rotary_embedding_dim", 0);
  if (turned == 0)
    turned = shape[3];
  if (turned < 1 || turned > shape[3] || turned % 2 != 0)
    return node.invalid(
        "expected attribute 'rotary_embedding_dim' to be even and at most " +
        Twine(shape[3]) + ", the size of a head, found " + Twine(turned));
  // All heads share the angles, so the angles get a heads axis of size 1.
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
  // Interleaved pairs are neighbours; otherwise pair i is element i of the
  // first half and element i of the second half.
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

// Imports com.microsoft's RotaryEmbedding, older than ONNX's: positions precede
// the tables, and the tables determine the head size.
static LogicalResult importMicrosoftRotary(NodeImporter &node) {
  if (node.real("scale", 1.0) != 1.0 ||
      node.integer("is_packed_batching", 0) != 0)
    return node.unsupported(
        "expected attribute 'scale' of 1 and 'is_packed_batching' of 0: other "
        "values are not supported");
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
