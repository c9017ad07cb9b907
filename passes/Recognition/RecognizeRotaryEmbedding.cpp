// Recognises rotary embeddings written as single ops:
//
//   x * cosine + rotate(x) * sine                   Llama, GPT-NeoX, GPT-J
//   join(a * cosine - b * sine, b * cosine + a * sine)   complex numbers
//
// A rotary embedding rotates pairs of elements of a row by an angle. a and b
// are the first and second elements of all pairs: the halves of a row, or its
// even and odd elements. rotate(x) joins -b and a. If a model rotates only the
// front of each row and joins the rest unchanged, the new op covers the whole
// row.
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
/// The first (or second) elements of all pairs in rows. If pairs are halves
/// apart, the parts of [a, b, c, d] are [a, b] and [c, d].
struct PairPart {
  /// The rows. If `isSplit`, their last axis is split in two: [..., pairs, 2]
  /// or [..., 2, pairs].
  Value source;
  bool isSplit = false;
  PairLayout layout;
  /// True for second elements of the pairs, false for first.
  bool isSecond = false;

  bool isBeside(const PairPart &other) const {
    return source == other.source && layout == other.layout &&
           isSecond != other.isSecond;
  }
};

/// Rows joined from two values: the first and the second elements of all pairs.
struct Join {
  Value first, second;
  PairLayout layout;
};

/// A rotary embedding, as far as matched. Tables broadcast to the rows. If
/// `hasOpenTables`, tables have one more axis of size 1: [..., pairs, 1].
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

/// Matches concat(rotary_embedding(x[:n]), x[n:]) -> rotary_embedding(x) along
/// the last axis. The op leaves elements behind its tables unchanged.
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

// Returns the only axis that a slice shortens; nullopt if the slice shortens
// several axes or runs backwards.
static std::optional<int64_t> findPartAxis(SliceOp slice) {
  ArrayRef<int64_t> from = shapeOf(slice.getInput());
  for (auto [axis, stride] : llvm::enumerate(slice.getStrides()))
    if (stride < 1 && from[axis] > 1)
      return std::nullopt;
  return findSlicedAxis(slice);
}

// If `value` is a reshape that inserts `axis` of size 1, returns the operand;
// otherwise returns `value`.
static Value dropAxis(Value value, int64_t axis, Match &match) {
  auto view = value.getDefiningOp<ReshapeOp>();
  SmallVector<int64_t> shape(shapeOf(value));
  shape.erase(shape.begin() + axis);
  if (!view || shapeOf(view.getInput()) != ArrayRef<int64_t>(shape))
    return value;
  return match.take<ReshapeOp>(value).getInput();
}

// Matches the first or second elements of all pairs:
// - a half of each row: x[..., :n] or x[..., n:];
// - every second element: x[..., ::2] or x[..., 1::2];
// - one index of the axis of size 2 in [..., pairs, 2] or [..., 2, pairs],
// which a reshape may then remove.
static std::optional<PairPart> matchPart(Value value, Match &match) {
  // The elements are a slice of the rows. A reshape may then remove the sliced
  // axis, of size 1.
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
  // If there is a reshape, it must remove just the sliced axis.
  PairPart part;
  part.source = slice.getInput();
  if (inner != value) {
    SmallVector<int64_t> dropped(shapeOf(inner));
    dropped.erase(dropped.begin() + *axis);
    if (size != 1 || shapeOf(value) != ArrayRef<int64_t>(dropped))
      return std::nullopt;
  }
  // The slice takes one index of the axis of size 2: the last or the second to
  // last axis.
  if (size == 1 && from[*axis] == 2 && rank >= 2) {
    bool isLast = *axis == rank - 1;
    if (!isLast && inner == value)
      return std::nullopt;
    part.isSplit = true;
    part.isSecond = offset == 1;
    part.layout = {from[isLast ? rank - 2 : rank - 1], isLast};
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

// Matches rows joined from the first and the second elements of all pairs: a
// concat of two halves, or a concat to [..., pairs, 2] or [..., 2, pairs] and a
// reshape to rows.
static std::optional<Join> matchJoin(Value value, Match &match) {
  // A concat of two values joins the rows; a reshape may follow.
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
  // The concat joins along the axis of size 2, or joins the two halves of a
  // row.
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

// Returns the shape of the rotated rows: [..., 2 * pairs].
static SmallVector<int64_t> getRows(const Rotation &found) {
  SmallVector<int64_t> rows(
      shapeOf(found.source).drop_back(found.isSplit ? 2 : 1));
  rows.push_back(2 * found.layout.pairs);
  return rows;
}

//===----------------------------------------------------------------------===//
// The new op
//===----------------------------------------------------------------------===//

// Returns the table with one element per pair, which broadcasts to the rows.
// New ops get the location of `table`.
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

// True if `table` has `width` elements along the row and broadcasts to the rows
// along all other axes.
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
  // mpc.rotary_embedding needs both tables in one shape.
  if (shapeOf(cosine) != shapeOf(sine)) {
    SmallVector<int64_t> shape =
        *broadcastShapes(shapeOf(cosine), shapeOf(sine));
    for (Value *table : {&cosine, &sine})
      if (shapeOf(*table) != ArrayRef<int64_t>(shape))
        *table = ExpandOp::create(rewriter, location,
                                  typeOf(*table).clone(shape), *table);
  }
  // Reshape [..., pairs, 2] to rows [..., 2 * pairs].
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

// True if `part` has elements of x, possibly after a reshape of x that splits
// the last axis into pairs.
static bool isPartOf(const PairPart &part, Value x) {
  if (!part.isSplit)
    return part.source == x;
  auto view = part.source.getDefiningOp<ReshapeOp>();
  return view && view.getInput() == x &&
         shapeOf(x).drop_back() == shapeOf(part.source).drop_back(2);
}

// Matches rotate(x) = join(-b, a), or join(b, -a) for the inverse rotation,
// where a and b are the first and second elements of all pairs.
static std::optional<Rotation> matchRotate(Value value, Value x, Match &match) {
  std::optional<Join> join = matchJoin(value, match);
  if (!join)
    return std::nullopt;
  Rotation found;
  found.layout = join->layout;
  // -b in front means the rotation, -a behind the inverse rotation.
  auto negated = match.take<NegOp>(join->first);
  found.isTransposed = !negated;
  if (!negated && !(negated = match.take<NegOp>(join->second)))
    return std::nullopt;
  Value second = found.isTransposed ? join->first : negated.getInput();
  Value first = found.isTransposed ? negated.getInput() : join->second;
  // a and b must be the first and second elements of pairs of x.
  std::optional<PairPart> a = matchPart(first, match);
  std::optional<PairPart> b = matchPart(second, match);
  if (!a || !b || !a->isBeside(*b) || a->isSecond ||
      !(a->layout == join->layout) || !isPartOf(*a, x))
    return std::nullopt;
  found.source = x;
  return found;
}

// Matches the products of the sum x * cosine + rotate(x) * sine. `kept` is x *
// cosine, `turned` is rotate(x) * sine.
static std::optional<Rotation> matchRotated(Operation *op, Value turned,
                                            Value kept, Match &match) {
  auto product = match.take<MulOp>(turned), own = match.take<MulOp>(kept);
  Type type = op->getResult(0).getType();
  if (!product || !own || product.getType() != type || own.getType() != type)
    return std::nullopt;
  // Either factor of each product may be the table.
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
      // A table has an element per element of the row. The two elements of a
      // pair must have the same angle.
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
    // In a sum, either operand may be rotate(x) * sine; in a difference, only
    // the second.
    if (i == 0 && isa<SubOp>(op))
      break;
    Match match(op);
    auto found =
        matchRotated(op, op->getOperand(i), op->getOperand(1 - i), match);
    if (!found)
      continue;
    if (!match.isClosed())
      return rewriter.notifyMatchFailure(
          op, "other ops read inner values of the formula");
    replace(*found, match, rewriter);
    return success();
  }
  return rewriter.notifyMatchFailure(op,
                                     "expected x * cosine + rotate(x) * sine");
}

//===----------------------------------------------------------------------===//
// join(a * cosine - b * sine, b * cosine + a * sine)
//===----------------------------------------------------------------------===//

namespace {
/// A product: the first or second elements of all pairs, times a table.
struct Term {
  PairPart part;
  Value table;
  bool isNegative = false;
};
} // namespace

// A rotation is the sum x * cos + rotated(x) * sin. Returns all ways to read
// the product `value` as a summand of a rotation: either factor may be the
// table of cosines or sines.
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

// Returns all ways to read `value` as a sum or difference of two terms, one
// with the first and one with the second elements of the pairs. The term with
// first elements is first.
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

// Combines the sums of the first and second elements to a rotation: (a cos - b
// sin, a sin + b cos), or the inverse with opposite signs of sin. nullopt if
// rows or tables differ, or if the signs do not fit.
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

// Adds the ops of `value`, a sum or difference of two terms, to the match.
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
    return rewriter.notifyMatchFailure(
        op, "expected a join of two parts of rows, such as halves");
  for (const auto &first : findSums(join->first))
    for (const auto &second : findSums(join->second)) {
      std::optional<Rotation> found = readSums(first, second);
      if (!found || !(found->layout == join->layout))
        continue;
      // If slices keep the axis of size 1 in [..., pairs, 2], tables are [...,
      // pairs, 1].
      ArrayRef<int64_t> part = shapeOf(join->first);
      found->hasOpenTables = found->isSplit && found->layout.interleaved &&
                             part.size() == shapeOf(found->source).size();
      if (!fitsTable(found->cosine, *found, found->layout.pairs) ||
          !fitsTable(found->sine, *found, found->layout.pairs))
        continue;
      takeSum(join->first, match);
      takeSum(join->second, match);
      if (!match.isClosed())
        return rewriter.notifyMatchFailure(
            op, "other ops read inner values of the formula");
      replace(*found, match, rewriter);
      return success();
    }
  return rewriter.notifyMatchFailure(
      op, "expected parts x * cosine - y * sine and y * cosine + x * sine");
}

//===----------------------------------------------------------------------===//
// Elements behind the rotated ones
//===----------------------------------------------------------------------===//

LogicalResult TakeRest::matchAndRewrite(ConcatOp op,
                                        PatternRewriter &rewriter) const {
  int64_t last = typeOf(op.getOutput()).getRank() - 1;
  if (op.getInputs().size() != 2 || static_cast<int64_t>(op.getAxis()) != last)
    return rewriter.notifyMatchFailure(
        op, "expected two inputs joined along the last axis");
  // The first operand is a rotated slice, the second another slice of the same
  // rows.
  Match match(op);
  auto turned = match.take<RotaryEmbeddingOp>(op.getInputs()[0]);
  auto front = turned ? turned.getInput().getDefiningOp<SliceOp>() : SliceOp();
  auto rest = op.getInputs()[1].getDefiningOp<SliceOp>();
  if (!front || !rest || front.getInput() != rest.getInput() ||
      front.getInput().getType() != op.getType())
    return rewriter.notifyMatchFailure(
        op, "expected a rotated slice and another slice of the same rows");
  // The slices must be the front of each row, and all elements behind the
  // front.
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
    return rewriter.notifyMatchFailure(
        op,
        "expected the front and the rest of the rows, without other readers");
  // mpc.rotary_embedding leaves elements behind the tables unchanged, so apply
  // it to whole rows.
  auto whole = RotaryEmbeddingOp::create(
      rewriter, match.getLocation(), op.getType(), front.getInput(),
      turned.getCosine(), turned.getSine(), turned.getInterleaved(),
      turned.getTransposed());
  match.replace(whole, rewriter);
  return success();
}
