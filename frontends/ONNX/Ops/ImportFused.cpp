// Ops of com.microsoft that ONNX Runtime's optimizer makes of several, of what
// they were made of: norms of sums, embeddings, attention with its projections,
// products with an activation.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Ops/Assemble.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

static Value readOptional(NodeImporter &node, unsigned index) {
  return node.hasInput(index) ? node.operand(index) : Value();
}

static Value addTo(NodeImporter &node, Value x, Value other) {
  return other ? node.emit<AddOp>({x, other}) : x;
}

//===----------------------------------------------------------------------===//
// Norms of sums
//===----------------------------------------------------------------------===//

// A norm over the last axis, with the statistics as outputs 1 and 2 where
// `hasStatistics`.
static LogicalResult normalizeLast(NodeImporter &node, Value x, Value scale,
                                   Value bias, bool hasStatistics) {
  if (!x || !scale)
    return failure();
  SmallVector<int64_t> axes = {NodeImporter::typeOf(x).getRank() - 1};
  SmallVector<Value> operands = {x, scale};
  if (bias)
    operands.push_back(bias);
  auto norm = node.create<LayerNormOp>(
      operands, {node.attribute("axes", axes),
                 node.attribute("epsilon", node.real("epsilon", 1e-12f))});
  if (!norm || failed(node.define(0, norm.getOutput())))
    return failure();
  if (!hasStatistics)
    return success();
  (void)node.define(1, norm.getMean());
  return node.define(2, norm.getInvStd());
}

// Input + skip + bias, which is output 3 too.
static Value sumSkip(NodeImporter &node, unsigned bias) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  auto whole = broadcastShapes(shape, node.operandShape(1));
  if (failed(whole) || ArrayRef<int64_t>(*whole) != shape) {
    (void)node.invalid("input 1 does not broadcast to input 0");
    return {};
  }
  Value sum = addTo(node, node.operand(0), node.operand(1));
  sum = addTo(node, sum, readOptional(node, bias));
  if (sum)
    (void)node.define(3, sum);
  return sum;
}

// (x, skip, scale, shift, bias) -> layer norm of x + skip + bias
static LogicalResult importSkipLayerNorm(NodeImporter &node) {
  return normalizeLast(node, sumSkip(node, 4), node.operand(2),
                       readOptional(node, 3), /*hasStatistics=*/true);
}

// (x, skip, scale, bias) -> RMS norm of x + skip + bias
static LogicalResult importSkipRMSNorm(NodeImporter &node) {
  Value sum = sumSkip(node, 3);
  if (!sum)
    return failure();
  if (node.hasOutput(1))
    return node.unsupported("output 1, a mean, is not supported");
  SmallVector<int64_t> axes = {NodeImporter::typeOf(sum).getRank() - 1};
  auto norm = node.create<RMSNormOp>(
      {sum, node.operand(2)},
      {node.attribute("axes", axes),
       node.attribute("epsilon", node.real("epsilon", 1e-12f))});
  if (!norm || failed(node.define(0, norm.getOutput())))
    return failure();
  return node.define(2, norm.getInvRms());
}

//===----------------------------------------------------------------------===//
// Embeddings
//===----------------------------------------------------------------------===//

// Rows of table `table` that `ids` names; null where either is absent.
static FailureOr<Value> lookUp(NodeImporter &node, unsigned table,
                               unsigned ids) {
  if (!node.hasInput(table) || !node.hasInput(ids))
    return Value();
  if (node.operandShape(table).size() != 2)
    return node.invalid("expected input " + Twine(table) + " of rank 2");
  if (failed(checkIndices(node, ids, node.operandShape(table)[0])))
    return failure();
  return gather(node, node.operand(table), node.operand(ids), /*axis=*/0);
}

// How many ids of each sample are none of padding.
static LogicalResult defineMaskIndex(NodeImporter &node, unsigned mask) {
  if (!node.hasOutput(1))
    return success();
  int64_t batch = node.operandShape(0)[0];
  Type integer = node.attributes().getI32Type();
  if (!node.hasInput(mask))
    return node.define(1,
                       expand(node, numberConstant(node, 0, integer), {batch}));
  Value sum = reduce<ReduceSumOp>(
      node, castTo(node, node.operand(mask), integer), {1}, false);
  return node.define(1, sum);
}

// (ids, segments, words, positions, segment table, scale, shift, mask, position
// ids) -> layer norm of the sum of the rows
static LogicalResult importEmbedLayerNorm(NodeImporter &node) {
  ArrayRef<int64_t> shape = node.operandShape(0);
  if (shape.size() != 2 || node.operandShape(3).size() != 2)
    return node.invalid("expected ids and a table of positions of rank 2");
  // Rows of the three tables; without ids, positions are counted.
  FailureOr<Value> words = lookUp(node, 2, 0);
  FailureOr<Value> segments = lookUp(node, 4, 1);
  FailureOr<Value> positions = lookUp(node, 3, 8);
  if (failed(words) || failed(segments) || failed(positions))
    return failure();
  if (!*positions) {
    ArrayRef<int64_t> table = node.operandShape(3);
    if (shape[1] > table[0])
      return node.invalid("there are " + Twine(table[0]) +
                          " positions, fewer than the " + Twine(shape[1]) +
                          " ids of a sample");
    positions = slice(node, node.operand(3), {0, 0}, {shape[1], table[1]});
  }
  // Their sum is normalized.
  Value sum = addTo(node, addTo(node, *words, *positions), *segments);
  if (!sum || failed(node.define(2, sum)) || failed(defineMaskIndex(node, 7)))
    return failure();
  return normalizeLast(node, sum, node.operand(5), readOptional(node, 6),
                       /*hasStatistics=*/false);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

namespace {
/// What both attentions share: heads of [batch, tokens, heads * size].
class FusedAttention {
public:
  explicit FusedAttention(NodeImporter &node)
      : node(node), heads(node.integer("num_heads", 0)) {}

  LogicalResult importProjected();
  LogicalResult importApart();

private:
  FailureOr<Value> splitHeads(Value x);
  LogicalResult readKeyMask(unsigned index, int64_t batch, int64_t queries,
                            int64_t keys);
  LogicalResult attend(Value query, Value key, Value value, unsigned mask,
                       unsigned bias);

  NodeImporter &node;
  int64_t heads;
  /// What is added to the scores.
  Value bias;
};
} // namespace

// [batch, heads, tokens, size]
FailureOr<Value> FusedAttention::splitHeads(Value x) {
  if (!x)
    return failure();
  ArrayRef<int64_t> shape = NodeImporter::shapeOf(x);
  if (shape.size() != 3)
    return node.unsupported("expected queries, keys and values of [batch, "
                            "tokens, size]; packed ones are not supported");
  if (heads < 1 || shape[2] % heads != 0)
    return node.invalid(Twine(heads) + " heads do not divide the " +
                        Twine(shape[2]) + " elements of a token");
  Value apart = node.reshape(x, {shape[0], shape[1], heads, shape[2] / heads});
  return transpose(node, apart, {0, 2, 1, 3});
}

// Masks of integers: of each key, of each pair, or how many keys there are.
// What is hidden gets a number added.
LogicalResult FusedAttention::readKeyMask(unsigned index, int64_t batch,
                                          int64_t queries, int64_t keys) {
  if (!node.hasInput(index))
    return success();
  ArrayRef<int64_t> shape = node.operandShape(index);
  Type integer = node.attributes().getI64Type();
  Value given = castTo(node, node.operand(index), integer), isSeen;
  Value zero = integerConstant(node, {}, 0);
  if (shape == ArrayRef<int64_t>({batch, keys}))
    isSeen =
        node.emit<LessOp>({zero, node.reshape(given, {batch, 1, 1, keys})});
  else if (shape == ArrayRef<int64_t>({batch, queries, keys}))
    isSeen = node.emit<LessOp>(
        {zero, node.reshape(given, {batch, 1, queries, keys})});
  else if (shape == ArrayRef<int64_t>(batch))
    isSeen = node.emit<LessOp>(
        {iota(node, 4, 3, keys), node.reshape(given, {batch, 1, 1, 1})});
  else
    return node.unsupported("expected a mask of [batch], [batch, keys] or "
                            "[batch, queries, keys]");
  Type element = elementTypeOf(node.operand(0));
  double hidden = node.real("mask_filter_value", -10000.0);
  bias = node.emit<SelectOp>({isSeen, numberConstant(node, 0, element),
                              numberConstant(node, hidden, element)});
  return success(bias != nullptr);
}

// softmax(scale * query key^T + masks) value, all heads joined again.
LogicalResult FusedAttention::attend(Value query, Value key, Value value,
                                     unsigned mask, unsigned extra) {
  if (!query || !key || !value)
    return failure();
  SmallVector<int64_t> q(NodeImporter::shapeOf(query));
  SmallVector<int64_t> k(NodeImporter::shapeOf(key));
  SmallVector<int64_t> v(NodeImporter::shapeOf(value));
  if (k[0] != q[0] || v[0] != q[0] || v[2] != k[2] || k[3] != q[3])
    return node.invalid("query, key and value do not fit each other");
  if (failed(readKeyMask(mask, q[0], q[2], k[2])))
    return failure();
  if (Value added = readOptional(node, extra))
    bias = bias ? node.emit<AddOp>({bias, added}) : added;
  Builder &b = node.attributes();
  SmallVector<Value> operands = {query, key, value};
  if (bias)
    operands.push_back(bias);
  double scale = node.real("scale", 0.0);
  if (scale == 0)
    scale = 1 / std::sqrt(static_cast<double>(q[3]));
  SmallVector<NamedAttribute> attributes = {
      node.attribute("operandSegmentSizes",
                     b.getDenseI32ArrayAttr({1, 1, 1, bias ? 1 : 0, 0, 0, 0})),
      node.attribute("scale", scale)};
  if (node.integer("unidirectional", 0) != 0)
    attributes.push_back(node.attribute("causal_offset", k[2] - q[2]));
  auto op = node.create<AttentionOp>(operands, attributes);
  if (!op)
    return failure();
  Value joined = transpose(node, op.getOutput(), {0, 2, 1, 3});
  return node.define(0, joined ? node.reshape(joined, {q[0], q[2], v[1] * v[3]})
                               : Value());
}

// (x, weights, bias, mask, past, bias of scores): the projections are in it.
LogicalResult FusedAttention::importProjected() {
  for (unsigned input : {4u, 6u})
    if (node.hasInput(input))
      return node.unsupported("past keys and values are not supported");
  if (node.integer("do_rotary", 0) != 0 || node.hasOutput(1))
    return node.unsupported("attribute 'do_rotary' and output 1, keys and "
                            "values, are not supported");
  SmallVector<int64_t> x(node.operandShape(0)), w(node.operandShape(1));
  if (x.size() != 3 || w.size() != 2 || w[0] != x[2])
    return node.invalid("expected an input of [batch, tokens, size] and "
                        "weights of [size, all heads]");
  SmallVector<int64_t> sizes = {w[1] / 3, w[1] / 3, w[1] / 3};
  if (auto given = node.integerList("qkv_hidden_sizes"))
    sizes = *given;
  if (sizes.size() != 3 || sizes[0] < 1 || sizes[1] < 1 || sizes[2] < 1 ||
      sizes[0] + sizes[1] + sizes[2] != w[1])
    return node.invalid("weights of " + Twine(w[1]) +
                        " columns are no queries, keys and values");
  Value all = node.emit<MatMulOp>({node.operand(0), node.operand(1)});
  all = addTo(node, all, readOptional(node, 2));
  if (!all)
    return failure();
  Value parts[3];
  int64_t offset = 0;
  for (unsigned i = 0; i < 3; offset += sizes[i++]) {
    FailureOr<Value> part =
        splitHeads(slice(node, all, {0, 0, offset}, {x[0], x[1], sizes[i]}));
    if (failed(part))
      return failure();
    parts[i] = *part;
  }
  return attend(parts[0], parts[1], parts[2], 3, 5);
}

// (query, key, value, bias, mask of keys, bias of scores, past)
LogicalResult FusedAttention::importApart() {
  for (unsigned input : {6u, 7u, 8u, 9u})
    if (node.hasInput(input))
      return node.unsupported("past keys and values are not supported");
  if (!node.hasInput(1) || !node.hasInput(2))
    return node.unsupported("packed queries, keys and values are not "
                            "supported");
  if (node.hasOutput(1) || node.hasOutput(2) || node.hasOutput(3))
    return node.unsupported("outputs beside the first are not supported");
  Value parts[3];
  int64_t offset = 0;
  for (unsigned i = 0; i < 3; ++i) {
    Value x = node.operand(i);
    if (node.hasInput(3) && NodeImporter::shapeOf(x).size() == 3) {
      int64_t size = NodeImporter::shapeOf(x)[2];
      if (node.operandShape(3).size() != 1 ||
          offset + size > node.operandShape(3)[0])
        return node.invalid("expected a bias of queries, keys and values");
      x = addTo(node, x, slice(node, node.operand(3), {offset}, {size}));
      offset += size;
    }
    FailureOr<Value> part = splitHeads(x);
    if (failed(part))
      return failure();
    parts[i] = *part;
  }
  return attend(parts[0], parts[1], parts[2], 4, 5);
}

static LogicalResult importPackedAttention(NodeImporter &node) {
  return FusedAttention(node).importProjected();
}

static LogicalResult importMultiHeadAttention(NodeImporter &node) {
  return FusedAttention(node).importApart();
}

//===----------------------------------------------------------------------===//
// Products and gates
//===----------------------------------------------------------------------===//

// The activation of that name, with the parameters that it has.
static Value activate(NodeImporter &node, StringRef name, Value x) {
  double alpha = node.real("activation_alpha", 0.01);
  if (name == "Relu")
    return node.emit<ReluOp>({x});
  if (name == "Sigmoid")
    return node.emit<SigmoidOp>({x});
  if (name == "Tanh")
    return node.emit<TanhOp>({x});
  if (name == "Softplus")
    return node.emit<SoftplusOp>({x});
  if (name == "LeakyRelu")
    return node.emit<LeakyReluOp>({x}, {node.attribute("alpha", alpha)});
  (void)node.unsupported("activation '" + name + "' is not known");
  return {};
}

// Gemm and an activation.
static LogicalResult importFusedGemm(NodeImporter &node) {
  SmallVector<Value> operands = {node.operand(0), node.operand(1)};
  if (node.hasInput(2))
    operands.push_back(node.operand(2));
  Value product = node.emit<GemmOp>(
      operands, {node.attribute("alpha", node.real("alpha", 1.0)),
                 node.attribute("beta", node.real("beta", 1.0)),
                 node.attribute("transA", node.integer("transA", 0) != 0),
                 node.attribute("transB", node.integer("transB", 0) != 0)});
  std::string name = node.string("activation", "");
  return node.define(
      0, name.empty() || !product ? product : activate(node, name, product));
}

// x + bias, of which one half multiplies the GELU of the other.
static LogicalResult importBiasSplitGelu(NodeImporter &node) {
  SmallVector<int64_t> sizes(node.operandShape(0));
  if (sizes.empty() || sizes.back() % 2 != 0)
    return node.invalid("expected an even number of elements in a row");
  Value sum = addTo(node, node.operand(0), node.operand(1));
  SmallVector<int64_t> offsets(sizes.size(), 0);
  sizes.back() /= 2;
  Value left = slice(node, sum, offsets, sizes);
  offsets.back() = sizes.back();
  Value right = slice(node, sum, offsets, sizes);
  return node.define(0, node.emit<MulOp>({left, node.emit<GeluOp>({right})}));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getFusedOps() {
  static const OpEntry entries[] = {
      {kMicrosoft, "Attention", 1, kNoEnd, 2, 7, 2, importPackedAttention},
      {kMicrosoft, "BiasSplitGelu", 1, kNoEnd, 2, 2, 1, importBiasSplitGelu},
      {kMicrosoft, "EmbedLayerNormalization", 1, kNoEnd, 1, 9, 3,
       importEmbedLayerNorm},
      {kMicrosoft, "FusedGemm", 1, kNoEnd, 2, 3, 1, importFusedGemm},
      {kMicrosoft, "MultiHeadAttention", 1, kNoEnd, 1, 10, 4,
       importMultiHeadAttention},
      {kMicrosoft, "SkipLayerNormalization", 1, kNoEnd, 3, 5, 4,
       importSkipLayerNorm},
      {kMicrosoft, "SkipSimplifiedLayerNormalization", 1, kNoEnd, 3, 4, 4,
       importSkipRMSNorm},
  };
  return entries;
}
