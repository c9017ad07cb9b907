// Emits sin, cos, tan and their inverses in f64. Arguments of any size are
// divided by a quarter turn with as many digits as necessary (Payne and Hanek,
// 1983): the sine of 1e300 has all its digits.
//
// SPDX-License-Identifier: Apache-2.0
#include "passes/Codegen/Kernels/Math/SoftwareFunctions.h"

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// pi / 2 as a sum of two parts.
static constexpr double kQuarterHigh = 0x1.921fb54442d18p+0;
static constexpr double kQuarterLow = 0x1.1a62633145c07p-54;

/// 64 zeros, then the bits of 2 / pi after the binary point, the highest first.
static constexpr uint64_t kInverseQuarter[] = {
    0x0000000000000000, 0xa2f9836e4e441529, 0xfc2757d1f534ddc0,
    0xdb6295993c439041, 0xfe5163abdebbc561, 0xb7246e3a424dd2e0,
    0x06492eea09d1921c, 0xfe1deb1cb129a73e, 0xe88235f52ebb4484,
    0xe99c7026b45f7e41, 0x3991d639835339f4, 0x9c845f8bbdf9283b,
    0x1ff897ffde05980f, 0xef2f118b5a0a6d1f, 0x6d367ecf27cb09b7,
    0x4f463f669e5fea2d, 0x7527bac7ebe5f17b, 0x3d0739f78a5292ea,
    0x6bfb5fb11f8d5d08, 0x56033046fc7b6bab};

//===----------------------------------------------------------------------===//
// Reduction to an eighth of a turn
//===----------------------------------------------------------------------===//

SoftwareFunctions::Pair SoftwareFunctions::sum(Value x, Value y) {
  Value total = l.add(x, y);
  Value taken = l.sub(total, x); // of y
  Value lost = l.add(l.sub(x, l.sub(total, taken)), l.sub(y, taken));
  return {total, lost};
}

// Returns four words of kInverseQuarter from `index`, at most 16, on. There may
// be no memory for tables, so the words are constants, and each bit of the
// index selects between two words.
SmallVector<Value> SoftwareFunctions::takeWords(Value index) {
  SmallVector<Value> words;
  for (uint64_t bits : kInverseQuarter)
    words.push_back(word(static_cast<int64_t>(bits), index));
  for (size_t step : {16, 8, 4, 2, 1}) {
    Value stays = isZero(bitAnd(index, step));
    // The lower bits of the index move words by less than `step` in total, so 4
    // + step - 1 words suffice.
    size_t needed = 4 + step - 1;
    for (size_t i = 0; i < needed; ++i)
      if (i + step < words.size())
        words[i] = l.select(stays, words[i], words[i + step]);
    words.resize(needed);
  }
  return words;
}

// Divides `size` by pi / 2. Let size = m 2^e, with m of 53 bits. Bit i after
// the point of 2 / pi contributes m 2^(e - i) quarter turns. Up to i = e - 2
// these are whole turns, and are dropped. The next 192 bits times m, modulo
// 2^192, are the quadrant in two bits and a fraction of a quarter turn, of
// which 126 bits are kept.
SoftwareFunctions::Angle SoftwareFunctions::divideByQuarterTurns(Value size) {
  Value bits = toBits(size);
  Value exponent = shiftRight(bits, word(52, bits));
  // `reduce` ignores the result for smaller values, but they need a valid index
  // into the table too.
  exponent = arith::MaxUIOp::create(b, exponent, word(1022, bits));
  Value m = arith::OrIOp::create(b, bitAnd(bits, 0x000fffffffffffff),
                                 word(0x0010000000000000, bits));
  // The first bit that counts is i = e - 1, with e = exponent - 1075. Bit i is
  // at position i + 63 in the table.
  Value place = l.addInt(exponent, word(62 - 1075, bits));
  SmallVector<Value> words = takeWords(shiftRight(place, word(6, bits)));
  Value shift = bitAnd(place, 63);
  // Shift right by 64 - shift in two steps, since a shift by 64 is undefined:
  // by one, and by 63 - shift.
  Value back = l.xorInt(shift, word(63, bits));
  for (int i = 0; i < 3; ++i)
    words[i] = arith::OrIOp::create(
        b, shiftLeft(words[i], shift),
        shiftRight(shiftRight(words[i + 1], word(1, bits)), back));

  // Compute the upper 128 bits of the product of m and the 192 bits.
  auto middle = arith::MulUIExtendedOp::create(b, m, words[1]);
  auto lowest = arith::MulUIExtendedOp::create(b, m, words[2]);
  Value lower = l.addInt(middle.getLow(), lowest.getHigh());
  Value carries = l.compare(arith::CmpIPredicate::ult, lower, middle.getLow());
  Value upper = l.addInt(l.mulInt(m, words[0]), middle.getHigh());
  upper = l.addInt(upper, l.select(carries, word(1, bits), word(0, bits)));

  // Split into the nearest quadrant and a fraction between -1/2 and 1/2.
  Value rounded = l.addInt(upper, word(int64_t(1) << 61, bits));
  Value quadrant = shiftRight(rounded, word(62, bits));
  Value fraction =
      arith::ShRSIOp::create(b, shiftLeft(upper, word(2, bits)), word(2, bits));

  // Convert the fraction to floats in parts of 32 bits, which is exact. `sum`
  // adds the first two exactly.
  auto part = [&](Value integer, double unit) {
    Value number = arith::SIToFPOp::create(b, size.getType(), integer);
    return l.mul(number, c(unit, size));
  };
  Value half = word(32, bits);
  Pair turns = sum(part(arith::ShRSIOp::create(b, fraction, half), 0x1p-30),
                   part(bitAnd(fraction, 0xffffffff), 0x1p-62));
  Value rest = l.add(part(shiftRight(lower, half), 0x1p-94),
                     part(bitAnd(lower, 0xffffffff), 0x1p-126));
  turns = sum(turns.high, l.add(turns.low, rest));

  // Multiply the fraction by pi / 2, as a pair of a high and a low part.
  Value high = l.mul(turns.high, c(kQuarterHigh, size));
  Value low = fma(turns.high, c(kQuarterHigh, size), l.neg(high));
  low = fma(turns.high, c(kQuarterLow, size), low);
  low = fma(turns.low, c(kQuarterHigh, size), low);
  return {sum(high, low), quadrant};
}

// Splits `size` into quarter turns and a rest of at most pi / 4. A value up to
// pi / 4 is its own rest, so that small values keep all their digits.
SoftwareFunctions::Angle SoftwareFunctions::reduce(Value size) {
  Angle angle = divideByQuarterTurns(size);
  Value isSmall = test(Test::OLE, size, 0x1.921fb54442d18p-1);
  angle.rest.high = l.select(isSmall, size, angle.rest.high);
  angle.rest.low = l.select(isSmall, c(0, size), angle.rest.low);
  angle.quadrant = l.select(isSmall, word(0, angle.quadrant), angle.quadrant);
  return angle;
}

//===----------------------------------------------------------------------===//
// Sine and cosine
//===----------------------------------------------------------------------===//

// Emits sin(x + y) = sin x + y cos x, for a pair of x and a small y.
Value SoftwareFunctions::sineOf(const Pair &angle) {
  SmallVector<double> coefficients;
  double factorial = -6;
  for (int i = 1; i <= 9; ++i) {
    coefficients.push_back(1 / factorial);
    factorial *= -(2 * i + 2) * (2 * i + 3);
  }
  Value x = angle.high, square = l.mul(x, x);
  Value tail = l.mul(l.mul(x, square), series(square, coefficients));
  Value cosine = fma(square, c(-0.5, x), c(1, x));
  return l.add(x, fma(angle.low, cosine, tail));
}

// Emits cos(x + y) = cos x - y sin x, for a pair of x and a small y. The
// rounding error of 1 - x^2 / 2 is added too.
Value SoftwareFunctions::cosineOf(const Pair &angle) {
  SmallVector<double> coefficients;
  double factorial = 24;
  for (int i = 2; i <= 9; ++i) {
    coefficients.push_back(1 / factorial);
    factorial *= -(2 * i + 1) * (2 * i + 2);
  }
  Value x = angle.high, square = l.mul(x, x);
  Value half = l.mul(square, c(0.5, x)), one = c(1, x);
  Value first = l.sub(one, half);
  Value lost = l.sub(l.sub(one, first), half);
  Value tail = l.mul(l.mul(square, square), series(square, coefficients));
  tail = fma(l.neg(x), angle.low, tail);
  return l.add(first, l.add(lost, tail));
}

Value SoftwareFunctions::sineOf(const Angle &angle) {
  Value isEven = isZero(bitAnd(angle.quadrant, 1));
  Value size = l.select(isEven, sineOf(angle.rest), cosineOf(angle.rest));
  Value isPositive = isZero(bitAnd(angle.quadrant, 2));
  return l.select(isPositive, size, l.neg(size));
}

Value SoftwareFunctions::finish(Value result, Value x, bool isOdd) {
  if (isOdd) {
    Value bits = toBits(x);
    Value isNegative =
        l.compare(arith::CmpIPredicate::slt, bits, word(0, bits));
    result = l.select(isNegative, l.neg(result), result);
  }
  Value isFinite = test(Test::OLT, l.abs(x), kInfinity);
  return l.select(isFinite, result, c(kNaN, x));
}

Value SoftwareFunctions::sin(Value x) {
  return finish(sineOf(reduce(l.abs(x))), x, /*isOdd=*/true);
}

// cos x is the sine of an angle one quarter turn further.
Value SoftwareFunctions::cos(Value x) {
  Angle angle = reduce(l.abs(x));
  angle.quadrant = l.addInt(angle.quadrant, word(1, angle.quadrant));
  return finish(sineOf(angle), x, /*isOdd=*/false);
}

Value SoftwareFunctions::tan(Value x) {
  Angle angle = reduce(l.abs(x));
  Value sine = sineOf(angle.rest), cosine = cosineOf(angle.rest);
  Value isEven = isZero(bitAnd(angle.quadrant, 1));
  Value quotient = l.div(l.select(isEven, sine, l.neg(cosine)),
                         l.select(isEven, cosine, sine));
  return finish(quotient, x, /*isOdd=*/true);
}

//===----------------------------------------------------------------------===//
// Inverse functions
//===----------------------------------------------------------------------===//

// atan |x| = atan p + atan t with t = (|x| - p) / (1 + |x| p). p is the value
// of 0, 1/2, 1, 3/2 and infinity that gives the smallest t, below 7/16.
Value SoftwareFunctions::atan(Value x) {
  struct Part {
    double from, p, high, low;
  };
  static constexpr Part parts[] = {
      {7.0 / 16, 0.5, 0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
      {11.0 / 16, 1.0, 0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
      {19.0 / 16, 1.5, 0x1.f730bd281f69bp-1, 0x1.007887af0cbbdp-56}};
  // Select the values for the range of |x|: t = above / below, and atan p =
  // high + low.
  Value size = l.abs(x), one = c(1, x);
  Value above = size, below = one, high = c(0, x), low = c(0, x);
  for (const Part &part : parts) {
    Value isHere = test(Test::OGE, size, part.from);
    above = l.select(isHere, l.sub(size, c(part.p, x)), above);
    below = l.select(isHere, fma(size, c(part.p, x), one), below);
    high = l.select(isHere, c(part.high, x), high);
    low = l.select(isHere, c(part.low, x), low);
  }
  Value isFar = test(Test::OGE, size, 39.0 / 16);
  above = l.select(isFar, c(-1, x), above);
  below = l.select(isFar, size, below);
  high = l.select(isFar, c(kQuarterHigh, x), high);
  low = l.select(isFar, c(kQuarterLow, x), low);

  // atan t = t - t^3 / 3 + t^5 / 5 - ...
  SmallVector<double> coefficients;
  for (int i = 1; i <= 22; ++i)
    coefficients.push_back((i % 2 ? -1.0 : 1.0) / (2 * i + 1));
  Value t = l.div(above, below), square = l.mul(t, t);
  Value tail = l.mul(l.mul(t, square), series(square, coefficients));
  Value result = l.add(high, l.add(t, l.add(low, tail)));
  return math::CopySignOp::create(b, result, x);
}

// Emits asin x as atan(x / sqrt((1 - x) (1 + x))). The root, and thus the
// result, is NaN for |x| > 1.
Value SoftwareFunctions::asin(Value x) {
  Value one = c(1, x);
  Value root = l.sqrt(l.mul(l.sub(one, x), l.add(one, x)));
  return atan(l.div(x, root));
}

// Emits acos x as 2 atan(sqrt((1 - x) / (1 + x))).
Value SoftwareFunctions::acos(Value x) {
  Value one = c(1, x);
  Value half = atan(l.sqrt(l.div(l.sub(one, x), l.add(one, x))));
  return l.add(half, half);
}
