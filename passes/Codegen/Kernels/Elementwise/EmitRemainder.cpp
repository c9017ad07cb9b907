// The exact remainder of floats, with the sign of the dividend: C's fmod, which
// a GPU has no library for.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/Elementwise/ElementwiseTable.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// Bits of the quotient that a step takes: its product with half the bits of a
/// divisor is exact.
static constexpr int kQuotientBits = 25;
static constexpr int64_t kUpperHalf = -(int64_t(1) << 26);
/// Multiplications by powers of two up to here are exact, or overflow.
static constexpr int kLargestPower = 1000;

namespace {
/// Long division in f64, kQuotientBits of the quotient at a time. What is left
/// after each step is below divisor * 2^n and a multiple of its last bit, so it
/// has no more bits than a divisor, and no step rounds it.
class Remainder {
public:
  /// Of numbers that are f32, or of any.
  Remainder(Lanes &lanes, bool isNarrow)
      : b(lanes.getBuilder()), l(b, b.getF64Type()), isNarrow(isNarrow) {}

  Value emit(Value dividend, Value divisor) {
    Value x = l.abs(dividend), y = l.abs(divisor);
    // From the smallest subnormal number to the largest number.
    int bits = isNarrow ? 128 + 149 : 1024 + 1074;
    int steps = (bits + kQuotientBits - 1) / kQuotientBits;
    for (int step = steps; step-- > 0;)
      x = reduce(x, scale(y, step * kQuotientBits));
    // Not copysign: of one number that was an f16, LLVM would round the sign to
    // that type by a function of libgcc.
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

  /// x - quotient * y, which is known to have a value: where the product is
  /// rounded, what that loses is subtracted next. The quotient is x / y, so x
  /// less the product is exact.
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

  /// x modulo y.
  Value divide(Value x, Value y) {
    Value quotient = math::FloorOp::create(b, l.div(x, y));
    Value rest = subtract(x, quotient, y);
    // A quotient that was rounded up is one too large.
    Value isBelow = l.compare(Test::OLT, rest, l.constant(0));
    return l.select(isBelow, l.add(rest, y), rest);
  }

  /// The same where a product may be too large for f64: divided by a power of
  /// two before, which is exact, since y is no smaller than a quotient's bits.
  Value divideAny(Value x, Value y) {
    Value isLarge = l.compare(Test::OGE, x, l.constant(0x1p1000));
    Value one = l.constant(1);
    Value down = l.select(isLarge, l.constant(0x1p-100), one);
    Value up = l.select(isLarge, l.constant(0x1p100), one);
    return l.mul(divide(l.mul(x, down), l.mul(y, down)), up);
  }

  /// x modulo y; x itself where y is infinite, and so above it.
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
