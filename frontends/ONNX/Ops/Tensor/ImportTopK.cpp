// TopK. Elements have one order: by their value, NaN above all numbers as in
// PyTorch (ONNX Runtime has no order for it), and of equal ones the first comes
// first. Two ways to find the k first of n in it:
//
// - counting: an element's place is the number of those before it. One kernel
//   compares all pairs, n * n of them, which are never in memory, and a scatter
//   puts the places in order;
// - rounds: each finds the first of those behind the one found last, in two
//   reductions over n. A few rounds are ops of their own, more are a loop.
//
// A round costs about what 4 comparisons of each element do, so rounds are for
// n > 4 k. A core compares about 2e9 pairs in a second, so a line of n elements
// takes n * n / 2e9 seconds at most (k >= n / 4): 0.02 s for 6,000 elements, 5
// s for 100,000.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// Lines along the middle axis of (outer, n, inner).
struct RankedLines {
  int64_t outer, n, inner;
  /// What is compared, the largest first, and what decides among equals: a
  /// number in [0, 2n) for each element of a line, the largest first. Of
  /// integers the same for all lines.
  Value keys, scores;

  SmallVector<int64_t> shape(int64_t middle) const {
    return {outer, middle, inner};
  }
};
} // namespace

static Value lowestKey(NodeImporter &node, Type type) {
  if (isa<FloatType>(type))
    return numberConstant(node, -std::numeric_limits<double>::infinity(), type);
  auto integer = cast<IntegerType>(type);
  return numberConstant(
      node, integer.isUnsigned() ? 0 : -std::ldexp(1.0, integer.getWidth() - 1),
      type);
}

// Floats in f64, which precision leaves as it is: whether two are equal must
// not depend on what of them is rounded where.
static RankedLines rankLines(NodeImporter &node, Value x, bool isLargest) {
  ArrayRef<int64_t> shape = NodeImporter::shapeOf(x);
  RankedLines lines = {shape[0], shape[1], shape[2], x, Value()};
  SmallVector<int64_t> scores;
  for (int64_t i = 0; i < lines.n; ++i)
    scores.push_back(lines.n - 1 - i);
  lines.scores = integerConstant(node, {1, lines.n, 1}, scores);
  if (!isa<FloatType>(elementTypeOf(x))) {
    // The complement turns the order of integers round.
    lines.keys = isLargest ? x : node.emit<NotOp>({x});
    return lines;
  }
  Type wide = node.attributes().getF64Type();
  x = castTo(node, x, wide);
  Value isNaN = node.emit<IsNaNOp>({x});
  Value directed = isLargest ? x : node.emit<NegOp>({x});
  // NaN is before its equals, the infinities, or behind them.
  double infinity = std::numeric_limits<double>::infinity();
  lines.keys = node.emit<SelectOp>(
      {isNaN, numberConstant(node, isLargest ? infinity : -infinity, wide),
       directed});
  Value ahead =
      node.emit<AddOp>({lines.scores, integerConstant(node, {}, lines.n)});
  lines.scores = isLargest ? node.emit<SelectOp>({isNaN, ahead, lines.scores})
                           : node.emit<SelectOp>({isNaN, lines.scores, ahead});
  return lines;
}

// True where `a`, a pair of key and score, ranks before `b`: the key is smaller
// or, of equal keys, the score larger.
static Value isBefore(NodeImporter &node, std::pair<Value, Value> a,
                      std::pair<Value, Value> b) {
  Value isTie = node.emit<EqualOp>({a.first, b.first});
  Value wins = node.emit<LessOp>({b.second, a.second});
  return node.emit<OrOp>(
      {node.emit<LessOp>({b.first, a.first}), node.emit<AndOp>({isTie, wins})});
}

//===----------------------------------------------------------------------===//
// Counting
//===----------------------------------------------------------------------===//

// Numbers of the k first elements of each line, (outer, k, inner), by the
// number of elements before each.
static Value rankByCounting(NodeImporter &node, const RankedLines &lines,
                            int64_t k) {
  // (outer, n, 1, inner), or (outer, 1, n, inner)
  auto alongAxis = [&](Value value, int64_t axis) {
    SmallVector<int64_t> shape(NodeImporter::shapeOf(value));
    shape.insert(shape.begin() + (axis == 1 ? 2 : 1), 1);
    return node.reshape(value, shape);
  };
  if (!lines.keys || !lines.scores)
    return {};
  Value precedes =
      isBefore(node, {alongAxis(lines.keys, 2), alongAxis(lines.scores, 2)},
               {alongAxis(lines.keys, 1), alongAxis(lines.scores, 1)});
  Value count = castTo(node, precedes, node.attributes().getI32Type());
  Value places = reduce<ReduceSumOp>(node, count, {2}, /*keepDims=*/false);
  Value numbers = expand(node, iota(node, 3, 1, lines.n), lines.shape(lines.n));
  Value none = expand(node, integerConstant(node, {}, 0), lines.shape(k));
  // A place of k and more is none of the result's, and is left out.
  return node.emit<ScatterElementsOp>(
      {none, places, numbers},
      {node.attribute("axis", int64_t(1)),
       node.attribute("reduction",
                      ScatterReductionAttr::get(node.getContext(),
                                                ScatterReduction::None))});
}

//===----------------------------------------------------------------------===//
// Rounds
//===----------------------------------------------------------------------===//

// Key and score of the first element of each line behind the one of `last`.
static std::pair<Value, Value> findNext(NodeImporter &node,
                                        const RankedLines &lines,
                                        std::pair<Value, Value> last) {
  Value isLeft = isBefore(node, last, {lines.keys, lines.scores});
  if (!isLeft)
    return {};
  Value lowest = lowestKey(node, elementTypeOf(lines.keys));
  Value key = reduce<ReduceMaxOp>(
      node, node.emit<SelectOp>({isLeft, lines.keys, lowest}), {1});
  Value isNext =
      node.emit<AndOp>({isLeft, node.emit<EqualOp>({lines.keys, key})});
  Value none = integerConstant(node, {}, -1);
  Value score = reduce<ReduceMaxOp>(
      node, node.emit<SelectOp>({isNext, lines.scores, none}), {1});
  return {key, score};
}

// Before all elements.
static std::pair<Value, Value> startRounds(NodeImporter &node,
                                           const RankedLines &lines) {
  Type type = elementTypeOf(lines.keys);
  Value lowest = lowestKey(node, type);
  Value highest = isa<FloatType>(type) ? node.emit<NegOp>({lowest})
                                       : node.emit<NotOp>({lowest});
  Value above = integerConstant(node, {}, 2 * lines.n);
  return {expand(node, highest, lines.shape(1)),
          expand(node, above, lines.shape(1))};
}

// The scores of the k first elements of each line, (outer, k, inner).
static Value runRounds(NodeImporter &node, const RankedLines &lines,
                       int64_t k) {
  SmallVector<Value> scores;
  std::pair<Value, Value> last = startRounds(node, lines);
  for (int64_t round = 0; round < k; ++round) {
    last = findNext(node, lines, last);
    if (!last.second)
      return {};
    scores.push_back(last.second);
  }
  return concatenate(node, scores, 1);
}

// The same as a loop.
static Value loopRounds(NodeImporter &node, const RankedLines &lines,
                        int64_t k) {
  // Before the first round nothing has been found.
  auto [key, score] = startRounds(node, lines);
  if (!key || !score || node.hasFailed())
    return {};
  // Each iteration carries the last key and score and finds the next.
  OpBuilder &builder = node.getFunction().getBuilder();
  Type stacked = ScanOp::getStackType(score.getType(), k);
  auto scan =
      ScanOp::create(builder, node.getLocation(), k, ValueRange{key, score},
                     ValueRange(), ValueRange{lines.keys, lines.scores},
                     TypeRange(stacked), ArrayRef<bool>(), {false});
  if (std::optional<Phase> phase = node.getPhase())
    setPhase(scan, *phase);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToEnd(&scan.getBody().front());
    // The body reads keys and scores by arguments of its own.
    RankedLines inside = lines;
    inside.keys = scan.getInvariantArguments()[0];
    inside.scores = scan.getInvariantArguments()[1];
    auto next = findNext(
        node, inside,
        {scan.getCarriedArguments()[0], scan.getCarriedArguments()[1]});
    if (!next.second || node.hasFailed())
      return {};
    YieldOp::create(builder, node.getLocation(),
                    ValueRange{next.first, next.second, next.second});
  }
  // As (outer, k, inner).
  Value scores =
      node.reshape(scan.getStacked().front(), {k, lines.outer, lines.inner});
  return transpose(node, scores, {1, 0, 2});
}

// Numbers of the k first elements, by their scores.
static Value rankInRounds(NodeImporter &node, const RankedLines &lines,
                          int64_t k) {
  constexpr int64_t kMostOps = 8; // more are a loop
  if (!lines.keys || !lines.scores)
    return {};
  Value scores =
      k <= kMostOps ? runRounds(node, lines, k) : loopRounds(node, lines, k);
  Value fromEnd =
      node.emit<ModOp>({scores, integerConstant(node, {}, lines.n)});
  return node.emit<SubOp>({integerConstant(node, {}, lines.n - 1), fromEnd});
}

//===----------------------------------------------------------------------===//
// The node
//===----------------------------------------------------------------------===//

static LogicalResult assembleTopK(NodeImporter &node, int64_t k) {
  SmallVector<int64_t> shape(node.operandShape(0));
  auto axis = node.normalizeAxis(node.integer("axis", -1), shape.size());
  if (failed(axis))
    return failure();
  // Attributes since opset 11.
  bool isLargest = true;
  if (node.getOpset() >= 11) {
    isLargest = node.integer("largest", 1) != 0;
    (void)node.integer("sorted", 1); // an order is one among any
  }
  int64_t n = shape[*axis];
  if (k < 0 || k > n)
    return node.invalid("expected k from 0 to " + Twine(n) +
                        ", the length of axis " + Twine(*axis) + ", found " +
                        Twine(k));
  if (!canList(node, n))
    return failure();
  // Lines along the axis, whatever stands before and behind.
  ArrayRef<int64_t> all = shape;
  int64_t outer = ShapedType::getNumElements(all.take_front(*axis));
  int64_t inner = ShapedType::getNumElements(all.drop_front(*axis + 1));
  Value x = node.reshape(node.operand(0), {outer, n, inner});
  if (!x)
    return failure();
  // Numbers of the k best, by rounds where k is small.
  Value numbers;
  if (outer * inner * k == 0) {
    numbers = integerConstant(node, {outer, k, inner}, {});
  } else {
    RankedLines lines = rankLines(node, x, isLargest);
    numbers = n > 4 * k ? rankInRounds(node, lines, k)
                        : rankByCounting(node, lines, k);
  }
  if (!numbers)
    return failure();
  node.getFunction().noteRange(numbers, {0, n - 1});
  // Gather the values of the chosen places; give both results the axis back.
  Value values = node.emit<GatherElementsOp>(
      {x, numbers}, {node.attribute("axis", int64_t(1))});
  shape[*axis] = k;
  if (failed(node.define(0, node.reshape(values, shape))))
    return failure();
  return node.define(1, node.reshape(numbers, shape));
}

static LogicalResult importTopK(NodeImporter &node) {
  auto k = node.integers(1, "k");
  if (failed(k))
    return failure();
  if (k->size() != 1)
    return node.invalid("expected one number k, found " + Twine(k->size()));
  return assembleTopK(node, k->front());
}

// Before opset 10: k is an attribute.
static LogicalResult importAttributeTopK(NodeImporter &node) {
  if (!node.hasAttribute("k"))
    return node.invalid("attribute 'k' is missing");
  return assembleTopK(node, node.integer("k", 0));
}

ArrayRef<OpEntry> mpc::onnx_frontend::getTopKOps() {
  static const OpEntry entries[] = {
      {"", "TopK", 1, 9, 1, 1, 2, importAttributeTopK},
      {"", "TopK", 10, kNoEnd, 2, 2, 2, importTopK},
  };
  return entries;
}
