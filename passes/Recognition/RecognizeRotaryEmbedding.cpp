// Recognises rotary embeddings that a model spells out:
//
//   x * cosine + rotate(x) * sine                   Llama, GPT-NeoX, GPT-J
//   join(a * cosine - b * sine, b * cosine + a * sine)   complex numbers
//
// where a and b are the halves of a row, or every second element each, and
// rotate(x) joins -b and a. What is behind the part of a row that is turned,
// and joined to it again, is part of the op too.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/KnownElements.h"
#include "passes/Recognition/Match.h"
#include "passes/Recognition/Passes.h"
#include "passes/Recognition/RotaryTables.h"

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEROTARYEMBEDDINGPASS
#include "passes/Recognition/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
/// Every element of a row that is the first, or the second, of a pair.
struct PairPart {
  /// The rows, or where `isSplit` the rows with their last axis as two.
  Value source;
  bool isSplit = false;
  PairLayout layout;
  /// Whether these are the second elements of the pairs, or the first.
  bool isSecond = false;

  bool isBeside(const PairPart &other) const {
    return source == other.source && layout == other.layout &&
           isSecond != other.isSecond;
  }
};

/// Two values, each with an element for every pair, joined to rows.
struct Join {
  Value first, second;
  PairLayout layout;
};

/// A rotary embedding, as far as it has been found. Tables of pairs lie along
/// the rows; `hasOpenTables` where they have one more axis of size 1.
struct Rotation {
  Value source, cosine, sine;
  bool isSplit = false, isTransposed = false, hasOpenTables = false;
  PairLayout layout;
};

struct RecognizeRotated : AnyOpPattern {
  using AnyOpPattern::AnyOpPattern;
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizePairs : AnyOpPattern {
  using AnyOpPattern::AnyOpPattern;
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

/// concat(rotary_embedding(x[:n]), x[n:]) -> rotary_embedding(x)
struct TakeRest : OpRewritePattern<ConcatOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(ConcatOp op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizeRotaryEmbeddingPass
    : public mpc::impl::RecognizeRotaryEmbeddingPassBase<
          RecognizeRotaryEmbeddingPass> {
  using RecognizeRotaryEmbeddingPassBase::RecognizeRotaryEmbeddingPassBase;

  void runOnOperation() override {
    const TrainedMarks marks(getOperation(), train);
    if (failed(applyRecognizers<RecognizeRotated, RecognizePairs, TakeRest>(
            getOperation())))
      signalPassFailure();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Parts of rows
//===----------------------------------------------------------------------===//

// The one axis that a slice takes part of, from the front on.
static std::optional<int64_t> findPartAxis(SliceOp slice) {
  ArrayRef<int64_t> from = shapeOf(slice.getInput());
  for (auto [axis, stride] : llvm::enumerate(slice.getStrides()))
    if (stride < 1 && from[axis] > 1)
      return std::nullopt;
  return findSlicedAxis(slice);
}

// `value` without an axis of size 1 that it is given at `axis`.
static Value dropAxis(Value value, int64_t axis, Match &match) {
  auto view = value.getDefiningOp<ReshapeOp>();
  SmallVector<int64_t> shape(shapeOf(value));
  shape.erase(shape.begin() + axis);
  if (!view || shapeOf(view.getInput()) != ArrayRef<int64_t>(shape))
    return value;
  return match.take<ReshapeOp>(value).getInput();
}

// x[..., :n] and x[..., n:], x[..., ::2] and x[..., 1::2], or of rows as
// [..., pairs, 2] or [..., 2, pairs] one of the two, with that axis or without.
static std::optional<PairPart> matchPart(Value value, Match &match) {
  // A slice, maybe with its axis of size 1 taken away by a reshape.
  Match attempt = match;
  Value inner = value;
  if (auto view = value.getDefiningOp<ReshapeOp>();
      view && view.getInput().getDefiningOp<SliceOp>())
    inner = attempt.take<ReshapeOp>(value).getInput();
  auto slice = attempt.take<SliceOp>(inner);
  std::optional<int64_t> axis = slice ? findPartAxis(slice) : std::nullopt;
  int64_t rank = slice ? shapeOf(inner).size() : 0;
  if (!axis || *axis < rank - 2)
    return std::nullopt;
  ArrayRef<int64_t> from = shapeOf(slice.getInput());
  int64_t size = slice.getSizes()[*axis], offset = slice.getOffsets()[*axis];
  int64_t stride = slice.getStrides().empty() ? 1 : slice.getStrides()[*axis];
  // Such a reshape takes away the sliced axis and nothing else.
  PairPart part;
  part.source = slice.getInput();
  if (inner != value) {
    SmallVector<int64_t> dropped(shapeOf(inner));
    dropped.erase(dropped.begin() + *axis);
    if (size != 1 || shapeOf(value) != ArrayRef<int64_t>(dropped))
      return std::nullopt;
  }
  // One of two along an axis of pairs, or a half, or every second element.
  if (size == 1 && from[*axis] == 2 && rank >= 2) {
    bool isLast = *axis == rank - 1;
    if (!isLast && inner == value)
      return std::nullopt;
    part.isSplit = true;
    part.isSecond = offset == 1;
    part.layout = {from[isLast ? rank - 2 : rank - 1], isLast};
    // x[..., :n] or x[..., n:] of 2 n elements, or every second one.
  } else if (*axis == rank - 1 && 2 * size == from.back()) {
    part.layout = {size, stride == 2};
    part.isSecond = offset != 0;
    int64_t second = part.layout.interleaved ? 1 : size;
    bool isPart = (stride == 1 || (stride == 2 && size > 1)) &&
                  (offset == 0 || offset == second);
    if (!isPart)
      return std::nullopt;
  } else {
    return std::nullopt;
  }
  match = attempt;
  return part;
}

// concat(first, second), or of pairs [..., pairs, 2] or [..., 2, pairs] that
// are viewed as rows.
static std::optional<Join> matchJoin(Value value, Match &match) {
  // A concatenation of two, maybe viewed with one axis less.
  Match attempt = match;
  auto view = value.getDefiningOp<ReshapeOp>();
  Value joined = view ? view.getInput() : value;
  auto concat = joined.getDefiningOp<ConcatOp>();
  if (!concat || concat.getInputs().size() != 2)
    return std::nullopt;
  (void)attempt.take<ReshapeOp>(value);
  (void)attempt.take<ConcatOp>(joined);
  Value first = concat.getInputs()[0], second = concat.getInputs()[1];
  ArrayRef<int64_t> shape = shapeOf(joined);
  int64_t rank = shape.size(), axis = concat.getAxis();
  if (shapeOf(first) != shapeOf(second) || rank < 1)
    return std::nullopt;
  // Along an axis of pairs, or half behind half.
  Join join;
  if (view && rank >= 2 && axis >= rank - 2 && shape[axis] == 2) {
    bool isLast = axis == rank - 1;
    join.layout = {shape[isLast ? rank - 2 : rank - 1], isLast};
    join.first = dropAxis(first, axis, attempt);
    join.second = dropAxis(second, axis, attempt);
  } else if (!view && axis == rank - 1) {
    join = {first, second, {shape.back() / 2, false}};
  } else {
    return std::nullopt;
  }
  match = attempt;
  return join;
}

// The rows that a part is of.
static SmallVector<int64_t> getRows(const Rotation &found) {
  SmallVector<int64_t> rows(
      shapeOf(found.source).drop_back(found.isSplit ? 2 : 1));
  rows.push_back(2 * found.layout.pairs);
  return rows;
}

//===----------------------------------------------------------------------===//
// The new op
//===----------------------------------------------------------------------===//

// A table of pairs that broadcasts to the rows of the rotation, named after
// what makes the table.
static Value getTable(Value table, const Rotation &found, OpBuilder &builder,
                      Location location) {
  if (Operation *op = table.getDefiningOp())
    location = op->getLoc();
  table = takePairs(table, found.layout, builder, location);
  if (!found.hasOpenTables)
    return table;
  return ReshapeOp::create(builder, location,
                           typeOf(table).clone(shapeOf(table).drop_back()),
                           table);
}

// Whether a table that multiplies a part, or rows, has an element for each.
static bool fitsTable(Value table, const Rotation &found, int64_t width) {
  ArrayRef<int64_t> shape = shapeOf(table);
  if (found.hasOpenTables) {
    if (shape.empty() || shape.back() != 1)
      return false;
    shape = shape.drop_back();
  }
  SmallVector<int64_t> rows = getRows(found);
  if (shape.empty() || shape.back() != width || shape.size() > rows.size())
    return false;
  rows.back() = width;
  auto whole = broadcastShapes(rows, shape);
  return succeeded(whole) && *whole == rows;
}

static void replace(const Rotation &found, const Match &match,
                    PatternRewriter &rewriter) {
  Location location = match.getLocation();
  Operation *root = match.getRoot();
  rewriter.setInsertionPoint(root);
  Value cosine = getTable(found.cosine, found, rewriter, location);
  Value sine = getTable(found.sine, found, rewriter, location);
  // One shape, as the op has it.
  if (shapeOf(cosine) != shapeOf(sine)) {
    SmallVector<int64_t> shape =
        *broadcastShapes(shapeOf(cosine), shapeOf(sine));
    for (Value *table : {&cosine, &sine})
      if (shapeOf(*table) != ArrayRef<int64_t>(shape))
        *table = ExpandOp::create(rewriter, location,
                                  typeOf(*table).clone(shape), *table);
  }
  // A head whose pairs are an axis is seen as rows of 2 * pairs elements.
  Value input = found.source;
  SmallVector<int64_t> rows = getRows(found);
  if (found.isSplit)
    input =
        ReshapeOp::create(rewriter, location, typeOf(input).clone(rows), input);
  Operation *result = RotaryEmbeddingOp::create(
      rewriter, location, typeOf(input), input, cosine, sine,
      found.layout.interleaved, found.isTransposed);
  if (result->getResult(0).getType() != root->getResult(0).getType()) {
    copyPhase(root, result);
    result = ReshapeOp::create(rewriter, location, root->getResult(0).getType(),
                               result->getResult(0));
  }
  match.replace(result, rewriter);
}

//===----------------------------------------------------------------------===//
// x * cosine + rotate(x) * sine
//===----------------------------------------------------------------------===//

// True if `part` is a part of the rows of `x`, as they are or with each row
// split into pairs by a reshape.
static bool isPartOf(const PairPart &part, Value x) {
  if (!part.isSplit)
    return part.source == x;
  auto view = part.source.getDefiningOp<ReshapeOp>();
  return view && view.getInput() == x &&
         shapeOf(x).drop_back() == shapeOf(part.source).drop_back(2);
}

// join(-b, a), or join(b, -a), which turns back.
static std::optional<Rotation> matchRotate(Value value, Value x, Match &match) {
  // Joined from two parts, one of which is negated.
  std::optional<Join> join = matchJoin(value, match);
  if (!join)
    return std::nullopt;
  Rotation found;
  found.layout = join->layout;
  // -b in front, or -a behind: which one says the direction.
  auto negated = match.take<NegOp>(join->first);
  found.isTransposed = !negated;
  if (!negated && !(negated = match.take<NegOp>(join->second)))
    return std::nullopt;
  Value second = found.isTransposed ? join->first : negated.getInput();
  Value first = found.isTransposed ? negated.getInput() : join->second;
  // Both must be parts of x, and a the first one.
  std::optional<PairPart> a = matchPart(first, match);
  std::optional<PairPart> b = matchPart(second, match);
  if (!a || !b || !a->isBeside(*b) || a->isSecond ||
      !(a->layout == join->layout) || !isPartOf(*a, x))
    return std::nullopt;
  found.source = x;
  return found;
}

// One product of the sum is x * cosine, the other rotate(x) * sine.
static std::optional<Rotation> matchRotated(Operation *op, Value turned,
                                            Value kept, Match &match) {
  auto product = match.take<MulOp>(turned), own = match.take<MulOp>(kept);
  Type type = op->getResult(0).getType();
  if (!product || !own || product.getType() != type || own.getType() != type)
    return std::nullopt;
  // Either operand of each product may be its table.
  for (unsigned i : {0, 1})
    for (unsigned j : {0, 1}) {
      Match attempt = match;
      Value x = own->getOperand(j);
      if (x.getType() != type)
        continue;
      auto found = matchRotate(product->getOperand(i), x, attempt);
      if (!found)
        continue;
      found->sine = product->getOperand(1 - i);
      found->cosine = own->getOperand(1 - j);
      if (isa<SubOp>(op))
        found->isTransposed = !found->isTransposed;
      // Both elements of a pair turn by one angle.
      int64_t width = 2 * found->layout.pairs;
      bool fits =
          llvm::all_of(std::initializer_list<Value>{found->cosine, found->sine},
                       [&](Value table) {
                         return fitsTable(table, *found, width) &&
                                hasEqualPairs(table, found->layout);
                       });
      if (!fits)
        continue;
      match = attempt;
      return found;
    }
  return std::nullopt;
}

LogicalResult
RecognizeRotated::matchAndRewrite(Operation *op,
                                  PatternRewriter &rewriter) const {
  if (!isa<AddOp, SubOp>(op))
    return failure();
  for (unsigned i : {1, 0}) {
    // Of a difference, what is turned is taken away.
    if (i == 0 && isa<SubOp>(op))
      break;
    Match match(op);
    auto found =
        matchRotated(op, op->getOperand(i), op->getOperand(1 - i), match);
    if (!found)
      continue;
    if (!match.isClosed())
      return rewriter.notifyMatchFailure(op, "other ops read parts of it");
    replace(*found, match, rewriter);
    return success();
  }
  return rewriter.notifyMatchFailure(op, "no rows beside the same turned");
}

//===----------------------------------------------------------------------===//
// join(a * cosine - b * sine, b * cosine + a * sine)
//===----------------------------------------------------------------------===//

namespace {
/// A part of rows times a table.
struct Term {
  PairPart part;
  Value table;
  bool isNegative = false;
};
} // namespace

// The terms that a product may be: either factor may be the part.
static SmallVector<Term, 2> findTerms(Value value, Match match) {
  SmallVector<Term, 2> terms;
  auto product = match.take<MulOp>(value);
  for (unsigned i = 0; product && i < 2; ++i) {
    Value factor = product->getOperand(i);
    if (factor.getType() != product.getType())
      continue;
    if (std::optional<PairPart> part = matchPart(factor, match))
      terms.push_back({*part, product->getOperand(1 - i)});
  }
  return terms;
}

// The two terms of a sum or difference, that of first elements first, for every
// way to read it.
static SmallVector<std::pair<Term, Term>> findSums(Value value) {
  SmallVector<std::pair<Term, Term>> sums;
  Operation *op = value.getDefiningOp();
  if (!op || !isa<AddOp, SubOp>(op))
    return sums;
  Match match(op);
  for (Term left : findTerms(op->getOperand(0), match))
    for (Term right : findTerms(op->getOperand(1), match)) {
      right.isNegative = isa<SubOp>(op);
      if (!left.part.isBeside(right.part))
        continue;
      if (left.part.isSecond)
        std::swap(left, right);
      sums.emplace_back(left, right);
    }
  return sums;
}

// The rotation (a cos - b sin, a sin + b cos) whose two elements are `first`
// and `second`; nothing if they are not of one pair, or have other signs.
static std::optional<Rotation> readSums(const std::pair<Term, Term> &first,
                                        const std::pair<Term, Term> &second) {
  const auto &[a, b] = first;
  const auto &[c, d] = second;
  bool isRotation =
      a.part.source == c.part.source && a.part.layout == c.part.layout &&
      !a.isNegative && !d.isNegative && b.isNegative != c.isNegative &&
      areEqualTables(a.table, d.table) && areEqualTables(b.table, c.table);
  if (!isRotation)
    return std::nullopt;
  Rotation found;
  found.source = a.part.source;
  found.isSplit = a.part.isSplit;
  found.layout = a.part.layout;
  found.cosine = a.table;
  found.sine = b.table;
  found.isTransposed = c.isNegative;
  return found;
}

// Takes the ops of a sum of two products of parts.
static void takeSum(Value value, Match &match) {
  (void)match.take<AddOp>(value);
  (void)match.take<SubOp>(value);
  for (Value product : value.getDefiningOp()->getOperands()) {
    (void)match.take<MulOp>(product);
    for (Value factor : product.getDefiningOp()->getOperands())
      (void)matchPart(factor, match);
  }
}

LogicalResult RecognizePairs::matchAndRewrite(Operation *op,
                                              PatternRewriter &rewriter) const {
  if (!isa<ConcatOp, ReshapeOp>(op))
    return failure();
  Match match(op);
  std::optional<Join> join = matchJoin(op->getResult(0), match);
  if (!join)
    return rewriter.notifyMatchFailure(op, "joins no two parts of rows");
  for (const auto &first : findSums(join->first))
    for (const auto &second : findSums(join->second)) {
      std::optional<Rotation> found = readSums(first, second);
      if (!found || !(found->layout == join->layout))
        continue;
      // [..., pairs, 1] where the axis of the two stays.
      ArrayRef<int64_t> part = shapeOf(join->first);
      found->hasOpenTables = found->isSplit && found->layout.interleaved &&
                             part.size() == shapeOf(found->source).size();
      if (!fitsTable(found->cosine, *found, found->layout.pairs) ||
          !fitsTable(found->sine, *found, found->layout.pairs))
        continue;
      takeSum(join->first, match);
      takeSum(join->second, match);
      if (!match.isClosed())
        return rewriter.notifyMatchFailure(op, "other ops read parts of it");
      replace(*found, match, rewriter);
      return success();
    }
  return rewriter.notifyMatchFailure(op, "no two sums of a rotation");
}

//===----------------------------------------------------------------------===//
// What is not turned
//===----------------------------------------------------------------------===//

LogicalResult TakeRest::matchAndRewrite(ConcatOp op,
                                        PatternRewriter &rewriter) const {
  int64_t last = typeOf(op.getOutput()).getRank() - 1;
  if (op.getInputs().size() != 2 || static_cast<int64_t>(op.getAxis()) != last)
    return rewriter.notifyMatchFailure(op, "joins no two parts of rows");
  // The first part is rotated, and both are slices of one value.
  Match match(op);
  auto turned = match.take<RotaryEmbeddingOp>(op.getInputs()[0]);
  auto front = turned ? turned.getInput().getDefiningOp<SliceOp>() : SliceOp();
  auto rest = op.getInputs()[1].getDefiningOp<SliceOp>();
  if (!front || !rest || front.getInput() != rest.getInput() ||
      front.getInput().getType() != op.getType())
    return rewriter.notifyMatchFailure(op, "not of the same rows");
  // The first slice is the front of the rows, the second all behind it.
  auto isUnstrided = [](SliceOp slice) {
    return llvm::all_of(slice.getStrides(),
                        [](int64_t stride) { return stride == 1; });
  };
  bool isRest = isUnstrided(front) && isUnstrided(rest) &&
                llvm::all_of(front.getOffsets(),
                             [](int64_t offset) { return offset == 0; }) &&
                rest.getOffsets().back() == front.getSizes().back() &&
                findPartAxis(front) == last && findPartAxis(rest) == last;
  if (!isRest || !match.isClosed())
    return rewriter.notifyMatchFailure(op, "not what is behind what is turned");
  // The op leaves the elements behind its tables as they are.
  auto whole = RotaryEmbeddingOp::create(
      rewriter, match.getLocation(), op.getType(), front.getInput(),
      turned.getCosine(), turned.getSine(), turned.getInterleaved(),
      turned.getTransposed());
  match.replace(whole, rewriter);
  return success();
}
