// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/Polynomial.h"

#include "compiler/Dialect/MPC/Fold/ConstantNumber.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringMap.h"

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static Polynomial getNumber(double number) {
  return number == 0 ? Polynomial() : Polynomial{{{}, number}};
}

static Polynomial getAtom(unsigned atom, double factor = 1) {
  return {{{atom}, factor}};
}

Polynomial mpc::add(const Polynomial &a, const Polynomial &b, double factor) {
  Polynomial sum = a;
  for (const auto &[monomial, coefficient] : b) {
    double &total = sum[monomial];
    total += factor * coefficient;
    if (total == 0)
      sum.erase(monomial);
  }
  return sum;
}

static Polynomial multiply(const Polynomial &a, const Polynomial &b) {
  Polynomial product;
  for (const auto &[left, first] : a)
    for (const auto &[right, second] : b) {
      std::vector<unsigned> monomial = left;
      monomial.insert(monomial.end(), right.begin(), right.end());
      llvm::sort(monomial);
      product = add(product, {{monomial, first * second}});
    }
  return product;
}

// True if a term contains an atom other than opaque values: x, or a function of
// x.
static bool hasX(const Polynomial &polynomial) {
  return llvm::any_of(polynomial, [](const auto &term) {
    return llvm::any_of(term.first, [](unsigned atom) {
      return atom < PolynomialExpander::kFirstOther;
    });
  });
}

//===----------------------------------------------------------------------===//
// Expansion
//===----------------------------------------------------------------------===//

Polynomial PolynomialExpander::getOpaque(Value value) {
  auto *place = llvm::find(others, value);
  if (place == others.end()) {
    others.push_back(value);
    place = std::prev(others.end());
  }
  return getAtom(kFirstOther + (place - others.begin()));
}

Polynomial PolynomialExpander::expand(Value value) {
  if (value == x)
    return getAtom(kX);
  if (std::optional<double> number = getConstantNumber(value))
    return getNumber(*number);
  Operation *op = value.getDefiningOp();
  if (!op || budget == 0)
    return getOpaque(value);
  --budget;
  Match before = match;
  Polynomial polynomial = expandOp(op);
  // Give up early: the formulas to match have few terms.
  if (polynomial.size() > 16)
    polynomial.clear();
  if (hasX(polynomial))
    return polynomial;
  match = before;
  return polynomial.empty() ? getOpaque(value) : polynomial;
}

// Returns the result of `op` as a polynomial; empty if `op` is no sum, product,
// bound or logarithm that the expander knows.
Polynomial PolynomialExpander::expandOp(Operation *op) {
  Value value = op->getResult(0);
  if (isa<AddOp, SubOp, MulOp, NegOp>(op))
    return expandLinear(op);
  // relu(x), log(x) and softplus(x) become atoms, if their operand is x, -x or
  // a known form.
  if (match.take<ReluOp>(value))
    return expandBounded(op->getOperand(0), 0, /*isBelow=*/false);
  if (auto log = match.take<LogOp>(value))
    return expandLogarithm(log.getInput());
  if (auto softplus = match.take<SoftplusOp>(value))
    if (int sign = getSign(softplus.getInput()))
      return add(add(getAtom(kRelu), getAtom(kLogTerm)), getAtom(kX),
                 sign > 0 ? 0 : -1);
  // Use the identity |x| = 2 relu(x) - x.
  if (auto abs = match.take<AbsOp>(value); abs && getSign(abs.getInput()) != 0)
    return add(getAtom(kRelu, 2), getAtom(kX), -1);
  // A clip with one bound is a maximum or a minimum with a number.
  if (auto clip = match.take<ClipOp>(value)) {
    if (clip.getMin() && clip.getMax())
      return {};
    bool isBelow = !clip.getMin();
    auto bound = isBelow ? clip.getMax() : clip.getMin();
    return bound ? expandBounded(clip.getInput(), bound->convertToDouble(),
                                 isBelow)
                 : Polynomial();
  }
  if (isa<MaximumOp, MinimumOp>(op))
    for (unsigned i : {0, 1})
      if (auto bound = getConstantNumber(op->getOperand(i))) {
        (void)match.take<MaximumOp>(value);
        (void)match.take<MinimumOp>(value);
        return expandBounded(op->getOperand(1 - i), *bound, isa<MinimumOp>(op));
      }
  return {};
}

Polynomial PolynomialExpander::expandLinear(Operation *op) {
  Value value = op->getResult(0);
  (void)match.take<AddOp>(value);
  (void)match.take<SubOp>(value);
  (void)match.take<MulOp>(value);
  (void)match.take<NegOp>(value);
  Polynomial left = expand(op->getOperand(0));
  if (isa<NegOp>(op))
    return hasX(left) ? add({}, left, -1) : Polynomial();
  Polynomial right = expand(op->getOperand(1));
  if (hasX(left) || hasX(right)) {
    if (isa<MulOp>(op))
      return multiply(left, right);
    return add(left, right, isa<SubOp>(op) ? -1 : 1);
  }
  // Without x, expand only 1 - t and t - 1, and keep other values whole: the
  // label t may itself be a sum.
  bool hasOne =
      isNumber(op->getOperand(0), 1) || isNumber(op->getOperand(1), 1);
  if (!isa<SubOp>(op) || !hasOne)
    return {};
  termsWithoutX.push_back(op);
  return add(left, right, -1);
}

int PolynomialExpander::getSign(Value value) {
  Match before = match;
  Polynomial polynomial = expand(value);
  for (int sign : {1, -1})
    if (polynomial == getAtom(kX, sign))
      return sign;
  match = before;
  return 0;
}

// Expands max(u, 0) and min(u, 0) = -max(-u, 0) for u = x or -x. Also expands
// max(log(x), -100) and max(log(1 - x), -100) of a probability x, where -100 is
// PyTorch's bound. Empty for other bounds.
Polynomial PolynomialExpander::expandBounded(Value value, double bound,
                                             bool isBelow) {
  if (bound == 0)
    if (int sign = getSign(value)) {
      bool isOfX = (sign > 0) != isBelow;
      return add({}, add(getAtom(kRelu), getAtom(kX), isOfX ? 0 : -1),
                 isBelow ? -1 : 1);
    }
  auto log = value.getDefiningOp<LogOp>();
  if (!log || bound != -100 || isBelow)
    return {};
  match.take<LogOp>(value);
  Polynomial probability = expand(log.getInput());
  if (probability == getAtom(kX))
    return getAtom(kLogYes);
  if (probability == add(getNumber(1), getAtom(kX), -1))
    return getAtom(kLogNo);
  return {};
}

// Returns u if `value` is exp(u); null for other values.
static Value matchExponent(Value value, Match &match) {
  auto exp = match.take<ExpOp>(value);
  return exp ? exp.getInput() : Value();
}

// Expands the logarithm of `input` if it is log(sigmoid(u)), log(1 -
// sigmoid(u)), log(1 + exp(u)) or log(exp(u) + exp(v)); empty for other
// logarithms.
Polynomial PolynomialExpander::expandLogarithm(Value input) {
  // softplus(x) = log(1 + exp(x)) = max(x, 0) + log(1 + exp(-|x|)), a sum of
  // two atoms.
  Polynomial softplus = add(getAtom(kRelu), getAtom(kLogTerm));
  auto matchSigmoid = [&](Value value, int complement) -> Polynomial {
    auto sigmoid = match.take<SigmoidOp>(value);
    int sign = sigmoid ? complement * getSign(sigmoid.getInput()) : 0;
    if (sign == 0)
      return {};
    Polynomial negated = add({}, softplus, -1);
    return sign > 0 ? add(negated, getAtom(kX)) : negated;
  };
  // Use log(sigmoid(x)) = -softplus(-x) = x - softplus(x), and log(1 -
  // sigmoid(x)) = -softplus(x).
  if (input.getDefiningOp<SigmoidOp>())
    return matchSigmoid(input, 1);
  if (auto rest = match.take<SubOp>(input))
    return isNumber(rest.getLhs(), 1) ? matchSigmoid(rest.getRhs(), -1)
                                      : Polynomial();
  auto sum = match.take<AddOp>(input);
  if (!sum)
    return {};
  // In log(1 + y), y may be -sigmoid(x) or an exponential.
  if (Value other = matchOperandBeside(sum, 1)) {
    if (auto negated = match.take<NegOp>(other))
      return matchSigmoid(negated.getInput(), -1);
    Value exponent = matchExponent(other, match);
    Polynomial u = exponent ? expand(exponent) : Polynomial();
    if (u == getAtom(kX))
      return softplus;
    if (u == getAtom(kX, -1))
      return add(softplus, getAtom(kX), -1);
    // log(1 + exp(-|x|)) is an atom.
    return u == add(getAtom(kX), getAtom(kRelu), -2) ? getAtom(kLogTerm)
                                                     : Polynomial();
  }
  // A stable spelling of the atom, with m = max(-x, 0): log(exp(-m) + exp(-x -
  // m)).
  Value first = matchExponent(sum.getLhs(), match);
  Value second = matchExponent(sum.getRhs(), match);
  if (!first || !second)
    return {};
  Polynomial u = expand(first), v = expand(second);
  Polynomial negated = getAtom(kRelu, -1);
  Polynomial shifted = add(getAtom(kX), getAtom(kRelu), -1);
  bool isLogTerm =
      (u == shifted && v == negated) || (u == negated && v == shifted);
  return isLogTerm ? getAtom(kLogTerm) : Polynomial();
}

void PolynomialExpander::takeClosedTerms() {
  for (Operation *op : termsWithoutX) {
    Match attempt = match;
    (void)attempt.take<SubOp>(op->getResult(0));
    if (attempt.isClosed())
      match = attempt;
  }
}

//===----------------------------------------------------------------------===//
// Logits
//===----------------------------------------------------------------------===//

/// Tells if `op` may be a part of a formula: false for arithmetic, true for a
/// function that may read the logit (or, for a logarithm, the probability).
/// nullopt if no formula has such an op.
static std::optional<bool> findWord(Operation *op) {
  static const llvm::StringMap<bool> words = {
      {AddOp::getOperationName(), false},
      {SubOp::getOperationName(), false},
      {MulOp::getOperationName(), false},
      {NegOp::getOperationName(), false},
      {ExpOp::getOperationName(), false},
      {LogOp::getOperationName(), true},
      {SigmoidOp::getOperationName(), true},
      {SoftplusOp::getOperationName(), true},
      {ReluOp::getOperationName(), true},
      {AbsOp::getOperationName(), true},
      {ClipOp::getOperationName(), true},
      {MaximumOp::getOperationName(), true},
      {MinimumOp::getOperationName(), true},
  };
  auto word = words.find(op->getName().getStringRef());
  return word == words.end() ? std::nullopt : std::optional(word->second);
}

SmallVector<Value> mpc::findLogits(Operation *root) {
  constexpr size_t kMostOps = 48;
  SmallVector<Value> found;
  llvm::SmallPtrSet<Operation *, 16> seen = {root};
  SmallVector<Operation *> worklist = {root};
  auto isLogarithm = [](Operation *op) { return isa<LogOp, SoftplusOp>(op); };
  auto addCandidate = [&](Value value) {
    while (auto negated = value.getDefiningOp<NegOp>())
      value = negated.getInput();
    if (!getConstantNumber(value) && !llvm::is_contained(found, value))
      found.push_back(value);
  };
  // Walk back from the root over ops that formulas consist of. Operands of
  // functions are candidates for the logit or the probability.
  for (size_t i = 0; i < worklist.size() && seen.size() < kMostOps; ++i) {
    Operation *op = worklist[i];
    if (findWord(op).value_or(false))
      for (Value operand : op->getOperands())
        addCandidate(operand);
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      if (producer && findWord(producer) && seen.insert(producer).second)
        worklist.push_back(producer);
    }
  }
  // Every formula has a logarithm. Without one, as in a sum of relus, do not
  // try to expand the candidates.
  return llvm::any_of(seen, isLogarithm) ? found : SmallVector<Value>();
}
