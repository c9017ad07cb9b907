// Emits exponentials, logarithms and functions made of them in f64. Also
// contains the patterns that expand ops of the math dialect to the functions of
// this file and of SoftwareAngles.cpp.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Math/SoftwareMath.h"

#include "passes/Codegen/Kernels/Math/SoftwareFunctions.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// ln 2 in two parts; products of the first part with exponents are exact.
static constexpr double kLn2High = 0x1.62e42fefap-1;
static constexpr double kLn2Low = 0x1.cf79abc9e3b3ap-40;
static constexpr double kLn2 = 0x1.62e42fefa39efp-1;
static constexpr double kLog2E = 0x1.71547652b82fep+0;
static constexpr double kSqrt2 = 0x1.6a09e667f3bcdp+0;
/// From this x on, x^2 + 1 is rounded to x^2.
static constexpr double kFar = 0x1p28;

Value SoftwareFunctions::series(Value x, ArrayRef<double> coefficients) {
  Value sum = c(coefficients.back(), x);
  for (double coefficient : llvm::reverse(coefficients.drop_back()))
    sum = fma(sum, x, c(coefficient, x));
  return sum;
}

Value SoftwareFunctions::powerOfTwo(Value n) {
  Value biased = l.addInt(n, word(1023, n));
  return fromBits(arith::ShLIOp::create(b, biased, word(52, n)));
}

Value SoftwareFunctions::exp(Value x) { return exp(x, Value()); }

// Emits e^x = 2^n e^r, |r| <= ln 2 / 2. The factor 2^n is applied in two
// halves, which do not overflow, so that results may be subnormal or overflow.
Value SoftwareFunctions::exp(Value x, Value low) {
  SmallVector<double> coefficients;
  double factorial = 1;
  for (int i = 0; i <= 13; ++i) {
    coefficients.push_back(1 / factorial);
    factorial *= i + 1;
  }
  // Clamp x: beyond these limits all results are infinity, or 0. NaN passes
  // through.
  Value z = l.select(test(Test::OGT, x, 710), c(710, x), x);
  z = l.select(test(Test::OLT, z, -750), c(-750, x), z);
  Value n = math::RoundEvenOp::create(b, l.mul(z, c(kLog2E, x)));
  n = l.select(test(Test::UNO, x, 0), c(0, x), n);
  Value r = fma(n, c(-kLn2High, x), z);
  r = fma(n, c(-kLn2Low, x), r);
  if (low)
    r = l.add(r, low);
  Value whole =
      arith::FPToSIOp::create(b, Lanes::typeLike(b.getI64Type(), x), n);
  Value half = arith::ShRSIOp::create(b, whole, word(1, whole));
  Value rest = arith::SubIOp::create(b, whole, half);
  Value power = l.mul(series(r, coefficients), powerOfTwo(half));
  return l.mul(power, powerOfTwo(rest));
}

std::pair<Value, Value> SoftwareFunctions::splitExponent(Value x) {
  // Below the smallest normal number, the exponent bits are no exponent. Scale
  // such numbers by 2^54 first.
  Value tiny = test(Test::OLT, x, std::numeric_limits<double>::min());
  Value scaled = l.select(tiny, l.mul(x, c(0x1p54, x)), x);
  Value bits = toBits(scaled);
  // Split the bits into exponent and mantissa, the mantissa as a number in [1,
  // 2).
  Value exponent = arith::ShRUIOp::create(b, bits, word(52, bits));
  exponent = l.addInt(
      exponent, l.select(tiny, word(-1023 - 54, bits), word(-1023, bits)));
  Value mantissa =
      arith::AndIOp::create(b, bits, word(0x000fffffffffffff, bits));
  Value m = fromBits(
      arith::OrIOp::create(b, mantissa, word(0x3ff0000000000000, bits)));
  // Move m into [1 / sqrt 2, sqrt 2), where the series converges fastest.
  Value large = test(Test::OGT, m, kSqrt2);
  m = l.select(large, l.mul(m, c(0.5, x)), m);
  exponent = l.select(large, l.addInt(exponent, word(1, exponent)), exponent);
  return {arith::SIToFPOp::create(b, x.getType(), exponent), m};
}

// Emits log x = e ln 2 + log m; log m = 2 artanh s with s = (m - 1) / (m + 1).
Value SoftwareFunctions::log(Value x) {
  auto [e, m] = splitExponent(x);
  // artanh s = s + s^3 / 3 + s^5 / 5 + ...
  SmallVector<double> coefficients;
  for (int i = 0; i <= 11; ++i)
    coefficients.push_back(2.0 / (2 * i + 3));
  Value f = l.sub(m, c(1, x));
  Value s = l.div(f, l.add(m, c(1, x)));
  Value square = l.mul(s, s);
  // log m = 2 s + s^3 (2/3 + ...) and 2 s = f - s f, where f is exact.
  Value tail = l.mul(l.mul(s, square), series(square, coefficients));
  Value correction = fma(l.neg(s), f, tail);
  correction = fma(e, c(kLn2Low, x), correction);
  Value result = fma(e, c(kLn2High, x), l.add(f, correction));

  // Infinity and 0 have no mantissa, so select their results.
  result = l.select(test(Test::OEQ, x, kInfinity), x, result);
  result = l.select(test(Test::OEQ, x, 0), c(-kInfinity, x), result);
  // Numbers below zero, and NaN, give NaN.
  return l.select(test(Test::UGE, l.neg(x), 0x1p-1074), c(kNaN, x), result);
}

// Emits log(1 + x) = log u + (x - (u - 1)) / u, where u is 1 + x rounded.
Value SoftwareFunctions::log1p(Value x) {
  Value u = l.add(x, c(1, x));
  Value lost = l.sub(x, l.sub(u, c(1, x)));
  Value logarithm = log(u);
  Value corrected = l.add(logarithm, l.div(lost, u));
  Value ends = arith::OrIOp::create(b, test(Test::OEQ, u, 0),
                                    test(Test::OEQ, u, kInfinity));
  return l.select(ends, logarithm, corrected);
}

// Emits tanh x as sinh x / cosh x if x is small, otherwise as 1 - 2 / (e^2x +
// 1).
Value SoftwareFunctions::tanh(Value x) {
  SmallVector<double> sine, cosine;
  double factorial = 1;
  for (int i = 0; i <= 9; ++i) {
    cosine.push_back(1 / factorial);
    factorial *= 2 * i + 1;
    sine.push_back(1 / factorial);
    factorial *= 2 * i + 2;
  }
  Value square = l.mul(x, x);
  Value small = l.mul(x, l.div(series(square, sine), series(square, cosine)));
  Value size = l.abs(x);
  Value e = exp(l.mul(size, c(2, x)));
  Value large = l.sub(c(1, x), l.div(c(2, x), l.add(e, c(1, x))));
  large = math::CopySignOp::create(b, large, x);
  return l.select(test(Test::OLT, size, 0.55), small, large);
}

// Emits erf x = 2 / sqrt(pi) x e^(-x^2) (1 + t/3 (1 + t/5 (1 + t/7 ...))), t =
// 2 x^2. All terms are positive, so none cancel. From x = 6 on the result is 1.
Value SoftwareFunctions::erf(Value x) {
  constexpr int kTerms = 120;
  constexpr double k2OverSqrtPi = 1.12837916709551257390;
  Value size = l.abs(x);
  Value z = l.select(test(Test::OGT, size, 6), c(6, x), size);
  Value square = l.mul(z, z), twice = l.add(square, square);
  Value sum = c(1, x);
  for (int i = kTerms; i > 0; --i)
    sum = fma(l.mul(sum, twice), c(1.0 / (2 * i + 1), x), c(1, x));
  Value decay = exp(l.neg(square));
  Value result = l.mul(l.mul(c(k2OverSqrtPi, x), z), l.mul(decay, sum));
  result = l.select(test(Test::OGE, size, 6), c(1, x), result);
  return math::CopySignOp::create(b, result, x);
}

SoftwareFunctions::Pair SoftwareFunctions::multiply(const Pair &x,
                                                    const Pair &y) {
  Value high = l.mul(x.high, y.high);
  Value cross = fma(x.high, y.low, l.mul(x.low, y.high));
  return {high, l.add(fma(x.high, y.high, l.neg(high)), cross)};
}

// Like `log`, but on pairs: log m = 2 s + 2/3 s^3 + s^5 (2/5 + 2/7 s^2 + ...).
// The terms after s^3 are below 2^-12 of the whole, so a single f64 has enough
// digits for them.
SoftwareFunctions::Pair SoftwareFunctions::exactLog(Value x) {
  SmallVector<double> coefficients;
  for (int i = 0; i <= 11; ++i)
    coefficients.push_back(2.0 / (2 * i + 5));
  auto [e, m] = splitExponent(x);
  // Divide f by m + 1 as a pair: the quotient, and the remainder of the
  // division, divided again.
  Value f = l.sub(m, c(1, x));
  Pair divisor = sum(m, c(1, x));
  Value quotient = l.div(f, divisor.high);
  Value rest = fma(l.neg(quotient), divisor.high, f);
  rest = fma(l.neg(quotient), divisor.low, rest);
  Pair s = {quotient, l.div(rest, divisor.high)};
  // Compute s^2, s^3 and 2/3 s^3 as pairs.
  Pair square = multiply(s, s), cube = multiply(square, s);
  Pair third =
      multiply(cube, {c(0x1.5555555555555p-1, x), c(0x1.5555555555555p-55, x)});
  Value tail =
      l.mul(l.mul(square.high, cube.high), series(square.high, coefficients));
  // Add the large terms exactly, as pairs, and all small terms in a single f64.
  Pair large = sum(l.add(s.high, s.high), third.high);
  Value small = l.add(third.low, l.add(s.low, s.low));
  small = l.add(l.add(large.low, small), tail);
  Pair whole = sum(l.mul(e, c(kLn2High, x)), large.high);
  small = fma(e, c(kLn2Low, x), small);
  return sum(whole.high, l.add(whole.low, small));
}

// Emits size^y as e^(y log size). The absolute error of y log size is the
// relative error of the result. y log size is up to 745, so a single f64 would
// lose three more digits of the result than a pair does.
Value SoftwareFunctions::exactPower(Value size, Value y) {
  Pair logarithm = exactLog(size);
  // Infinity, 0 and NaN have no mantissa, so select their logarithms.
  Value high = l.select(test(Test::OEQ, size, kInfinity), size, logarithm.high);
  high = l.select(test(Test::OEQ, size, 0), c(-kInfinity, size), high);
  high = l.select(test(Test::UNO, size, 0), size, high);
  Value product = l.mul(y, high);
  Value low = fma(y, logarithm.low, fma(y, high, l.neg(product)));
  // Beyond the range of exp, `low` would be infinity minus infinity, so drop
  // it.
  Value isInside = test(Test::OLT, l.abs(product), 800);
  return exp(product, l.select(isInside, low, c(0, size)));
}

Value SoftwareFunctions::pow(Value x, Value y, bool isExact) {
  // Compute |x|^y by the exponential first, and the sign last.
  Value size = l.abs(x);
  Value result = isExact ? exactPower(size, y) : exp(l.mul(y, log(size)));
  // Anything to the power 0 is 1, and 1 to any power, even NaN, is 1.
  Value isOne =
      arith::OrIOp::create(b, test(Test::OEQ, y, 0), test(Test::OEQ, size, 1));
  result = l.select(isOne, c(1, x), result);

  // For a negative x, the sign follows y: odd powers keep the sign, even powers
  // drop it, and powers that are not whole are NaN. y is odd if y is whole and
  // y / 2 is not.
  auto isWhole = [&](Value value) {
    Value floor = math::FloorOp::create(b, value);
    return l.compare(Test::OEQ, floor, value);
  };
  auto negate = [&](Value condition) {
    return l.xorInt(condition, l.broadcast(l.integer(b.getI1Type(), 1), x));
  };
  Value wholePower = isWhole(y);
  Value isOdd = arith::AndIOp::create(b, wholePower,
                                      negate(isWhole(l.mul(y, c(0.5, y)))));
  Value bits = toBits(x);
  Value isNegative = l.compare(arith::CmpIPredicate::slt, bits, word(0, bits));
  Value flips = arith::AndIOp::create(b, isNegative, isOdd);
  result = l.select(flips, l.neg(result), result);
  // A finite negative number has only whole powers; all other powers are NaN.
  // Powers of NaN are NaN already.
  Value isFinite = arith::AndIOp::create(b, test(Test::OLT, x, 0),
                                         test(Test::OGT, x, -kInfinity));
  Value broken = arith::AndIOp::create(b, isFinite, negate(wholePower));
  return l.select(broken, c(kNaN, x), result);
}

//===----------------------------------------------------------------------===//
// Hyperbolic functions
//===----------------------------------------------------------------------===//

// For `size` = |x|, returns (e^|x| / 2, 1 / (2 e^|x|)). If |x| is large, e^|x|
// may overflow although its half does not, so the half is computed as a product
// of two factors. The second value is then too small to change a sum with the
// first.
std::pair<Value, Value> SoftwareFunctions::halfExponentials(Value size) {
  Value isFar = test(Test::OGT, size, 700);
  Value e = exp(l.select(isFar, l.mul(size, c(0.5, size)), size));
  Value half = l.mul(e, c(0.5, size));
  return {l.select(isFar, l.mul(half, e), half), l.div(c(0.5, size), e)};
}

// Emits sinh x by a series if |x| < 1, where the difference of the exponentials
// would cancel.
Value SoftwareFunctions::sinh(Value x) {
  SmallVector<double> coefficients;
  double factorial = 1;
  for (int i = 0; i <= 9; ++i) {
    coefficients.push_back(1 / factorial);
    factorial *= (2 * i + 2) * (2 * i + 3);
  }
  Value size = l.abs(x), square = l.mul(x, x);
  Value tail = series(square, ArrayRef<double>(coefficients).drop_front());
  Value small = fma(l.mul(size, square), tail, size);
  auto [grown, shrunk] = halfExponentials(size);
  Value result =
      l.select(test(Test::OLT, size, 1), small, l.sub(grown, shrunk));
  return math::CopySignOp::create(b, result, x);
}

Value SoftwareFunctions::cosh(Value x) {
  auto [grown, shrunk] = halfExponentials(l.abs(x));
  return l.add(grown, shrunk);
}

// Emits asinh |x| = log(|x| + sqrt(x^2 + 1)) as log1p(|x| + x^2 / (1 + sqrt(x^2
// + 1))). Far out, where adding 1 to the square changes nothing, uses log(2
// |x|).
Value SoftwareFunctions::asinh(Value x) {
  Value size = l.abs(x), square = l.mul(x, x), one = c(1, x);
  Value root = l.sqrt(l.add(square, one));
  Value near = log1p(l.add(size, l.div(square, l.add(one, root))));
  Value far = l.add(log(size), c(kLn2, x));
  Value result = l.select(test(Test::OGT, size, kFar), far, near);
  return math::CopySignOp::create(b, result, x);
}

// Emits acosh x as log1p(t + sqrt(t (t + 2))) with t = x - 1.
Value SoftwareFunctions::acosh(Value x) {
  Value t = l.sub(x, c(1, x));
  Value root = l.sqrt(l.mul(t, l.add(t, c(2, x))));
  Value near = log1p(l.add(t, root));
  Value far = l.add(log(x), c(kLn2, x));
  Value result = l.select(test(Test::OGT, x, kFar), far, near);
  return l.select(test(Test::OLT, x, 1), c(kNaN, x), result);
}

// Emits atanh |x| as log1p(2 |x| / (1 - |x|)) / 2. If |x| is above 1, the
// quotient is below -1, and the result is NaN.
Value SoftwareFunctions::atanh(Value x) {
  Value size = l.abs(x);
  Value quotient = l.div(l.add(size, size), l.sub(c(1, x), size));
  Value result = l.mul(log1p(quotient), c(0.5, x));
  return math::CopySignOp::create(b, result, x);
}

//===----------------------------------------------------------------------===//
// Patterns
//===----------------------------------------------------------------------===//

namespace {
/// Expands a math op on f64. Ops on f32 become polynomials or instructions of a
/// GPU instead.
template <typename OpTy, Value (SoftwareFunctions::*function)(Value)>
struct ExpandUnary : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF64())
      return rewriter.notifyMatchFailure(op, "not of f64");
    SoftwareFunctions functions(op.getLoc(), rewriter);
    rewriter.replaceOp(op, (functions.*function)(op.getOperand()));
    return success();
  }
};

/// Expands a math op on f32 or f64. Computes in f64: an f32 operand is widened,
/// and the result rounded.
template <typename OpTy, Value (SoftwareFunctions::*function)(Value)>
struct ExpandWide : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Lanes lanes(b, b.getF64Type());
    auto type = cast<FloatType>(getElementTypeOrSelf(op.getType()));
    Value x = lanes.convert(op.getOperand(), b.getF64Type());
    SoftwareFunctions functions(op.getLoc(), rewriter);
    Value y = (functions.*function)(x);
    rewriter.replaceOp(op, lanes.convert(y, type));
    return success();
  }
};

struct ExpandPow : OpRewritePattern<math::PowFOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(math::PowFOp op,
                                PatternRewriter &rewriter) const override {
    ImplicitLocOpBuilder b(op.getLoc(), rewriter);
    Lanes lanes(b, b.getF64Type());
    auto type = cast<FloatType>(getElementTypeOrSelf(op.getType()));
    Value x = lanes.convert(op.getLhs(), b.getF64Type());
    Value y = lanes.convert(op.getRhs(), b.getF64Type());
    // Only an f64 result needs the exact variant, unless the op allows an
    // approximation (afn).
    bool isExact =
        type.isF64() &&
        !arith::bitEnumContainsAny(op.getFastmath(), arith::FastMathFlags::afn);
    Value power = SoftwareFunctions(op.getLoc(), rewriter).pow(x, y, isExact);
    rewriter.replaceOp(op, lanes.convert(power, type));
    return success();
  }
};
} // namespace

//===----------------------------------------------------------------------===//
// By instructions of a GPU
//===----------------------------------------------------------------------===//

namespace {
/// Emits functions of f32, on scalars or vectors, by approximate instructions
/// of a GPU.
class GPUFunctions {
public:
  GPUFunctions(Location loc, OpBuilder &builder)
      : b(loc, builder), l(b, b.getF32Type()) {}

  Value exp(Value x);
  Value tanh(Value x);

private:
  Value c(double value, Value like) {
    return l.broadcast(l.constant(value), like);
  }
  Value fma(Value x, Value y, Value z) {
    return math::FmaOp::create(b, x, y, z);
  }
  Value exp2(Value x) { return math::Exp2Op::create(b, x); }
  Value reciprocal(Value x) {
    return arith::DivFOp::create(b, c(1, x), x, arith::FastMathFlags::afn);
  }

  ImplicitLocOpBuilder b;
  Lanes l;
};
} // namespace

// Emits e^x = 2^h (1 + r ln 2), where h is the float nearest to x log2 e, and r
// the rounding error, below a unit in the last place of h. Clamps x: all
// results beyond the limits are equal, and the rest of infinity would be NaN.
Value GPUFunctions::exp(Value x) {
  constexpr double log2E = 0x1.715476p+0, rest = 0x1.4ae0c0p-26;
  Value z = l.minimum(l.maximum(x, c(-110, x)), c(100, x));
  Value h = l.mul(z, c(log2E, x));
  Value r = fma(z, c(log2E, x), l.neg(h));
  r = fma(z, c(rest, x), r);
  Value power = exp2(h);
  return l.mul(power, fma(r, c(kLn2, x), c(1, x)));
}

// Emits tanh x. If |x| is below 0.55, evaluates a polynomial of minimal
// relative error, 0.8 units in the last place. Otherwise computes 1 - 2 /
// (e^2|x| + 1), which is 1 if the power is infinite. The result takes the sign
// of x, since the polynomial would turn -0 into +0.
Value GPUFunctions::tanh(Value x) {
  constexpr double coefficients[] = {-0x1.55553cp-2, 0x1.110974p-3,
                                     -0x1.b897fap-5, 0x1.54d5a2p-6,
                                     -0x1.83641ap-8};
  Value size = l.abs(x), square = l.mul(x, x);
  Value sum = c(coefficients[4], x);
  for (int i = 3; i >= 0; --i)
    sum = fma(sum, square, c(coefficients[i], x));
  Value near = fma(l.mul(x, square), sum, x);
  Value power = exp2(l.mul(size, c(2 * kLog2E, x)));
  Value far = fma(reciprocal(l.add(power, c(1, x))), c(-2, x), c(1, x));
  Value isNear = l.compare(arith::CmpFPredicate::OLT, size, c(0.55, x));
  return math::CopySignOp::create(b, l.select(isNear, near, far), x);
}

namespace {
template <typename OpTy, Value (GPUFunctions::*function)(Value)>
struct ExpandF32 : OpRewritePattern<OpTy> {
  using OpRewritePattern<OpTy>::OpRewritePattern;
  LogicalResult matchAndRewrite(OpTy op,
                                PatternRewriter &rewriter) const override {
    if (!getElementTypeOrSelf(op.getType()).isF32())
      return rewriter.notifyMatchFailure(op, "not of f32");
    GPUFunctions functions(op.getLoc(), rewriter);
    rewriter.replaceOp(op, (functions.*function)(op.getOperand()));
    return success();
  }
};
} // namespace

void codegen::populateGPUMathPatterns(RewritePatternSet &patterns) {
  patterns.add<ExpandF32<math::ExpOp, &GPUFunctions::exp>,
               ExpandF32<math::TanhOp, &GPUFunctions::tanh>>(
      patterns.getContext());
}

void codegen::populateSoftwareMathPatterns(RewritePatternSet &patterns) {
  using Functions = SoftwareFunctions;
  // These patterns match f64 only. f32 becomes polynomials, or instructions by
  // the GPU patterns above.
  patterns.add<ExpandUnary<math::ExpOp, &Functions::exp>,
               ExpandUnary<math::LogOp, &Functions::log>,
               ExpandUnary<math::Log1pOp, &Functions::log1p>,
               ExpandUnary<math::TanhOp, &Functions::tanh>,
               ExpandUnary<math::ErfOp, &Functions::erf>, ExpandPow,
               // These patterns match f32 too: an f32 operand is widened first.
               ExpandWide<math::SinOp, &Functions::sin>,
               ExpandWide<math::CosOp, &Functions::cos>,
               ExpandWide<math::TanOp, &Functions::tan>,
               ExpandWide<math::AsinOp, &Functions::asin>,
               ExpandWide<math::AcosOp, &Functions::acos>,
               ExpandWide<math::AtanOp, &Functions::atan>,
               ExpandWide<math::SinhOp, &Functions::sinh>,
               ExpandWide<math::CoshOp, &Functions::cosh>,
               ExpandWide<math::AsinhOp, &Functions::asinh>,
               ExpandWide<math::AcoshOp, &Functions::acosh>,
               ExpandWide<math::AtanhOp, &Functions::atanh>>(
      patterns.getContext());
}
