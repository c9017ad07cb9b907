// Imports com.microsoft's GroupQueryAttention, which ONNX Runtime's tools write
// for language models: causal attention with rotary embeddings, in which
// several query heads share a key head.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/NN/AttentionHeads.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// Builds one node. The past, if any, is a cache with room for `past` tokens of
/// each text; `filled` tokens are in it. The keys are all of the cache, even if
/// partly filled, then the new tokens. So the index of a key in the tensor need
/// not be its position in the text, and masks compare positions.
class GroupQuery {
public:
  explicit GroupQuery(NodeImporter &node) : node(node) {}
  LogicalResult build();

private:
  LogicalResult checkSupported();
  LogicalResult readHeads();
  LogicalResult readLengths();
  LogicalResult readPast();
  FailureOr<Value> readPositions();
  FailureOr<Value> readAngles(unsigned index, Value positions);
  LogicalResult rotate();
  LogicalResult arrangeHeads();
  void prepend(Value &tensor, int64_t axis, Value front);
  LogicalResult addSinkBias();
  LogicalResult addSink();
  Value seePast();
  Value seeNew();
  LogicalResult mask();
  LogicalResult readBias();
  LogicalResult mix();

  Value number(int64_t value) { return integerConstant(node, {}, value); }

  NodeImporter &node;
  Value query, key, value, pastKey, pastValue;
  Value seen, bias;
  int64_t batch = 0, tokens = 0, size = 0;
  int64_t heads = 0, keyHeads = 0;
  /// The number of tokens that the past has room for.
  int64_t past = 0;
  /// For each sample, as [batch, 1, 1, 1]: the number of tokens including the
  /// past, and the number of past tokens in the cache.
  Value total, filled;
  /// True if the cache of every sample is known to be full, and no sample has
  /// padding.
  bool isFull = false;
  /// True if a sink precedes all keys: an extra key without a token, which
  /// takes a share of every softmax.
  bool hasSink = false;
};
} // namespace

LogicalResult GroupQuery::checkSupported() {
  if (node.hasInput(11) &&
      node.operandType(11).getNumElements() != node.integer("num_heads", 0))
    return node.invalid(
        "expected input 'head_sink' to hold one number for each of " +
        Twine(node.integer("num_heads", 0)) + " heads" + node.found({11}));
  hasSink = node.integer("smooth_softmax", 0) > 0 || node.hasInput(11);
  if (node.hasOutput(3) || node.integer("qk_output", 0) != 0)
    return node.unsupported("output 3, the scores, and attribute 'qk_output' "
                            "are not supported; leave them out");
  return success();
}

// Reads queries, keys and values as [batch, tokens, heads, size], from three
// inputs, or packed in the first.
LogicalResult GroupQuery::readHeads() {
  heads = node.integer("num_heads", 0);
  keyHeads = node.integer("kv_num_heads", 0);
  if (heads < 1 || keyHeads < 1 || heads % keyHeads != 0)
    return node.invalid("expected attribute 'num_heads' to be a multiple of "
                        "'kv_num_heads', both at least 1, found " +
                        Twine(heads) + " and " + Twine(keyHeads));
  if (node.hasInput(1) != node.hasInput(2))
    return node.invalid("expected both key and value or neither" +
                        node.found({1, 2}));
  bool isPacked = !node.hasInput(1);
  // A packed input holds queries, then keys, then values.
  SmallVector<int64_t> shape(node.operandShape(0));
  int64_t all = isPacked ? heads + 2 * keyHeads : heads;
  if (shape.size() != 3 || shape[2] == 0 || shape[2] % all != 0)
    return node.invalid("expected queries of [batch, tokens, " + Twine(all) +
                        " heads * size]" + node.found({0}));
  batch = shape[0], tokens = shape[1], size = shape[2] / all;
  int64_t offset = 0;
  for (auto [index, part] :
       llvm::enumerate(SmallVector<Value *>{&query, &key, &value})) {
    int64_t count = index == 0 ? heads : keyHeads;
    SmallVector<int64_t> own = {batch, tokens, count * size};
    Value whole = isPacked ? slice(node, node.operand(0), {0, 0, offset}, own)
                           : node.operand(index);
    if (!whole)
      return failure();
    if (NodeImporter::shapeOf(whole) != ArrayRef<int64_t>(own))
      return node.invalid("expected keys and values of [" + Twine(batch) +
                          ", " + Twine(tokens) + ", " + Twine(count * size) +
                          "], found " +
                          printShape(NodeImporter::shapeOf(whole)));
    *part = node.reshape(whole, {batch, tokens, count, size});
    offset += count * size;
  }
  return success(query && key && value);
}

LogicalResult GroupQuery::readPast() {
  if (node.hasInput(3) != node.hasInput(4))
    return node.invalid("expected both past_key and past_value or neither" +
                        node.found({3, 4}));
  if (!node.hasInput(3))
    return success();
  SmallVector<int64_t> shape(node.operandShape(3));
  if (shape.size() == 4)
    past = shape[2];
  if (ArrayRef<int64_t>(shape) !=
          ArrayRef<int64_t>({batch, keyHeads, past, size}) ||
      node.operandShape(4) != ArrayRef<int64_t>(shape))
    return node.invalid("expected past_key and past_value of [" + Twine(batch) +
                        ", " + Twine(keyHeads) + ", past tokens, " +
                        Twine(size) + "]" + node.found({3, 4}));
  if (past > 0)
    pastKey = node.operand(3), pastValue = node.operand(4);
  return success();
}

// Reads input 'seqlens_k': for each sample the number of tokens minus 1,
// including the past. All but the last `tokens` tokens are in the past.
LogicalResult GroupQuery::readLengths() {
  if (!node.hasInput(5))
    return node.invalid("expected input 5, 'seqlens_k', found none");
  if (node.operandType(5).getNumElements() != batch)
    return node.invalid("expected seqlens_k of " + Twine(batch) +
                        " numbers, one per sample" + node.found({5}));
  if (std::optional<HostTensor> known = node.constant(5);
      known && !node.isState(5))
    isFull = llvm::all_of(known->getIntegers(), [&](int64_t length) {
      return length + 1 == past + tokens;
    });
  Value lengths = castTo(node, node.reshape(node.operand(5), {batch, 1, 1, 1}),
                         node.attributes().getI64Type());
  total = node.emit<AddOp>({lengths, number(1)});
  filled = node.emit<MaximumOp>(
      {node.emit<SubOp>({total, number(tokens)}), number(0)});
  return success(total && filled);
}

//===----------------------------------------------------------------------===//
// Rotary embeddings
//===----------------------------------------------------------------------===//

// Returns the position of each token in its text, as [batch or 1, tokens].
// Without a past, all texts start at the first number of 'position_ids', as in
// ONNX Runtime.
FailureOr<Value> GroupQuery::readPositions() {
  Value places = iota(node, 2, 1, tokens);
  if (node.hasInput(9)) {
    SmallVector<int64_t> ids = {batch, tokens};
    if (node.operandShape(9) != ArrayRef<int64_t>(ids))
      return node.invalid("expected position_ids of shape " + printShape(ids) +
                          node.found({9}));
    // Positions select rows of the tables of cosines and sines.
    if (failed(checkIndices(node, 9, node.operandShape(7).front())))
      return failure();
    Value given = castTo(node, node.operand(9), node.attributes().getI64Type());
    if (past > 0)
      return given;
    Value first = slice(node, given, {0, 0}, {1, 1});
    return node.emit<AddOp>({places, first});
  }
  // New tokens follow the past: at position `past` if the cache is full,
  // otherwise behind the `filled` tokens of each text.
  if (past == 0)
    return places;
  if (isFull)
    return node.emit<AddOp>({places, number(past)});
  return node.emit<AddOp>({places, node.reshape(filled, {batch, 1})});
}

// Looks up the rows of a table of cosines or sines at `positions`, as [batch or
// 1, tokens, 1, pairs].
FailureOr<Value> GroupQuery::readAngles(unsigned index, Value positions) {
  ArrayRef<int64_t> table = node.operandShape(index);
  if (table.size() != 2)
    return node.invalid(
        "expected cos_cache and sin_cache of [positions, pairs]" +
        node.found({index}));
  int64_t pairs = table[1];
  if (tokens + (isFull ? past : 0) > table[0])
    return node.invalid(
        "expected cos_cache and sin_cache with a row for each of " +
        Twine(tokens + (isFull ? past : 0)) + " tokens, found " +
        Twine(table[0]) + " rows");
  int64_t count = NodeImporter::shapeOf(positions)[0];
  markIndices(node, positions, table[0]);
  Value rows = gather(node, node.operand(index), positions, /*axis=*/0);
  return rows ? node.reshape(rows, {count, tokens, 1, pairs}) : Value();
}

LogicalResult GroupQuery::rotate() {
  bool isInterleaved = node.integer("rotary_interleaved", 0) != 0;
  // Read 'rotary_interleaved' first: an attribute that nobody reads is reported
  // as unknown.
  if (node.integer("do_rotary", 0) == 0)
    return success();
  if (!node.hasInput(7) || !node.hasInput(8))
    return node.invalid("expected inputs 7 and 8, cos_cache and sin_cache, "
                        "because attribute 'do_rotary' is set");
  // The tables have a row per position and a column per pair.
  if (node.operandShape(7) != node.operandShape(8))
    return node.invalid("expected cos_cache and sin_cache of equal shapes" +
                        node.found({7, 8}));
  FailureOr<Value> positions = readPositions();
  if (failed(positions) || !*positions)
    return failure();
  FailureOr<Value> cosine = readAngles(7, *positions);
  FailureOr<Value> sine = readAngles(8, *positions);
  if (failed(cosine) || failed(sine))
    return failure();
  SmallVector<NamedAttribute> attributes;
  if (isInterleaved)
    attributes.emplace_back("interleaved", node.attributes().getUnitAttr());
  for (Value *part : {&query, &key})
    *part = node.emit<RotaryEmbeddingOp>({*part, *cosine, *sine}, attributes);
  return success(query && key);
}

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

// Returns the mask of past keys, [batch, 1, tokens, past]: true for keys that
// are filled and inside the window. The window includes the query's own token.
Value GroupQuery::seePast() {
  Value places = iota(node, 4, 3, past);
  Value isSeen = node.emit<LessOp>({places, filled});
  if (int64_t window = node.integer("local_window_size", -1); window > 0) {
    Value last = node.emit<AddOp>({filled, iota(node, 4, 2, tokens)});
    Value first = node.emit<SubOp>({last, number(window - 1)});
    isSeen =
        node.emit<AndOp>({isSeen, node.emit<LessOrEqualOp>({first, places})});
  }
  return isSeen ? expand(node, isSeen, {batch, 1, tokens, past}) : Value();
}

// Returns the mask of new keys, [batch, 1, tokens, tokens]: true for keys up to
// the query's own token that are inside the window and no padding.
Value GroupQuery::seeNew() {
  Value keys = iota(node, 4, 3, tokens), queries = iota(node, 4, 2, tokens);
  Value isSeen = node.emit<LessOrEqualOp>({keys, queries});
  if (int64_t window = node.integer("local_window_size", -1); window > 0) {
    Value first = node.emit<SubOp>({queries, number(window - 1)});
    isSeen =
        node.emit<AndOp>({isSeen, node.emit<LessOrEqualOp>({first, keys})});
  }
  if (!isFull) {
    Value own = node.emit<SubOp>({total, filled});
    isSeen = node.emit<AndOp>({isSeen, node.emit<LessOp>({keys, own})});
  }
  return isSeen;
}

// Builds the mask `seen`, true for visible keys. Leaves it null if causal order
// alone decides.
LogicalResult GroupQuery::mask() {
  int64_t window = node.integer("local_window_size", -1);
  if (window == 0 || window < -1)
    return node.invalid("expected attribute 'local_window_size' of 1 or more, "
                        "or -1 for none, found " +
                        Twine(window));
  if (isFull && window < 0)
    return success();
  seen = seeNew();
  if (seen && past > 0)
    seen = concatenate(
        node, {seePast(), expand(node, seen, {batch, 1, tokens, tokens})}, 3);
  if (!seen)
    return failure();
  if (heads != keyHeads) {
    SmallVector<int64_t> shape(NodeImporter::shapeOf(seen));
    shape.insert(shape.begin() + 1, 1);
    seen = node.reshape(seen, shape);
  }
  return success(seen != nullptr);
}

// Reads input 'attention_bias', which has the shape of the scores.
LogicalResult GroupQuery::readBias() {
  if (!node.hasInput(10))
    return success();
  // Column j of the bias belongs to key j. If the past is not full, key j is
  // not position j of a text.
  if (past > 0 && !isFull)
    return node.unsupported(
        "an attention_bias together with a past that may be only partly filled "
        "is not supported; make seqlens_k a constant");
  SmallVector<int64_t> shape(node.operandShape(10));
  bool fits = shape.size() == 4 && (shape[0] == 1 || shape[0] == batch) &&
              (shape[1] == 1 || shape[1] == heads) && shape[2] == tokens &&
              shape[3] == past + tokens;
  if (!fits)
    return node.invalid("expected an attention_bias of [batch or 1, heads or "
                        "1, " +
                        Twine(tokens) + ", " + Twine(past + tokens) + "]" +
                        node.found({10}));
  // Split the heads like the scores: [batch, key heads, heads of a group,
  // tokens, all].
  bool isOfAll = shape[1] == 1;
  if (heads != keyHeads) {
    shape[1] = isOfAll ? 1 : keyHeads;
    shape.insert(shape.begin() + 2, isOfAll ? 1 : heads / keyHeads);
  }
  bias = node.reshape(node.operand(10), shape);
  return success(bias != nullptr);
}

//===----------------------------------------------------------------------===//
// Layout of heads
//===----------------------------------------------------------------------===//

// Moves heads in front of tokens, prepends the past to keys and values, and
// defines the new keys and values as outputs 1 and 2.
LogicalResult GroupQuery::arrangeHeads() {
  // From [batch, tokens, heads, size] to [batch, heads, tokens, size], as
  // mpc.attention requires.
  for (Value *part : {&query, &key, &value})
    *part = transpose(node, *part, {0, 2, 1, 3});
  if (past > 0) {
    key = concatenate(node, {pastKey, key}, 2);
    value = concatenate(node, {pastValue, value}, 2);
  }
  if (!query || !key || !value)
    return failure();
  // ONNX Runtime outputs the whole cache, with gaps behind shorter texts.
  if (past > 0 && !isFull && (node.hasOutput(1) || node.hasOutput(2)))
    return node.unsupported(
        "outputs 1 and 2 together with a past that may be only partly filled "
        "are not supported; make seqlens_k a "
        "constant");
  if (failed(node.define(1, key)) || failed(node.define(2, value)))
    return failure();
  // Query heads in a group share a key head: give keys an axis of size 1 that
  // broadcasts.
  if (heads == keyHeads)
    return success();
  int64_t all = past + tokens;
  query =
      node.reshape(query, {batch, keyHeads, heads / keyHeads, tokens, size});
  key = node.reshape(key, {batch, keyHeads, 1, all, size});
  value = node.reshape(value, {batch, keyHeads, 1, all, size});
  return success(query && key && value);
}

//===----------------------------------------------------------------------===//
// Sinks
//===----------------------------------------------------------------------===//

// Prepends one element along `axis` of `tensor`, with the value `front`
// everywhere. `axis` is counted from the end: -1 is the last.
void GroupQuery::prepend(Value &tensor, int64_t axis, Value front) {
  if (!tensor || !front)
    return;
  SmallVector<int64_t> shape(NodeImporter::shapeOf(tensor));
  axis += shape.size();
  shape[axis] = 1;
  tensor = concatenate(node, {expand(node, front, shape), tensor}, axis);
}

// Prepends the score of the sink to the bias: a number per head from input 11,
// or 0.
LogicalResult GroupQuery::addSinkBias() {
  Value zero = numberConstant(node, 0, elementTypeOf(query));
  if (!node.hasInput(11)) {
    prepend(bias, -1, zero);
    return success();
  }
  // The scores of the sink are [1, heads, 1, 1], or with the heads split into
  // groups.
  SmallVector<int64_t> shape = {1, heads, 1, 1};
  if (heads != keyHeads)
    shape = {1, keyHeads, heads / keyHeads, 1, 1};
  Value sink = node.reshape(node.operand(11), shape);
  SmallVector<int64_t> whole(bias ? NodeImporter::shapeOf(bias)
                                  : ArrayRef<int64_t>(shape));
  std::copy(shape.begin() + 1, shape.end() - 2, whole.begin() + 1);
  whole[whole.size() - 2] = tokens;
  whole.back() = past + tokens;
  bias = expand(node, bias ? bias : zero, whole);
  prepend(bias, -1, sink);
  return success(bias != nullptr);
}

// Adds the sink: one more key that every query sees. Key and value are zeros.
// So the product with a query is 0, and addSinkBias() sets the score; the
// sink's share of the softmax adds nothing to the result.
LogicalResult GroupQuery::addSink() {
  if (!hasSink)
    return success();
  Value zero = numberConstant(node, 0, elementTypeOf(query));
  prepend(key, -2, zero);
  prepend(value, -2, zero);
  prepend(seen, -1, numberConstant(node, 1, node.attributes().getI1Type()));
  return success(succeeded(addSinkBias()) && key && value);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

LogicalResult GroupQuery::mix() {
  double scale = node.real("scale", 0.0);
  if (scale == 0)
    scale = 1 / std::sqrt(static_cast<double>(size));
  SmallVector<NamedAttribute> attributes = {
      node.attribute("scale", scale),
      node.attribute("softcap", std::max(0.0, node.real("softcap", 0.0)))};
  // A query of padding may see no key in its window; its result is then 0.
  if (seen)
    attributes.emplace_back("zero_empty_rows", node.attributes().getUnitAttr());
  else
    attributes.push_back(node.attribute("causal_offset", past + hasSink));
  Value mixed = attend(node, {query, key, value, bias, seen}, attributes);
  mixed = node.reshape(mixed, {batch, heads, tokens, size});
  return node.define(0, joinHeads(node, mixed));
}

LogicalResult GroupQuery::build() {
  if (failed(checkSupported()) || failed(readHeads()) || failed(readPast()) ||
      failed(readLengths()) || failed(rotate()) || failed(mask()) ||
      failed(readBias()) || failed(arrangeHeads()) || failed(addSink()))
    return failure();
  return mix();
}

static LogicalResult importGroupQueryAttention(NodeImporter &node) {
  return GroupQuery(node).build();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getGroupQueryOps() {
  static const OpEntry entries[] = {
      {kMicrosoft, "GroupQueryAttention", 1, kNoEnd, 1, 12, 4,
       importGroupQueryAttention},
  };
  return entries;
}
