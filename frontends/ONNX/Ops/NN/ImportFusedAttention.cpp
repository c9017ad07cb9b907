// Imports com.microsoft's Attention and MultiHeadAttention. Attention contains
// the projections; MultiHeadAttention may take queries, keys and values packed
// in one tensor. Both may have a past.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/NN/AttentionHeads.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// Builds one Attention or MultiHeadAttention node. Both ops read queries, keys
/// and values as [batch, tokens, heads * size], and share everything after the
/// projections.
class FusedAttention {
public:
  explicit FusedAttention(NodeImporter &node)
      : node(node), heads(node.integer("num_heads", 0)) {}

  LogicalResult importProjected();
  LogicalResult appendPackedPast(unsigned index);
  LogicalResult definePresent(unsigned index);
  LogicalResult importApart();

private:
  LogicalResult unpack();
  LogicalResult addBias();
  LogicalResult separateHeads(Value &x);
  LogicalResult appendPast(Value pastKey, Value pastValue);
  LogicalResult readKeyMask(unsigned index);
  LogicalResult mix(unsigned mask, unsigned extra);

  NodeImporter &node;
  int64_t heads;
  Value query, key, value;
  /// The number of past keys, in front of the keys of the node's own tokens.
  int64_t pastTokens = 0;
  /// The sum of all terms added to the scores; null if none.
  Value bias;
};
} // namespace

// Splits [batch, tokens, heads * size] into [batch, heads, tokens, size].
LogicalResult FusedAttention::separateHeads(Value &x) {
  if (!x)
    return failure();
  if (NodeImporter::shapeOf(x).size() != 3)
    return node.invalid("expected queries, keys and values of [batch, tokens, "
                        "size], found shape " +
                        printShape(NodeImporter::shapeOf(x)));
  FailureOr<Value> apart = splitHeads(node, x, heads);
  if (failed(apart))
    return failure();
  x = transpose(node, *apart, {0, 2, 1, 3});
  return success(x != nullptr);
}

// Prepends the keys and values of earlier tokens, [batch, heads, tokens, size].
LogicalResult FusedAttention::appendPast(Value pastKey, Value pastValue) {
  for (auto [now, past] :
       {std::pair(&key, pastKey), std::pair(&value, pastValue)}) {
    if (!past || !*now)
      return failure();
    SmallVector<int64_t> expected(NodeImporter::shapeOf(*now));
    ArrayRef<int64_t> found = NodeImporter::shapeOf(past);
    if (found.size() == 4)
      expected[2] = found[2];
    if (found != ArrayRef<int64_t>(expected))
      return node.invalid(
          "expected past keys and values of shape " + printShape(expected) +
          " with any number of tokens on axis 2, found " + printShape(found));
    pastTokens = found[2];
    *now = concatenate(node, {past, *now}, 2);
  }
  return success(key && value);
}

// Reads the integer mask in input `index` into `bias`. The mask has a number
// per key, or per query and key, or the ends (and starts) of each sample's
// keys. The scores of hidden keys get 'mask_filter_value' added.
LogicalResult FusedAttention::readKeyMask(unsigned index) {
  // Read the attribute even without a mask: an attribute that nobody reads is
  // reported as unknown.
  double hidden = node.real("mask_filter_value", -10000.0);
  if (!node.hasInput(index))
    return success();
  int64_t batch = NodeImporter::shapeOf(query)[0];
  int64_t queries = NodeImporter::shapeOf(query)[2];
  int64_t keys = NodeImporter::shapeOf(key)[2];
  ArrayRef<int64_t> shape = node.operandShape(index);
  Type integer = node.attributes().getI64Type();
  Value given = castTo(node, node.operand(index), integer), isSeen;
  Value zero = integerConstant(node, {}, 0);
  // Returns one number per sample, as [batch, 1, 1, 1]: elements `offset` to
  // offset + batch of the mask.
  auto perSample = [&](int64_t offset) {
    return node.reshape(slice(node, given, {offset}, {batch}),
                        {batch, 1, 1, 1});
  };
  Value places = iota(node, 4, 3, keys);
  bool isOfSamples = shape.size() == 1;
  if (shape == ArrayRef<int64_t>({batch, keys}))
    isSeen =
        node.emit<LessOp>({zero, node.reshape(given, {batch, 1, 1, keys})});
  else if (shape == ArrayRef<int64_t>({batch, queries, keys}))
    isSeen = node.emit<LessOp>(
        {zero, node.reshape(given, {batch, 1, queries, keys})});
  // A mask of [batch] holds the number of keys of each sample, and so do the
  // first elements of a mask of [3 * batch + 2]. A mask of [2 * batch] holds
  // all ends, then all starts.
  else if (isOfSamples && (shape[0] == batch || shape[0] == 3 * batch + 2))
    isSeen = node.emit<LessOp>({places, perSample(0)});
  else if (isOfSamples && shape[0] == 2 * batch)
    isSeen = node.emit<AndOp>(
        {node.emit<LessOp>({places, perSample(0)}),
         node.emit<LessOrEqualOp>({perSample(batch), places})});
  else
    return node.unsupported(
        "expected a mask of [batch], [2 * batch], [3 * batch + 2], [batch, "
        "keys] or [batch, queries, keys], found " +
        printShape(shape) + " for a batch of " + Twine(batch));
  Type element = elementTypeOf(query);
  bias = node.emit<SelectOp>({isSeen, numberConstant(node, 0, element),
                              numberConstant(node, hidden, element)});
  return success(bias != nullptr);
}

// Computes softmax(scale * query key^T + bias) value, and merges the heads.
LogicalResult FusedAttention::mix(unsigned mask, unsigned extra) {
  if (!query || !key || !value)
    return failure();
  SmallVector<int64_t> q(NodeImporter::shapeOf(query));
  SmallVector<int64_t> k(NodeImporter::shapeOf(key));
  SmallVector<int64_t> v(NodeImporter::shapeOf(value));
  if (k[0] != q[0] || v[0] != q[0] || k[1] != q[1] || v[1] != q[1] ||
      v[2] != k[2] || k[3] != q[3])
    return node.invalid(
        "expected query [batch, heads, queries, size], key [batch, heads, "
        "keys, size] and value [batch, heads, keys, any size], found " +
        printShape(q) + ", " + printShape(k) + " and " + printShape(v));
  if (failed(readKeyMask(mask)))
    return failure();
  if (node.hasInput(extra))
    bias = bias ? node.emit<AddOp>({bias, node.operand(extra)})
                : node.operand(extra);
  double scale = node.real("scale", 0.0);
  if (scale == 0)
    scale = 1 / std::sqrt(static_cast<double>(q[3]));
  SmallVector<NamedAttribute> attributes = {node.attribute("scale", scale)};
  // Causal order: a query sees the past, its own token and the tokens between.
  if (node.integer("unidirectional", 0) != 0) {
    if (k[2] != pastTokens + q[2])
      return node.unsupported(
          "expected as many keys as queries after the past, because attribute "
          "'unidirectional' is 1, found " +
          Twine(k[2] - pastTokens) + " keys and " + Twine(q[2]) +
          " queries; hide keys by a mask instead");
    attributes.push_back(node.attribute("causal_offset", pastTokens));
  }
  Value mixed = attend(node, {query, key, value, bias, Value()}, attributes);
  return node.define(0, joinHeads(node, mixed));
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

// Reads the past from input `index`, [2, batch, heads, tokens, size]: keys,
// then values.
LogicalResult FusedAttention::appendPackedPast(unsigned index) {
  SmallVector<int64_t> shape(node.operandShape(index));
  if (shape.size() != 5 || shape[0] != 2)
    return node.invalid("expected a past of [2, batch, heads, tokens, size]" +
                        node.found({index}));
  SmallVector<int64_t> own(ArrayRef<int64_t>(shape).drop_front());
  Value past[2];
  for (int64_t i = 0; i < 2; ++i) {
    SmallVector<int64_t> offsets = {i, 0, 0, 0, 0}, one(shape);
    one[0] = 1;
    past[i] = node.reshape(slice(node, node.operand(index), offsets, one), own);
  }
  return appendPast(past[0], past[1]);
}

// Defines output `index` as keys and values, with the past in front: [2, batch,
// heads, tokens, size].
LogicalResult FusedAttention::definePresent(unsigned index) {
  if (NodeImporter::typeOf(key) != NodeImporter::typeOf(value))
    return node.invalid("output 1 joins keys and values, and needs both in one "
                        "type and shape, found keys " +
                        printTensorType(NodeImporter::typeOf(key)) +
                        " and values " +
                        printTensorType(NodeImporter::typeOf(value)));
  SmallVector<int64_t> shape(NodeImporter::shapeOf(key));
  shape.insert(shape.begin(), 1);
  Value both = concatenate(
      node, {node.reshape(key, shape), node.reshape(value, shape)}, 0);
  return node.define(index, both);
}

// Imports Attention: (x, weights, bias, mask, past, term added to the scores).
LogicalResult FusedAttention::importProjected() {
  if (node.hasInput(6) || node.integer("past_present_share_buffer", 0) != 0)
    return node.unsupported("input 'past_sequence_length' and attribute "
                            "'past_present_share_buffer' are not supported; "
                            "give a past of the length that it has");
  if (node.integer("do_rotary", 0) != 0)
    return node.unsupported("attribute 'do_rotary' is not supported; use "
                            "RotaryEmbedding and MultiHeadAttention");
  // The numbers of columns of the weights for queries, keys and values: by
  // default a third each.
  SmallVector<int64_t> x(node.operandShape(0)), w(node.operandShape(1));
  if (x.size() != 3 || w.size() != 2 || w[0] != x[2])
    return node.invalid(
        "expected an input of [batch, tokens, size] and weights of [size, "
        "columns for queries, keys and values]" +
        node.found({0, 1}));
  SmallVector<int64_t> sizes = {w[1] / 3, w[1] / 3, w[1] / 3};
  if (auto given = node.integerList("qkv_hidden_sizes"))
    sizes = *given;
  if (sizes.size() != 3 || sizes[0] < 1 || sizes[1] < 1 || sizes[2] < 1 ||
      sizes[0] + sizes[1] + sizes[2] != w[1])
    return node.invalid(
        "expected attribute 'qkv_hidden_sizes' to have three numbers of at "
        "least 1 that add up to the " +
        Twine(w[1]) + " columns of the weights, found " + printShape(sizes) +
        (node.hasAttribute("qkv_hidden_sizes") ? ""
                                               : " by default, a third each"));
  // One product computes all three; slice its columns.
  Value all = node.emit<MatMulOp>({node.operand(0), node.operand(1)});
  if (node.hasInput(2))
    all = node.emit<AddOp>({all, node.operand(2)});
  if (!all)
    return failure();
  int64_t offset = 0;
  for (auto [part, size] :
       llvm::zip_equal(SmallVector<Value *>{&query, &key, &value}, sizes)) {
    *part = slice(node, all, {0, 0, offset}, {x[0], x[1], size});
    offset += size;
    if (failed(separateHeads(*part)))
      return failure();
  }
  if (node.hasInput(4) && failed(appendPackedPast(4)))
    return failure();
  // Output 1, "present", is the past of the next call.
  if (node.hasOutput(1) && failed(definePresent(1)))
    return failure();
  return mix(3, 5);
}

//===----------------------------------------------------------------------===//
// MultiHeadAttention
//===----------------------------------------------------------------------===//

// Reads queries, keys and values as [batch, tokens, heads * size] each. Input 0
// may pack all three as [batch, tokens, heads, 3, size]. Input 1 may pack keys
// and values as [batch, tokens, heads, 2, size].
LogicalResult FusedAttention::unpack() {
  auto take = [&](unsigned index, int64_t which) {
    SmallVector<int64_t> shape(node.operandShape(index)), offsets(5, 0);
    offsets[3] = which;
    shape[3] = 1;
    Value part = slice(node, node.operand(index), offsets, shape);
    return part ? node.reshape(part, {shape[0], shape[1], shape[2] * shape[4]})
                : Value();
  };
  auto isPacked = [&](unsigned index, int64_t count) {
    ArrayRef<int64_t> shape = node.operandShape(index);
    return shape.size() == 5 && shape[3] == count && shape[2] == heads;
  };
  query = node.operand(0);
  if (!node.hasInput(1)) {
    if (node.hasInput(2) || !isPacked(0, 3))
      return node.invalid(
          "expected keys and values as inputs 1 and 2, or packed queries, keys "
          "and values of [batch, tokens, " +
          Twine(heads) + " heads, 3, size] as the only input" +
          node.found({0, 2}));
    query = take(0, 0), key = take(0, 1), value = take(0, 2);
  } else if (!node.hasInput(2)) {
    if (!isPacked(1, 2))
      return node.invalid("expected values as input 2, or packed keys and "
                          "values of [batch, tokens, " +
                          Twine(heads) + " heads, 2, size] as input 1" +
                          node.found({1}));
    key = take(1, 0), value = take(1, 1);
  } else {
    key = node.operand(1), value = node.operand(2);
  }
  return success(query && key && value);
}

// Adds input 3, which concatenates the biases of queries, keys and values. Keys
// and values that come split into heads (rank 4) have no bias.
LogicalResult FusedAttention::addBias() {
  if (!node.hasInput(3))
    return success();
  if (node.operandShape(3).size() != 1)
    return node.invalid("expected a bias of rank 1 with the biases of queries, "
                        "keys and values" +
                        node.found({3}));
  int64_t offset = 0, all = node.operandShape(3)[0];
  bool isAll = true;
  for (Value *part : {&query, &key, &value}) {
    ArrayRef<int64_t> shape = NodeImporter::shapeOf(*part);
    isAll &= shape.size() == 3;
    if (shape.size() != 3)
      continue;
    if (offset + shape[2] > all)
      return node.invalid("expected a bias with an element for each column of "
                          "queries, keys and values" +
                          node.found({0, 1, 2, 3}));
    int64_t size = shape[2];
    *part = node.emit<AddOp>(
        {*part, slice(node, node.operand(3), {offset}, {size})});
    offset += size;
    if (!*part)
      return failure();
  }
  // If queries, keys and values all have a bias, input 3 must hold nothing
  // else.
  if (isAll && offset != all)
    return node.invalid("expected a bias with an element for each column of "
                        "queries, keys and values" +
                        node.found({0, 1, 2, 3}));
  return success();
}

// Imports MultiHeadAttention: (query, key, value, bias, mask of keys, term
// added to the scores, past key, past value).
LogicalResult FusedAttention::importApart() {
  // Inputs 8 and 9 are for decoders that fill a cache in place. A training step
  // has no such cache.
  for (unsigned input : {8u, 9u})
    if (node.hasInput(input))
      return node.unsupported("inputs 'past_sequence_length' and "
                              "'cache_indirection' are not supported; give a "
                              "past of the length that it has");
  if (node.hasOutput(3))
    return node.unsupported(
        "output 3, the scores, is not supported; leave it out");
  if (node.hasInput(6) != node.hasInput(7))
    return node.invalid("expected both past_key and past_value or neither" +
                        node.found({6, 7}));
  // Add the biases before splitting heads: a bias has heads * size elements.
  if (failed(unpack()) || failed(addBias()))
    return failure();
  for (Value *part : {&query, &key, &value}) {
    bool hasHeads = part != &query && NodeImporter::shapeOf(*part).size() == 4;
    if (!hasHeads && failed(separateHeads(*part)))
      return failure();
  }
  // Outputs 1 and 2 are the keys and values with the past in front.
  if (node.hasInput(6) && failed(appendPast(node.operand(6), node.operand(7))))
    return failure();
  if (failed(node.define(1, key)) || failed(node.define(2, value)))
    return failure();
  return mix(4, 5);
}

//===----------------------------------------------------------------------===//
// Table of ops
//===----------------------------------------------------------------------===//

static LogicalResult importPackedAttention(NodeImporter &node) {
  return FusedAttention(node).importProjected();
}

static LogicalResult importMultiHeadAttention(NodeImporter &node) {
  return FusedAttention(node).importApart();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getFusedAttentionOps() {
  static const OpEntry entries[] = {
      {kMicrosoft, "Attention", 1, kNoEnd, 2, 7, 2, importPackedAttention},
      {kMicrosoft, "MultiHeadAttention", 1, kNoEnd, 1, 10, 4,
       importMultiHeadAttention},
  };
  return entries;
}
