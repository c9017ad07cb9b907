// Recognises GELU written as single ops, with the error function or with tanh:
//
//   x / 2 * (1 + erf(x / sqrt(2)))
//   x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))
//
// Products may be in any order.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/Match.h"
#include "passes/Recognition/Passes.h"

#include "compiler/Dialect/MPC/Fold/ConstantNumber.h"

#include <cmath>

namespace mpc {
#define GEN_PASS_DEF_RECOGNIZEGELUPASS
#include "passes/Recognition/Passes.h.inc"
} // namespace mpc

using namespace mlir;
using namespace mpc;

static constexpr double kPi = 3.14159265358979323846;
static constexpr double kCubic = 0.044715;

static bool isClose(double number, double expected) {
  return std::abs(number - expected) <= 1e-6 * expected;
}

/// True if `value` is number * x^exponent. Adds the ops to the match.
static bool isMonomial(Value value, Value x, double number, unsigned exponent,
                       Match &match) {
  // Work on a copy, so that a failing attempt leaves the match unchanged.
  Match attempt = match;
  Product product = matchProduct(value, attempt);
  unsigned found = 0;
  // Add up the exponents of the factors x, x^2, x^3 and x * x.
  for (Value factor : product.factors) {
    auto power = factor == x ? PowOp() : attempt.take<PowOp>(factor);
    std::optional<double> raised = power && power.getLhs() == x
                                       ? getConstantNumber(power.getRhs())
                                       : std::nullopt;
    if (factor == x)
      ++found;
    else if (raised == 2.0 || raised == 3.0)
      found += static_cast<unsigned>(*raised);
    else if (matchSquare(factor, attempt) == x)
      found += 2;
    else
      return false;
  }
  // Models contain rounded numbers, such as 0.0356774 for 0.044715 * sqrt(2 /
  // pi).
  if (found != exponent || !isClose(product.number, number))
    return false;
  match = attempt;
  return true;
}

/// True if `value` is x + 0.044715 * x^3, or, with `isOverX`, the same divided
/// by x: 1 + 0.044715 * x^2.
static bool isCubic(Value value, Value x, bool isOverX, Match &match) {
  Match attempt = match;
  auto sum = attempt.take<AddOp>(value);
  if (!sum)
    return false;
  Value rest;
  if (isOverX)
    rest = matchOperandBeside(sum, 1.0);
  else if (sum.getLhs() == x || sum.getRhs() == x)
    rest = sum.getLhs() == x ? sum.getRhs() : sum.getLhs();
  if (!rest || !isMonomial(rest, x, kCubic, isOverX ? 2 : 3, attempt))
    return false;
  match = attempt;
  return true;
}

/// True if `value` is sqrt(2 / pi) * (x + 0.044715 * x^3), the operand of tanh.
static bool isTanhArgument(Value value, Value x, Match &match) {
  Match attempt = match;
  Product product = matchProduct(value, attempt);
  if (!isClose(product.number, std::sqrt(2.0 / kPi)))
    return false;
  ArrayRef<Value> factors = product.factors;
  bool found = factors.size() == 1 && isCubic(factors[0], x, false, attempt);
  for (unsigned i : {0, 1})
    if (!found && factors.size() == 2 && factors[i] == x)
      found = isCubic(factors[1 - i], x, true, attempt);
  if (found)
    match = attempt;
  return found;
}

namespace {
struct RecognizeGelu : OpRewritePattern<MulOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(MulOp op,
                                PatternRewriter &rewriter) const override;
};

/// Matches GELU if its last op is the division by 2.
struct RecognizeHalvedGelu : OpRewritePattern<DivOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(DivOp op,
                                PatternRewriter &rewriter) const override;
};

struct RecognizeGeluPass
    : public mpc::impl::RecognizeGeluPassBase<RecognizeGeluPass> {
  void runOnOperation() override {
    if (failed(applyRecognizers<RecognizeGelu, RecognizeHalvedGelu>(
            getOperation())))
      signalPassFailure();
  }
};
} // namespace

static LogicalResult recognizeGelu(Operation *op, PatternRewriter &rewriter) {
  Match match(op);
  Product product = matchProduct(op->getResult(0), match);
  if (product.factors.size() != 2 || !isClose(product.number, 0.5))
    return rewriter.notifyMatchFailure(
        op, "expected a product of 1/2 and two factors");
  // One factor is x, the other is the sum 1 + f(x), in either order.
  for (unsigned i : {0, 1}) {
    Match attempt = match;
    Value x = product.factors[1 - i];
    auto sum = attempt.take<AddOp>(product.factors[i]);
    Value bounded = sum ? matchOperandBeside(sum, 1.0) : Value();
    if (!bounded || x.getType() != op->getResult(0).getType())
      continue;
    // f(x) is erf(x / sqrt(2)), or tanh of a polynomial of x.
    auto erf = attempt.take<ErfOp>(bounded);
    auto tanh = attempt.take<TanhOp>(bounded);
    bool isExact =
        erf && isMonomial(erf.getInput(), x, std::sqrt(0.5), 1, attempt);
    bool isByTanh = tanh && isTanhArgument(tanh.getInput(), x, attempt);
    if (!isExact && !isByTanh)
      continue;
    // If other ops read inner values, these values stay, and nothing is saved.
    if (!attempt.isClosed())
      return rewriter.notifyMatchFailure(
          op, "other ops read inner values of the formula");
    Location location = attempt.getLocation();
    Operation *gelu =
        isExact
            ? GeluOp::create(rewriter, location, x.getType(), x).getOperation()
            : GeluTanhOp::create(rewriter, location, x.getType(), x);
    attempt.replace(gelu, rewriter);
    return success();
  }
  return rewriter.notifyMatchFailure(
      op, "expected x / 2 * (1 + f(x)), where f is an erf or a tanh");
}

LogicalResult RecognizeGelu::matchAndRewrite(MulOp op,
                                             PatternRewriter &rewriter) const {
  return recognizeGelu(op, rewriter);
}

LogicalResult
RecognizeHalvedGelu::matchAndRewrite(DivOp op,
                                     PatternRewriter &rewriter) const {
  return recognizeGelu(op, rewriter);
}
