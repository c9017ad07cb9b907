// SPDX-License-Identifier: Apache-2.0
#include "passes/Recognition/Match.h"

#include "compiler/Dialect/MPC/Fold/ConstantNumber.h"

#include "mlir/IR/DialectResourceBlobManager.h"

#include <cmath>

using namespace mlir;
using namespace mpc;

//===----------------------------------------------------------------------===//
// Match
//===----------------------------------------------------------------------===//

bool Match::isClosed() const {
  Operation *root = getRoot();
  return llvm::all_of(ops, [&](Operation *op) {
    bool isInside = llvm::all_of(
        op->getUsers(), [&](Operation *user) { return ops.contains(user); });
    Type element = elementOf(op->getResult(0));
    bool isRounded =
        isa<FloatType>(element) && !element.isF32() && !element.isF64();
    return !isRounded && op->getBlock() == root->getBlock() &&
           op->getAttr(kPhaseAttr) == root->getAttr(kPhaseAttr) &&
           (op == root || isInside);
  });
}

Location Match::getLocation() const {
  SmallVector<Location> locations;
  for (Operation *op : ops)
    locations.push_back(op->getLoc());
  return FusedLoc::get(getRoot()->getContext(), locations);
}

void Match::replace(Operation *op, PatternRewriter &rewriter) const {
  Operation *root = getRoot();
  copyPhase(root, op);
  rewriter.replaceOp(root, op->getResult(0));
}

//===----------------------------------------------------------------------===//
// Numbers
//===----------------------------------------------------------------------===//

Value mpc::createOne(const Match &match, Type elementType,
                     PatternRewriter &rewriter) {
  Attribute one = rewriter.getFloatAttr(elementType, 1.0);
  auto type = RankedTensorType::get({}, elementType);
  return ConstantOp::create(rewriter, match.getLocation(),
                            DenseElementsAttr::get(type, one));
}

bool mpc::isNumber(Value value, double expected) {
  constexpr double kDigits = 1e-6;
  std::optional<double> number = getConstantNumber(value);
  return number && std::abs(*number - expected) <= kDigits * std::abs(expected);
}

ArrayRef<char> mpc::getDenseBytes(Attribute value) {
  if (auto dense = dyn_cast<DenseIntOrFPElementsAttr>(value))
    return dense.isSplat() ? ArrayRef<char>() : dense.getRawData();
  auto resource = dyn_cast<DenseResourceElementsAttr>(value);
  AsmResourceBlob *blob =
      resource ? resource.getRawHandle().getBlob() : nullptr;
  return blob ? blob->getData() : ArrayRef<char>();
}

//===----------------------------------------------------------------------===//
// Roots and means
//===----------------------------------------------------------------------===//

Value mpc::matchSquare(Value value, Match &match) {
  if (auto product = value.getDefiningOp<MulOp>();
      product && product.getLhs() == product.getRhs())
    return match.take<MulOp>(value).getLhs();
  auto power = value.getDefiningOp<PowOp>();
  if (!power || getConstantNumber(power.getRhs()) != 2.0 ||
      power.getType() != power.getLhs().getType())
    return {};
  return match.take<PowOp>(value).getLhs();
}

Value mpc::matchInverseRoot(Value value, Match &match) {
  Match attempt = match;
  Value root;
  if (auto power = attempt.take<PowOp>(value)) {
    if (getConstantNumber(power.getRhs()) != -0.5 ||
        power.getType() != power.getLhs().getType())
      return {};
    match = attempt;
    return power.getLhs();
  }
  // The other forms are reciprocal(sqrt(x)) and 1 / sqrt(x).
  if (auto reciprocal = attempt.take<ReciprocalOp>(value))
    root = reciprocal.getInput();
  else if (auto quotient = attempt.take<DivOp>(value);
           quotient && isNumber(quotient.getLhs(), 1.0))
    root = quotient.getRhs();
  auto sqrt = root ? attempt.take<SqrtOp>(root) : SqrtOp();
  if (!sqrt)
    return {};
  match = attempt;
  return sqrt.getInput();
}

std::optional<std::pair<Value, double>> mpc::matchAddedNumber(Value value,
                                                              Match &match) {
  auto sum = value.getDefiningOp<AddOp>();
  if (!sum)
    return std::nullopt;
  for (unsigned i : {0, 1}) {
    Value input = sum->getOperand(i);
    std::optional<double> number = getConstantNumber(sum->getOperand(1 - i));
    if (!number || input.getType() != sum.getType())
      continue;
    match.take<AddOp>(value);
    return std::pair(input, *number);
  }
  return std::nullopt;
}

std::optional<OverRoot> mpc::matchOverRoot(Operation *op, Match &match) {
  Match attempt = match;
  Value numerator, radicand;
  // The first form is numerator / sqrt(square + epsilon).
  if (auto quotient = dyn_cast<DivOp>(op)) {
    numerator = quotient.getLhs();
    if (auto root = attempt.take<SqrtOp>(quotient.getRhs()))
      radicand = root.getInput();
  } else if (auto product = dyn_cast<MulOp>(op)) {
    // The second form is numerator * (1 / sqrt(square + epsilon)), with the
    // factors in either order.
    for (unsigned i : {0, 1}) {
      if (radicand)
        break;
      numerator = op->getOperand(i);
      radicand = matchInverseRoot(op->getOperand(1 - i), attempt);
    }
  }
  if (!radicand || numerator.getType() != op->getResult(0).getType())
    return std::nullopt;
  // The operand of the root must be a value plus a number, such as a variance
  // plus an epsilon.
  auto sum = matchAddedNumber(radicand, attempt);
  if (!sum || sum->second < 0)
    return std::nullopt;
  match = attempt;
  return OverRoot{numerator, sum->first, sum->second};
}

ReduceMeanOp mpc::matchMean(Value value, Match &match) {
  auto mean = value.getDefiningOp<ReduceMeanOp>();
  if (!mean || !mean.getKeepdims() || !llvm::is_sorted(mean.getAxes()))
    return {};
  return match.take<ReduceMeanOp>(value);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

// True if `value` is a product inside a larger product: its type is `type`, and
// nothing else reads `value`.
static bool isInnerProduct(Value value, Type type) {
  Operation *op = value.getDefiningOp();
  return op && isa<MulOp, DivOp>(op) && value.getType() == type &&
         value.hasOneUse();
}

static void collectFactors(Operation *op, Product &product, Match &match) {
  Type type = op->getResult(0).getType();
  for (unsigned i : {0, 1}) {
    Value operand = op->getOperand(i);
    // Multiply the numbers into one. Follow operands that are products.
    bool isDivisor = isa<DivOp>(op) && i == 1;
    std::optional<double> number = getConstantNumber(operand);
    if (number && isDivisor)
      product.number /= *number;
    else if (number)
      product.number *= *number;
    else if (!isDivisor && isInnerProduct(operand, type) &&
             (isa<MulOp>(operand.getDefiningOp()) ||
              getConstantNumber(operand.getDefiningOp()->getOperand(1)))) {
      (void)match.take<MulOp>(operand);
      (void)match.take<DivOp>(operand);
      collectFactors(operand.getDefiningOp(), product, match);
    } else {
      product.factors.push_back(operand);
    }
  }
}

Product mpc::matchProduct(Value value, Match &match) {
  Product product;
  Operation *op = value.getDefiningOp();
  bool isQuotient =
      op && isa<DivOp>(op) && getConstantNumber(op->getOperand(1));
  if (!op || !(isa<MulOp>(op) || isQuotient)) {
    product.factors.push_back(value);
    return product;
  }
  (void)match.take<MulOp>(value);
  (void)match.take<DivOp>(value);
  collectFactors(op, product, match);
  return product;
}

Value mpc::matchBroadcast(Operation *op, Value value, Value x,
                          const Match &match) {
  Value other = op->getOperand(op->getOperand(0) == value ? 1 : 0);
  auto type = typeOf(x);
  if (op->getResult(0).getType() != type || match.contains(other) ||
      elementOf(other) != type.getElementType() ||
      typeOf(other).getNumElements() >= type.getNumElements())
    return {};
  return other;
}
