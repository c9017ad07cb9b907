// Imports TopK. Elements are ordered by value; NaN is above all numbers as in
// PyTorch (ONNX Runtime leaves its order open), and the first of equal elements
// comes first. There are two ways to find the first k of n elements:
//
// - Counting: an element's rank is the number of elements before it. One kernel
//   compares all n * n pairs, which are never in memory, and a scatter sorts by
//   rank.
// - Rounds: each round finds the next element in two reductions over n. A few
//   rounds become separate ops, more become a loop.
//
// A round costs about 4 comparisons per element, so rounds are used if n > 4 k.
// A core compares about 2e9 pairs per second. A line of n elements thus takes
// at most n * n / 2e9 seconds (for k >= n / 4): 0.02 s for 6,000 elements, 5 s
// for 100,000.
//
// SPDX-License-Identifier: Apache-2.0
#include "frontends/ONNX/Importer/Assemble.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::onnx_frontend;

namespace {
/// The lines of a tensor (outer, n, inner) along the middle axis, in which TopK
/// ranks elements.
struct RankedLines {
  int64_t outer, n, inner;
  /// Elements are ordered by `keys`, and elements with equal keys by `scores`;
  /// larger values come first. The scores are distinct numbers in [0, 2n)
  /// within a line; for integers all lines have the same scores.
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

// Computes keys and scores of x, (outer, n, inner). Floats are ranked in f64,
// which the Precision stage leaves alone: rounding must not change which
// elements are equal.
static RankedLines rankLines(NodeImporter &node, Value x, bool isLargest) {
  ArrayRef<int64_t> shape = NodeImporter::shapeOf(x);
  RankedLines lines = {shape[0], shape[1], shape[2], x, Value()};
  SmallVector<int64_t> scores;
  for (int64_t i = 0; i < lines.n; ++i)
    scores.push_back(lines.n - 1 - i);
  lines.scores = integerConstant(node, {1, lines.n, 1}, scores);
  if (!isa<FloatType>(elementTypeOf(x))) {
    // The complement ~x reverses the order of integers, so that the smallest
    // come first.
    lines.keys = isLargest ? x : node.emit<NotOp>({x});
    return lines;
  }
  Type wide = node.attributes().getF64Type();
  x = castTo(node, x, wide);
  Value isNaN = node.emit<IsNaNOp>({x});
  Value directed = isLargest ? x : node.emit<NegOp>({x});
  // The key of NaN is infinite, the same as that of an infinity. Scores of n
  // and more put NaN before equal infinities, or behind them if the smallest
  // elements are wanted.
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

// True if `a`, a pair of key and score, ranks before `b`: the key is larger or,
// for equal keys, the score is larger.
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

// Returns the indices of the first k elements of each line, (outer, k, inner).
// Counts for each element the elements before it: the count is the rank.
static Value rankByCounting(NodeImporter &node, const RankedLines &lines,
                            int64_t k) {
  // Reshapes to (outer, n, 1, inner), or (outer, 1, n, inner).
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
  // A rank of k or more is out of range, so the scatter ignores the element.
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

// Returns the key and score of the element of each line that comes next behind
// `last`, a key and a score.
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

// Returns a key and a score that rank before all elements, to begin the first
// round.
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

// Returns the scores of the first k elements of each line, (outer, k, inner).
// Each round is a few separate ops.
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

// Returns what runRounds() returns, by an mpc.scan with one round per
// iteration.
static Value loopRounds(NodeImporter &node, const RankedLines &lines,
                        int64_t k) {
  auto [key, score] = startRounds(node, lines);
  if (!key || !score || node.hasFailed())
    return {};
  // Each iteration takes the last key and score as carried values, and yields
  // the next.
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
  Value scores =
      node.reshape(scan.getStacked().front(), {k, lines.outer, lines.inner});
  return transpose(node, scores, {1, 0, 2});
}

// Returns the indices of the first k elements of each line. Each index is
// decoded from the score: score modulo n is n - 1 - index.
static Value rankInRounds(NodeImporter &node, const RankedLines &lines,
                          int64_t k) {
  constexpr int64_t kMostOps = 8; // more become a loop
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
  bool isLargest = true;
  if (node.getOpset() >= 11) {
    isLargest = node.integer("largest", 1) != 0;
    (void)node.integer("sorted", 1); // a sorted result is allowed in any case
  }
  int64_t n = shape[*axis];
  if (k < 0 || k > n)
    return node.invalid("expected k from 0 to " + Twine(n) +
                        ", the length of axis " + Twine(*axis) + ", found " +
                        Twine(k));
  if (!canList(node, n))
    return failure();
  ArrayRef<int64_t> all = shape;
  int64_t outer = ShapedType::getNumElements(all.take_front(*axis));
  int64_t inner = ShapedType::getNumElements(all.drop_front(*axis + 1));
  Value x = node.reshape(node.operand(0), {outer, n, inner});
  if (!x)
    return failure();
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
  // Gather the values at the indices found. In values and indices, restore the
  // axes that were merged.
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

// Imports TopK before opset 10, which has k as an attribute.
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
