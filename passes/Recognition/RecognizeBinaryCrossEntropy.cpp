// Recognises the binary cross entropy of a logit x and a target t, in any order
// of sums and products:
//
//   max(x, 0) + log(1 + exp(-|x|)) - x * t
//
// The loss of a probability becomes mpc.bce if its logarithms are bounded below
// by -100, as PyTorch writes them. Any other log(sigmoid(x)) or log(1 -
// sigmoid(x)) becomes a softplus, which does not round small probabilities to
// zero. A loss that clips the probability stays, since clipping bounds the loss
// and stops its gradient.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/Passes.h"
#include "passes/Recognition/Polynomial.h"

#include "compiler/Dialect/MPC/Fold/ConstantNumber.h"

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEBINARYCROSSENTROPYPASS
#include "passes/Recognition/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

namespace {
using Atom = PolynomialExpander::Atom;

/// Matches sums and differences that are a binary cross entropy.
struct RecognizeBinaryCrossEntropy : AnyOpPattern {
  explicit RecognizeBinaryCrossEntropy(MLIRContext *context)
      : AnyOpPattern(context, /*benefit=*/2) {}
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

/// Matches sums, differences and logarithms that are a softplus.
struct RecognizeSoftplus : AnyOpPattern {
  using AnyOpPattern::AnyOpPattern;
  LogicalResult matchAndRewrite(Operation *op,
                                PatternRewriter &rewriter) const override;
};

/// Matches PyTorch's softplus: select(bound < x, x, softplus(x)). For large x,
/// softplus(x) rounds to x anyway.
struct RecognizeBoundedSoftplus : OpRewritePattern<SelectOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(SelectOp op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizeBinaryCrossEntropyPass
    : public mpc::impl::RecognizeBinaryCrossEntropyPassBase<
          RecognizeBinaryCrossEntropyPass> {
  void runOnOperation() override {
    if (failed(applyRecognizers<RecognizeBinaryCrossEntropy, RecognizeSoftplus,
                                RecognizeBoundedSoftplus>(getOperation())))
      signalPassFailure();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// Binary cross entropy
//===----------------------------------------------------------------------===//

// True if x and t have the element type of the result and broadcast to its
// shape.
static bool fits(Value x, Value t, Type result) {
  auto type = cast<RankedTensorType>(result);
  auto shape = broadcastShapes(shapeOf(x), shapeOf(t));
  return elementOf(x) == type.getElementType() &&
         elementOf(t) == type.getElementType() && succeeded(shape) &&
         ArrayRef<int64_t>(*shape) == type.getShape();
}

// Returns the target t if `polynomial` is a binary cross entropy of x and t;
// null otherwise. Sets `isOfProbability` if x is a probability, not a logit.
static Value findTarget(const Polynomial &polynomial,
                        const PolynomialExpander &expander,
                        bool &isOfProbability) {
  for (unsigned i = 0; i < expander.getNumOthers(); ++i) {
    unsigned t = Atom::kFirstOther + i;
    Polynomial ofLogits = {
        {{Atom::kRelu}, 1}, {{Atom::kLogTerm}, 1}, {{Atom::kX, t}, -1}};
    Polynomial ofProbabilities = {
        {{Atom::kLogYes, t}, -1}, {{Atom::kLogNo}, -1}, {{Atom::kLogNo, t}, 1}};
    isOfProbability = polynomial == ofProbabilities;
    if (isOfProbability || polynomial == ofLogits)
      return expander.getOther(t);
  }
  return {};
}

namespace {
/// A binary cross entropy found in the ops of the model. x is a logit or, with
/// `isOfProbability`, a probability. If `isNegated`, the root computes the
/// negated loss.
struct SpelledLoss {
  Value x, t;
  bool isOfProbability = false, isNegated = false;
};
} // namespace

// Replaces the root by the loss. If the root computes the negated loss, also
// removes a negation that alone reads the root; without such a negation,
// negates the loss.
static void replaceByLoss(const SpelledLoss &found, Match &match,
                          PatternRewriter &rewriter) {
  assert(found.x && found.t && "a loss has a prediction and a target");
  const bool isNegated = found.isNegated && !match.extend<NegOp>();
  rewriter.setInsertionPoint(match.getRoot());
  Location location = match.getLocation();
  Type type = match.getRoot()->getResult(0).getType();
  Operation *loss =
      found.isOfProbability
          ? BCEOp::create(rewriter, location, type, found.x, found.t)
                .getOperation()
          : BCEWithLogitsOp::create(rewriter, location, type, found.x, found.t);
  copyPhase(match.getRoot(), loss);
  if (isNegated)
    loss = NegOp::create(rewriter, location, type, loss->getResult(0));
  match.replace(loss, rewriter);
}

LogicalResult
RecognizeBinaryCrossEntropy::matchAndRewrite(Operation *op,
                                             PatternRewriter &rewriter) const {
  if (!isa<AddOp, SubOp>(op))
    return rewriter.notifyMatchFailure(op,
                                       "a cross entropy ends with add or sub");
  // Try every value x that may be the logit or the probability. Expand the root
  // into a polynomial of x, its logarithms, and other values.
  for (Value x : findLogits(op)) {
    Match match(op);
    PolynomialExpander expander(x, match);
    Polynomial polynomial = expander.expand(op->getResult(0));
    for (bool isNegated : {false, true}) {
      // Every other value may be the target. The model may compute the loss or
      // the negated loss.
      SpelledLoss found;
      found.x = x;
      found.isNegated = isNegated;
      found.t = findTarget(isNegated ? add({}, polynomial, -1) : polynomial,
                           expander, found.isOfProbability);
      if (!found.t || match.contains(found.t) ||
          !fits(x, found.t, op->getResult(0).getType()))
        continue;
      // If other ops read inner values, these values stay, and nothing is
      // saved.
      expander.takeClosedTerms();
      if (match.contains(x) || !match.isClosed())
        return rewriter.notifyMatchFailure(
            op, "other ops read inner values of the formula");
      replaceByLoss(found, match, rewriter);
      return success();
    }
  }
  return rewriter.notifyMatchFailure(
      op, "expected a formula of binary cross entropy");
}

//===----------------------------------------------------------------------===//
// Softplus
//===----------------------------------------------------------------------===//

// True if p = sigmoid(x) is used only in log(p) and log(1 - p).
static bool isReadByLogarithms(SigmoidOp sigmoid) {
  auto isLogarithm = [](Operation *op) { return isa<LogOp>(op); };
  return llvm::all_of(sigmoid->getUsers(), [&](Operation *user) {
    auto rest = dyn_cast<SubOp>(user);
    return isLogarithm(user) || (rest && isNumber(rest.getLhs(), 1) &&
                                 llvm::all_of(rest->getUsers(), isLogarithm));
  });
}

// If several logarithms share a sigmoid, gives `log` a copy of the sigmoid, so
// that the match has no other users.
static void separateSigmoid(LogOp log, PatternRewriter &rewriter) {
  Type element = elementOf(log);
  Operation *reader = log;
  if (!element.isF32() && !element.isF64())
    return;
  if (auto rest = log.getInput().getDefiningOp<SubOp>())
    reader = rest;
  for (OpOperand &operand : reader->getOpOperands()) {
    auto sigmoid = operand.get().getDefiningOp<SigmoidOp>();
    if (!sigmoid || sigmoid->hasOneUse() || !isReadByLogarithms(sigmoid))
      continue;
    rewriter.setInsertionPoint(sigmoid);
    Operation *copy = rewriter.clone(*sigmoid);
    rewriter.modifyOpInPlace(reader, [&] { operand.set(copy->getResult(0)); });
  }
}

LogicalResult
RecognizeSoftplus::matchAndRewrite(Operation *op,
                                   PatternRewriter &rewriter) const {
  if (!isa<AddOp, SubOp, LogOp>(op))
    return rewriter.notifyMatchFailure(op,
                                       "a softplus ends with add, sub or log");
  // Atoms: softplus(x) = relu(x) + log(1 + exp(-|x|)), and softplus(-x) =
  // softplus(x) - x.
  Polynomial softplus = {{{Atom::kRelu}, 1}, {{Atom::kLogTerm}, 1}};
  Polynomial mirrored = add(softplus, {{{Atom::kX}, -1}});
  for (Value x : findLogits(op)) {
    Match match(op);
    Type type = op->getResult(0).getType();
    Polynomial found = PolynomialExpander(x, match).expand(op->getResult(0));
    Polynomial negated = add({}, found, -1);
    bool isPositive = found == softplus || found == mirrored;
    if (x.getType() != type || match.contains(x) ||
        !(isPositive || negated == softplus || negated == mirrored))
      continue;
    // Other users of the sigmoid prevent the match, so copy the sigmoid and
    // match again.
    if (auto log = dyn_cast<LogOp>(op); log && !match.isClosed()) {
      separateSigmoid(log, rewriter);
      match = Match(op);
      PolynomialExpander(x, match).expand(op->getResult(0));
    }
    if (!match.isClosed())
      return rewriter.notifyMatchFailure(
          op, "other ops read inner values of the formula");
    // Create softplus(x) or softplus(-x), and negate the result if necessary.
    rewriter.setInsertionPoint(op);
    auto create = [&](auto kind, Value operand) -> Operation * {
      auto made =
          decltype(kind)::create(rewriter, match.getLocation(), type, operand);
      copyPhase(op, made);
      return made;
    };
    bool isMirrored = found == mirrored || negated == mirrored;
    Value argument = isMirrored ? create(NegOp(), x)->getResult(0) : x;
    Operation *result = create(SoftplusOp(), argument);
    if (!isPositive)
      result = create(NegOp(), result->getResult(0));
    match.replace(result, rewriter);
    return success();
  }
  return rewriter.notifyMatchFailure(op, "expected a formula of softplus");
}

// Returns x if `value` is a product 1 * x; otherwise `value`.
static Value passOne(Value value, Match &match) {
  Match attempt = match;
  Product product = matchProduct(value, attempt);
  if (product.factors.size() != 1 || product.number != 1)
    return value;
  match = attempt;
  return product.factors.front();
}

LogicalResult
RecognizeBoundedSoftplus::matchAndRewrite(SelectOp op,
                                          PatternRewriter &rewriter) const {
  constexpr double kLeast = 20;
  // PyTorch writes where(bound < x, x, softplus(x)).
  Match match(op);
  auto isAbove = match.take<LessOp>(op.getCondition());
  auto bound = isAbove ? getConstantNumber(isAbove.getLhs()) : std::nullopt;
  Value inner = passOne(op.getOnFalse(), match);
  auto softplus = match.take<SoftplusOp>(inner);
  if (!bound || *bound < kLeast || !softplus ||
      softplus.getType() != op.getType())
    return rewriter.notifyMatchFailure(
        op, "expected where(bound < x, x, softplus(x)), with a bound of 20 or "
            "more");
  // The condition and both operands of the select must be about the same x.
  Value x = op.getOnTrue();
  bool isOfX = passOne(softplus.getInput(), match) == x &&
               passOne(isAbove.getRhs(), match) == x;
  if (!isOfX || !match.isClosed())
    return rewriter.notifyMatchFailure(
        op, "the parts read different values, or other ops read inner values");
  auto whole =
      SoftplusOp::create(rewriter, match.getLocation(), op.getType(), x);
  match.replace(whole, rewriter);
  return success();
}
