// Emits the exact remainder of floats with the sign of the dividend, like C's
// fmod. A GPU has no library for fmod.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// Bits of the quotient that one step of the division computes. They are few
/// enough that their product with either half of a divisor's bits is exact.
static constexpr int kQuotientBits = 25;
static constexpr int64_t kUpperHalf = -(int64_t(1) << 26);
/// The largest n for which `scale` multiplies by 2^n at once. Such a product is
/// exact or overflows.
static constexpr int kLargestPower = 1000;

namespace {
/// Long division in f64. Each step subtracts multiples of divisor * 2^n, for
/// kQuotientBits bits of the quotient. The rest after each step is below
/// divisor * 2^n and a multiple of the divisor's last bit. The rest thus has no
/// more bits than a divisor, and no step rounds.
class Remainder {
public:
  /// `isNarrow` promises that the dividend and the divisor were f32.
  Remainder(Lanes &lanes, bool isNarrow)
      : b(lanes.getBuilder()), l(b, b.getF64Type()), isNarrow(isNarrow) {}

  Value emit(Value dividend, Value divisor) {
    Value x = l.abs(dividend), y = l.abs(divisor);
    // The largest quotient is the largest number divided by the smallest
    // subnormal.
    int bits = isNarrow ? 128 + 149 : 1024 + 1074;
    int steps = (bits + kQuotientBits - 1) / kQuotientBits;
    for (int step = steps; step-- > 0;)
      x = reduce(x, scale(y, step * kQuotientBits));
    // Do not use copysign: if a scalar dividend was converted from f16, LLVM
    // would round its sign to f16 again, by a libgcc function.
    Type i64 = Lanes::typeLike(b.getI64Type(), dividend);
    Value isNegative = l.compare(arith::CmpIPredicate::slt,
                                 arith::BitcastOp::create(b, i64, dividend),
                                 l.integer(b.getI64Type(), 0));
    return l.select(isNegative, l.neg(x), x);
  }

private:
  using Test = arith::CmpFPredicate;

  Value scale(Value y, int power) {
    for (; power > 0; power -= kLargestPower)
      y = l.mul(y, l.constant(std::ldexp(1, std::min(power, kLargestPower))));
    return y;
  }

  /// Returns x - quotient * y, which is known to be representable. The product
  /// may be rounded, so its rounding error is computed and subtracted too. The
  /// quotient is about x / y, so x minus the product is exact.
  Value subtract(Value x, Value quotient, Value y) {
    if (isNarrow)
      return l.sub(x, l.mul(quotient, y));
    Type i64 = Lanes::typeLike(b.getI64Type(), y);
    Value mask = l.integer(b.getI64Type(), kUpperHalf);
    Value bits = arith::AndIOp::create(b, arith::BitcastOp::create(b, i64, y),
                                       l.broadcast(mask, y));
    Value upper = arith::BitcastOp::create(b, y.getType(), bits);
    Value high = l.mul(quotient, upper);
    Value low = l.mul(quotient, l.sub(y, upper));
    Value product = l.add(high, low);
    Value lost = l.sub(low, l.sub(product, high));
    return l.sub(l.sub(x, product), lost);
  }

  /// Returns x modulo y, exactly; both are positive.
  Value divide(Value x, Value y) {
    Value quotient = math::FloorOp::create(b, l.div(x, y));
    Value rest = subtract(x, quotient, y);
    // If x / y was rounded up, the quotient is one too large, and the rest is
    // negative.
    Value isBelow = l.compare(Test::OLT, rest, l.constant(0));
    return l.select(isBelow, l.add(rest, y), rest);
  }

  /// Like `divide`, but also for an x so large that quotient * y may overflow
  /// f64. Scales x and y down by a power of two first. This is exact, since y
  /// is at least x / 2^kQuotientBits, far from the subnormals.
  Value divideAny(Value x, Value y) {
    Value isLarge = l.compare(Test::OGE, x, l.constant(0x1p1000));
    Value one = l.constant(1);
    Value down = l.select(isLarge, l.constant(0x1p-100), one);
    Value up = l.select(isLarge, l.constant(0x1p100), one);
    return l.mul(divide(l.mul(x, down), l.mul(y, down)), up);
  }

  /// Returns x modulo y. Returns x if x is finite and y infinite, as a scaled
  /// divisor may be.
  Value reduce(Value x, Value y) {
    Value rest = isNarrow ? divide(x, y) : divideAny(x, y);
    Value infinity = l.constant(std::numeric_limits<double>::infinity());
    Value isAbove = arith::AndIOp::create(b, l.compare(Test::OEQ, y, infinity),
                                          l.compare(Test::OLT, x, infinity));
    return l.select(isAbove, x, rest);
  }

  ImplicitLocOpBuilder &b;
  Lanes l;
  bool isNarrow;
};
} // namespace

static Value emitMod(Lanes &l, ModOp, ModOp::Adaptor in) {
  FloatType type = l.getComputeType();
  Lanes wide(l.getBuilder(), l.getBuilder().getF64Type());
  Value x = wide.convert(in.getLhs(), wide.getComputeType());
  Value y = wide.convert(in.getRhs(), wide.getComputeType());
  Value like = isa<VectorType>(x.getType()) ? x : y;
  Remainder remainder(l, /*isNarrow=*/!type.isF64());
  return l.convert(
      remainder.emit(wide.broadcast(x, like), wide.broadcast(y, like)), type);
}

void codegen::addRemainderFormulas(ElementwiseTable &table) {
  table.add<ModOp>(emitMod);
}
