// Imports FlexAttention: attention whose scores and weights may be modified by
// graphs of the model.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Bodies.h"
#include "frontends/ONNX/Ops/NN/AttentionHeads.h"

#include <cmath>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// Builds one node: modify(softmax(modify(Q * K^T * scale))) * V for each head.
/// Several query heads may share a head of keys and values.
class FlexAttention {
public:
  explicit FlexAttention(NodeImporter &node) : node(node) {}

  LogicalResult import();

private:
  LogicalResult readShapes();
  Value share(Value value);
  Value whole(Value value);
  Value score();
  Value modify(StringRef graph, Value value);
  Value buildOneOp();
  Value buildParts();

  NodeImporter &node;
  int64_t batch = 0, heads = 0, queries = 0; ///< axes of the query
  int64_t keyHeads = 0, keys = 0;
  double scale = 1;
  Type compute; ///< the type of scores and weights
};
} // namespace

enum FlexAttentionInput { kQuery, kKey, kValue };

LogicalResult FlexAttention::readShapes() {
  for (unsigned index : {kQuery, kKey, kValue})
    if (node.operandShape(index).size() != 4)
      return node.invalid("expected query, key and value of rank 4" +
                          node.found({0, 1, 2}));
  ArrayRef<int64_t> query = node.operandShape(kQuery);
  ArrayRef<int64_t> key = node.operandShape(kKey);
  ArrayRef<int64_t> value = node.operandShape(kValue);
  batch = query[0], heads = query[1], queries = query[2];
  keyHeads = key[1], keys = key[2];
  if (key[0] != batch || value.take_front(3) != key.take_front(3) ||
      key[3] != query[3])
    return node.invalid(
        "expected query [batch, heads, queries, size], key [batch, key heads, "
        "keys, size] and value [batch, key heads, keys, any size]" +
        node.found({0, 1, 2}));
  if (keyHeads == 0 || heads % keyHeads != 0)
    return node.invalid(Twine(keyHeads) + " heads of keys do not divide " +
                        Twine(heads) + " heads of queries");
  Type element = node.operandType(kQuery).getElementType();
  for (unsigned index : {kKey, kValue})
    if (node.operandType(index).getElementType() != element)
      return node.refuseTypes(element,
                              node.operandType(index).getElementType());
  // Compute 16-bit floats in float32 unless attribute 'softmax_precision' says
  // otherwise.
  Type wide = element.isF64() ? element : Type(node.attributes().getF32Type());
  FailureOr<Type> type = node.elementType("softmax_precision", wide);
  if (failed(type))
    return failure();
  if (!isa<FloatType>(element) || !isa<FloatType>(*type))
    return node.invalid("expected floats, and attribute 'softmax_precision' to "
                        "be a float type, found " +
                        printElementType(*type) + node.found({0}));
  compute = *type;
  scale = node.real("scale", 1 / std::sqrt(static_cast<double>(query[3])));
  return success();
}

/// Splits the heads axis of [batch, heads, ...] into key heads and the query
/// heads that share each: with two key heads, [batch, 8, ...] becomes [batch,
/// 2, 4, ...].
Value FlexAttention::share(Value value) {
  if (!value || heads == keyHeads)
    return value;
  SmallVector<int64_t> shape(NodeImporter::shapeOf(value));
  shape.insert(shape.begin() + 2, shape[1] / keyHeads);
  shape[1] = keyHeads;
  return node.reshape(value, shape);
}

/// Undoes `share`: merges both heads axes, to [batch, heads, queries, ...].
Value FlexAttention::whole(Value value) {
  if (!value)
    return {};
  return node.reshape(
      value, {batch, heads, queries, NodeImporter::shapeOf(value).back()});
}

/// Computes the scores: queries * keys^T * scale. Queries and keys are each
/// multiplied by the root of the scale before the product, so that no
/// intermediate exceeds the range of the scores.
Value FlexAttention::score() {
  double root = std::sqrt(std::abs(scale));
  auto scaled = [&](unsigned index, double factor) {
    Value x = node.operand(index);
    return x ? node.emit<MulOp>(
                   {x, numberConstant(node, factor, elementTypeOf(x))})
             : Value();
  };
  Value left = scaled(kQuery, std::copysign(root, scale));
  Value right = scaled(kKey, root);
  if (!left || !right)
    return {};
  right = transpose(node, right, {0, 1, 3, 2});
  Value scores = node.emit<MatMulOp>({share(left), share(right)});
  return scores ? castTo(node, whole(scores), compute) : Value();
}

/// Applies the graph in attribute `name` to `value`. Returns `value` if the
/// node has no such graph.
Value FlexAttention::modify(StringRef name, Value value) {
  if (!value || !node.hasAttribute(name))
    return value;
  std::optional<Graph> graph = readBody(node, name);
  if (!graph || failed(checkCounts(node, *graph, 1, 1)))
    return {};
  // Import the graph's nodes into the surrounding function. The scope keeps the
  // names of nodes unique.
  FunctionImporter body(node.getFunction(), *graph);
  body.defaultPhase = node.getPhase();
  body.scope = (findOutput(node) + "#" + name).str();
  body.bind(graph->getInputs().front()->name(), value);
  body.importNodes(findNodes(*graph));
  if (body.getModule().hasFailed())
    return {};
  Value result = body.materialize(graph->getOutputs().front()->name(), "");
  if (result && result.getType() != value.getType()) {
    std::string text;
    llvm::raw_string_ostream(text)
        << "expected '" << name << "' to give " << value.getType()
        << ", as it is given, found " << result.getType();
    (void)node.invalid(text);
    return {};
  }
  return result;
}

/// Builds an mpc.attention, which computes in float32 at least, for a node
/// without graphs.
Value FlexAttention::buildOneOp() {
  AttentionOperands operands = {share(node.operand(kQuery)),
                                share(node.operand(kKey)),
                                share(node.operand(kValue)), Value(), Value()};
  return whole(
      attend(node, operands,
             {node.attribute("scale", scale), node.attribute("softcap", 0.0)}));
}

Value FlexAttention::buildParts() {
  Value scores = modify("score_mod", score());
  if (!scores)
    return {};
  Value weights =
      node.emit<SoftmaxOp>({scores}, {node.attribute("axis", int64_t(3))});
  weights = modify("prob_mod", weights);
  if (!weights)
    return {};
  Value values = castTo(node, node.operand(kValue), compute);
  if (!values)
    return {};
  Value mixed = node.emit<MatMulOp>({share(weights), share(values)});
  return whole(castTo(node, mixed, node.operandType(kValue).getElementType()));
}

LogicalResult FlexAttention::import() {
  if (failed(readShapes()))
    return failure();
  bool isModified =
      node.hasAttribute("score_mod") || node.hasAttribute("prob_mod");
  // mpc.attention computes in float32, and in float64 only if all types are
  // float64.
  Type element = node.operandType(kQuery).getElementType();
  bool isOneOp = !isModified && (compute.isF32() || compute == element) &&
                 !(element.isF64() && compute.isF32());
  return node.define(0, isOneOp ? buildOneOp() : buildParts());
}

static LogicalResult importFlexAttention(NodeImporter &node) {
  return FlexAttention(node).import();
}

ArrayRef<OpEntry> mpc::onnx_frontend::getFlexAttentionOps() {
  static const OpEntry entries[] = {
      {kPreview, "FlexAttention", 1, kNoEnd, 3, 3, 1, importFlexAttention},
  };
  return entries;
}
