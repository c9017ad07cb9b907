// Recognises attention written as single ops:
//
//   dropout(softmax(mask(scale * query key^T) + biases)) value
//
// The scale may multiply query, key or scores. A mask may be added, or select a
// number instead of the score. PyTorch's exporters also replace NaN by 0, for
// queries that see no key. The matcher walks backwards from the product with
// `value`. If a model repeats heads of keys and values, the new op shares these
// heads instead.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/CausalMasks.h"
#include "passes/Recognition/KnownElements.h"
#include "passes/Recognition/Match.h"
#include "passes/Recognition/Passes.h"
#include "passes/Recognition/RepeatedHeads.h"

#include "compiler/Dialect/MPC/Fold/ConstantNumber.h"

#include <cmath>

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEATTENTIONPASS
#include "passes/Recognition/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
constexpr double kHidden = -std::numeric_limits<double>::infinity();

/// The most biases that an attention may have. Further sums are part of the
/// last bias.
constexpr unsigned kMostBiases = 4;

/// Operands and settings of an attention, as far as matched.
struct Attention {
  Value query, key, value, mask, seed, microStep;
  SmallVector<Value> biases;
  double scale = 1, softcap = 0, hidden = kHidden, dropout = 0;
  std::optional<int64_t> dropoutId, causalOffset;
  /// True if the key is [..., size, keys], as the second factor of a plain
  /// product.
  bool isKeyTransposed = false;
  /// True if the mask is true for hidden keys.
  bool isMaskInverted = false;
  bool zeroEmptyRows = false;
};

/// Matches an attention by walking from its last product back to its first.
/// Each `pass` function matches one step, records the meaning, and returns the
/// operand of the step. Without the step, it returns its argument.
class AttentionMatcher {
public:
  explicit AttentionMatcher(MatMulOp root) : match(root) {}

  bool run();

  Match match;
  Attention found;

private:
  Value passDropout(Value weights);
  Value passGuard(Value weights);
  Value passMask(Value scores);
  Value passBiases(Value scores);
  Value passBlend(Value scores);
  Value passSoftcap(Value scores);
  bool matchScores(Value scores);
  Value passScale(Value factor);
  Value splitMask(ArrayRef<int64_t> scores);
  void findCausalMask();

  MatMulOp getRoot() const { return cast<MatMulOp>(match.getRoot()); }
};

struct RecognizeAttention : OpRewritePattern<MatMulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MatMulOp op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizeAttentionPass
    : public mpc::impl::RecognizeAttentionPassBase<RecognizeAttentionPass> {
  using RecognizeAttentionPassBase::RecognizeAttentionPassBase;

  void runOnOperation() override {
    const TrainedMarks marks(getOperation(), train);
    if (failed(applyRecognizers<RecognizeAttention>(getOperation())))
      signalPassFailure();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// From the last product to the softmax
//===----------------------------------------------------------------------===//

// Matches a dropout: dropout(p) -> p.
Value AttentionMatcher::passDropout(Value weights) {
  auto dropout = weights.getDefiningOp<DropoutOp>();
  if (!dropout || dropout.getGroup() || dropout.getWhole())
    return weights;
  match.take<DropoutOp>(weights);
  found.dropout = dropout.getRatio().convertToDouble();
  if (found.dropout != 0) {
    found.dropoutId = dropout.getId();
    found.seed = dropout.getSeed();
    found.microStep = dropout.getMicroStep();
  }
  return dropout.getInput();
}

// Matches the guard of queries that see no key, whose softmax is NaN:
// select(is_nan(p), 0, p) -> p.
Value AttentionMatcher::passGuard(Value weights) {
  auto select = weights.getDefiningOp<SelectOp>();
  if (!select || getConstantNumber(select.getOnTrue()) != 0.0)
    return weights;
  auto isNaN = select.getCondition().getDefiningOp<IsNaNOp>();
  if (!isNaN || isNaN.getInput() != select.getOnFalse())
    return weights;
  match.take<SelectOp>(weights);
  match.take<IsNaNOp>(select.getCondition());
  found.zeroEmptyRows = true;
  return select.getOnFalse();
}

//===----------------------------------------------------------------------===//
// From the softmax to the scores
//===----------------------------------------------------------------------===//

// Matches a mask: select(mask, s, number) or select(hidden, number, s) -> s.
Value AttentionMatcher::passMask(Value scores) {
  auto select = scores.getDefiningOp<SelectOp>();
  if (!select || found.mask)
    return scores;
  for (bool isInverted : {false, true}) {
    Value number = isInverted ? select.getOnTrue() : select.getOnFalse();
    Value inner = isInverted ? select.getOnFalse() : select.getOnTrue();
    std::optional<double> hidden = getConstantNumber(number);
    if (!hidden || inner.getType() != select.getType())
      continue;
    // A bias is added after this mask. In mpc.attention the mask comes last, so
    // hidden scores must not depend on the bias: only -inf does not.
    if (!found.biases.empty() && *hidden != kHidden)
      return scores;
    match.take<SelectOp>(scores);
    found.mask = select.getCondition();
    found.isMaskInverted = isInverted;
    while (auto inverse = found.mask.getDefiningOp<NotOp>()) {
      found.mask = inverse.getInput();
      found.isMaskInverted = !found.isMaskInverted;
    }
    found.hidden = *hidden;
    return inner;
  }
  return scores;
}

// True if `value` is computed from a matrix product by masks, biases, scaling
// and a softcap only.
static bool leadsToProduct(Value value, unsigned biases = 0) {
  while (Operation *op = value.getDefiningOp()) {
    if (isa<MatMulOp>(op))
      return true;
    // One operand of a sum leads to the product; the other is a bias.
    if (isa<AddOp>(op))
      return biases < kMostBiases &&
             llvm::any_of(op->getOperands(), [&](Value operand) {
               return operand.getType() == value.getType() &&
                      leadsToProduct(operand, biases + 1);
             });
    // A mask selects between scores and a constant. Continue at the scores.
    if (auto select = dyn_cast<SelectOp>(op))
      value = getConstantNumber(select.getOnTrue()) ? select.getOnFalse()
                                                    : select.getOnTrue();
    // A constant factor may be the left or the right operand.
    else if (isa<MulOp, DivOp>(op) && getConstantNumber(op->getOperand(0)))
      value = op->getOperand(1);
    else if (isa<MulOp, DivOp>(op) && getConstantNumber(op->getOperand(1)))
      value = op->getOperand(0);
    // Pass the tanh of a softcap: c * tanh(scores / c).
    else if (isa<TanhOp>(op))
      value = op->getOperand(0);
    else
      return false;
  }
  return false;
}

// Splits the sum `bias` into its operands if they have fewer elements in total,
// and so take less memory: a bias of positions plus a mask, for example.
// Appends the results to `parts`.
static void takeApart(Value bias, SmallVectorImpl<Value> &parts) {
  auto size = [](Value value) { return typeOf(value).getNumElements(); };
  auto sum = bias.getDefiningOp<AddOp>();
  if (!sum || parts.size() + 1 >= kMostBiases ||
      size(sum.getLhs()) + size(sum.getRhs()) >= size(bias)) {
    parts.push_back(bias);
    return;
  }
  takeApart(sum.getLhs(), parts);
  takeApart(sum.getRhs(), parts);
}

// Matches biases: (s + bias0) + bias1 -> s.
Value AttentionMatcher::passBiases(Value scores) {
  while (auto sum = scores.getDefiningOp<AddOp>()) {
    auto isScore = [&](Value operand) {
      return operand.getType() == sum.getType() && leadsToProduct(operand);
    };
    Value inner = sum.getLhs(), bias = sum.getRhs();
    if (!isScore(inner))
      std::swap(inner, bias);
    if (!isScore(inner) || elementOf(bias) != elementOf(inner) ||
        found.biases.size() >= kMostBiases)
      return scores;
    match.take<AddOp>(scores);
    takeApart(bias, found.biases);
    scores = inner;
  }
  return scores;
}

// Matches a softcap: c * tanh(s / c) -> s / c. The result is s / c, so
// multiplies the scale by c.
Value AttentionMatcher::passSoftcap(Value scores) {
  Match attempt = match;
  Product outer = matchProduct(scores, attempt);
  auto tanh = outer.factors.size() == 1
                  ? attempt.take<TanhOp>(outer.factors.front())
                  : TanhOp();
  if (!tanh || !(outer.number > 0))
    return scores;
  match = attempt;
  found.softcap = outer.number;
  found.scale *= outer.number;
  return tanh.getInput();
}

// Matches a constant factor of a query or key: number * q -> q. Multiplies the
// scale by the number.
Value AttentionMatcher::passScale(Value factor) {
  if (!factor.hasOneUse())
    return factor;
  Match attempt = match;
  Product product = matchProduct(factor, attempt);
  if (product.factors.size() != 1 ||
      product.factors.front().getType() != factor.getType())
    return factor;
  match = attempt;
  found.scale *= product.number;
  return product.factors.front();
}

// Matches a causal mask by multiplication: s * b + (1 - b) * -1e10 -> s, where
// b is 1 for seen keys and 0 for hidden keys. A hidden score of -1e10 is too
// far below the others to matter in a softmax.
Value AttentionMatcher::passBlend(Value scores) {
  constexpr double kLow = -1e10;
  auto sum = scores.getDefiningOp<AddOp>();
  auto difference = scores.getDefiningOp<SubOp>();
  if (!sum && !difference)
    return scores;
  Operation *op = scores.getDefiningOp();
  for (int i = 0; i < (sum ? 2 : 1); ++i) {
    Value bias = op->getOperand(1 - i);
    auto product = op->getOperand(i).getDefiningOp<MulOp>();
    for (int j = 0; product && j < 2; ++j) {
      Value inner = product->getOperand(j), factor = product->getOperand(1 - j);
      if (inner.getType() != scores.getType() || !leadsToProduct(inner))
        continue;
      auto seen = findCausalOffsetOfFactor(factor, shapeOf(scores));
      if (!seen || seen != findCausalOffsetOfBias(bias, shapeOf(scores), kLow,
                                                  difference != nullptr))
        continue;
      if (sum)
        match.take<AddOp>(scores);
      else
        match.take<SubOp>(scores);
      match.take<MulOp>(op->getOperand(i));
      found.causalOffset = seen;
      return inner;
    }
  }
  return scores;
}

bool AttentionMatcher::matchScores(Value scores) {
  // A causal mask by multiplication excludes other masks and biases.
  Value inner = passBlend(scores);
  if (!found.causalOffset)
    inner = passBiases(passMask(scores));
  if (!found.causalOffset && !found.mask)
    inner = passMask(inner);
  Product product = matchProduct(passSoftcap(inner), match);
  if (product.factors.size() != 1)
    return false;
  auto matmul = match.take<MatMulOp>(product.factors.front());
  // The product must have the type of the scores: a scale with more axes would
  // broadcast the product to more axes.
  if (!matmul || matmul.getTransA() ||
      matmul.getType() != getRoot().getLhs().getType())
    return false;
  found.scale *= product.number * matmul.getAlpha().convertToDouble();
  found.query = passScale(matmul.getLhs());
  found.key = passScale(matmul.getRhs());
  found.isKeyTransposed = !matmul.getTransB();
  return std::isfinite(found.scale);
}

//===----------------------------------------------------------------------===//
// Causal masks
//===----------------------------------------------------------------------===//

// Splits a causal half off the mask: and(a, causal) -> a. Returns null if
// neither half is causal. The caller checks that hidden scores are -inf:
// otherwise two masks differ from one mask.
Value AttentionMatcher::splitMask(ArrayRef<int64_t> scores) {
  Operation *both = found.mask.getDefiningOp();
  bool hidesBoth = found.isMaskInverted ? isa_and_nonnull<OrOp>(both)
                                        : isa_and_nonnull<AndOp>(both);
  for (unsigned i = 0; i < 2 && hidesBoth; ++i)
    if (auto offset = findCausalOffset(both->getOperand(i), scores,
                                       found.isMaskInverted)) {
      found.causalOffset = offset;
      return both->getOperand(1 - i);
    }
  return {};
}

// Replaces a causal mask or bias by the attribute `causal_offset`, which needs
// no tensor. The new mask hides by -inf. If no other mask exists, every query
// sees a key with a greater score, so -1e30 hides as well as -inf. With another
// mask, a query may see no key at all; then the softmax depends on the hidden
// numbers, so only -inf qualifies.
void AttentionMatcher::findCausalMask() {
  // Scores up to this number count as hidden.
  constexpr double kLow = -1e30;
  ArrayRef<int64_t> scores = shapeOf(getRoot().getLhs());
  // Count the mask and the biases, each of which may hide keys.
  size_t hiding = found.biases.size() + (found.mask ? 1 : 0);
  double low = hiding > 1 ? kHidden : kLow;
  // First try whether the whole mask is causal, then the halves of and(a, b).
  if (found.mask && found.hidden <= low)
    if (auto offset =
            findCausalOffset(found.mask, scores, found.isMaskInverted)) {
      found.causalOffset = offset;
      found.mask = {};
      found.hidden = kHidden;
      return;
    }
  if (found.mask && found.hidden == kHidden)
    if (Value rest = splitMask(scores)) {
      found.mask = rest;
      return;
    }
  // Then try the biases. If the mask hides by another number than -inf, a
  // causal offset, which hides by -inf, cannot be added.
  if (found.mask && found.hidden != kHidden)
    return;
  for (Value &bias : found.biases)
    if (auto offset = findCausalOffsetOfBias(bias, scores, low)) {
      found.causalOffset = offset;
      found.biases.erase(&bias);
      return;
    }
}

//===----------------------------------------------------------------------===//
// The whole attention
//===----------------------------------------------------------------------===//

bool AttentionMatcher::run() {
  // The root must be the product weights * values, without transposes or
  // factor.
  MatMulOp root = getRoot();
  int64_t rank = typeOf(root.getLhs()).getRank();
  bool isPlain = !root.getTransA() && !root.getTransB() &&
                 root.getAlpha().isExactlyValue(1.0);
  if (!isPlain || rank < 3)
    return false;
  found.value = root.getRhs();
  Value weights = passGuard(passDropout(root.getLhs()));
  auto softmax = match.take<SoftmaxOp>(weights);
  if (!softmax || static_cast<int64_t>(softmax.getAxis()) != rank - 1 ||
      !matchScores(softmax.getInput()))
    return false;
  // Query, key and value must be inputs of the matched ops.
  for (Value part : {found.query, found.key, found.value})
    if (typeOf(part).getRank() != rank || match.contains(part))
      return false;
  bool sharesHeads =
      shapeOf(found.key).drop_back(2) == shapeOf(found.value).drop_back(2);
  findCausalMask();
  return sharesHeads && match.isClosed();
}

// Returns `value` with the last two axes exchanged. If `value` is a transpose
// already, creates one transpose that does both.
static Value exchangeLastAxes(Value value, OpBuilder &builder, Location loc) {
  RankedTensorType type = typeOf(value);
  int64_t rank = type.getRank();
  SmallVector<int64_t> shape(type.getShape());
  std::swap(shape[rank - 1], shape[rank - 2]);
  // Look through a reshape that only adds or drops leading axes, such as
  // [heads, size, keys] to [batch, heads, size, keys].
  if (auto view = value.getDefiningOp<ReshapeOp>();
      view && typeOf(view.getInput()).getRank() >= 2 &&
      shapeOf(view.getInput()).take_back(2) == type.getShape().take_back(2) &&
      view.getInput().getDefiningOp<TransposeOp>()) {
    Value inner = exchangeLastAxes(view.getInput(), builder, loc);
    auto outer = inner.getDefiningOp<ReshapeOp>();
    if (outer && shapeOf(outer.getInput()) == ArrayRef<int64_t>(shape))
      return outer.getInput();
    return ReshapeOp::create(builder, loc, type.clone(shape), inner);
  }
  // Combine the exchange with a transpose that computes `value`.
  auto perm = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  auto moved = value.getDefiningOp<TransposeOp>();
  if (moved) {
    perm.assign(moved.getPerm().begin(), moved.getPerm().end());
    value = moved.getInput();
  }
  std::swap(perm[rank - 1], perm[rank - 2]);
  // If the exchange undoes the transpose that computes `value`, no transpose is
  // needed.
  if (llvm::is_sorted(perm))
    return value;
  return TransposeOp::create(builder, loc, type.clone(shape), value, perm);
}

//===----------------------------------------------------------------------===//
// Heads of keys and values that several heads of queries share
//===----------------------------------------------------------------------===//

// Reshapes [..., heads * n, rows, columns] to [..., heads, n, rows, columns]. A
// single head becomes [..., 1, 1, rows, columns], which broadcasts. A bias or
// mask with fewer than 3 axes stays.
static Value splitHeads(Value value, int64_t n, OpBuilder &builder) {
  RankedTensorType type = typeOf(value);
  SmallVector<int64_t> shape(type.getShape());
  if (shape.size() < 3)
    return value;
  size_t copies = shape.size() - 2;
  int64_t &heads = shape[copies - 1];
  int64_t own = heads == 1 ? 1 : n;
  heads /= own;
  shape.insert(shape.begin() + copies, own);
  return ReshapeOp::create(builder, value.getLoc(), type.clone(shape), value);
}

// Removes the repetition of heads of keys and values. Keys become [..., heads,
// 1, keys, size], and queries [..., heads, n, queries, size]. Returns n, the
// number of queries' heads that share a head of keys; 1 if no heads are
// repeated.
static int64_t shareHeads(Attention &found, OpBuilder &builder) {
  ArrayRef<int64_t> batch = shapeOf(found.key).drop_back(2);
  if (shapeOf(found.query).drop_back(2) != batch)
    return 1;
  std::optional<RepeatedHeads> keys = findRepeatedHeads(found.key);
  std::optional<RepeatedHeads> values = findRepeatedHeads(found.value);
  if (!keys || !values || keys->n != values->n || keys->n == 1)
    return 1;
  found.key = takeOnce(found.key, *keys, builder);
  found.value = takeOnce(found.value, *values, builder);
  found.query = splitHeads(found.query, keys->n, builder);
  for (Value &bias : found.biases)
    bias = splitHeads(bias, keys->n, builder);
  if (found.mask)
    found.mask = splitHeads(found.mask, keys->n, builder);
  return keys->n;
}

//===----------------------------------------------------------------------===//
// Creation of the op
//===----------------------------------------------------------------------===//

LogicalResult
RecognizeAttention::matchAndRewrite(MatMulOp op,
                                    PatternRewriter &rewriter) const {
  AttentionMatcher matcher(op);
  if (!matcher.run())
    return rewriter.notifyMatchFailure(
        op, "expected the product of an attention's softmax and values");
  Attention &found = matcher.found;
  Location loc = matcher.match.getLocation();
  // mpc.attention takes keys as [..., keys, size] and a mask that is true for
  // seen keys.
  if (found.isKeyTransposed)
    found.key = exchangeLastAxes(found.key, rewriter, loc);
  SmallVector<int64_t> shape(shapeOf(op.getOutput()));
  if (int64_t n = shareHeads(found, rewriter); n > 1) {
    shape[shape.size() - 3] /= n;
    shape.insert(shape.end() - 2, n);
  }
  Value mask = found.mask;
  if (mask && found.isMaskInverted)
    mask = NotOp::create(rewriter, loc, mask.getType(), mask);
  auto integer = [&](std::optional<int64_t> value) {
    return value ? rewriter.getI64IntegerAttr(*value) : IntegerAttr();
  };
  auto attention = AttentionOp::create(
      rewriter, loc, typeOf(op.getOutput()).clone(shape), found.query,
      found.key, found.value, found.biases, mask, found.seed, found.microStep,
      rewriter.getF64FloatAttr(found.scale),
      rewriter.getF64FloatAttr(found.softcap), integer(found.causalOffset),
      rewriter.getF64FloatAttr(found.hidden),
      found.zeroEmptyRows ? rewriter.getUnitAttr() : UnitAttr(),
      rewriter.getF64FloatAttr(found.dropout), integer(found.dropoutId));
  // Shared heads give the result one more axis, which a reshape removes.
  if (attention.getType() == op.getType()) {
    matcher.match.replace(attention, rewriter);
    return success();
  }
  copyPhase(op, attention);
  matcher.match.replace(
      ReshapeOp::create(rewriter, loc, op.getType(), attention.getOutput()),
      rewriter);
  return success();
}
