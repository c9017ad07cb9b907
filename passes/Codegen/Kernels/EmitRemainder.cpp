// The exact remainder of floats, with the sign of the dividend: C's fmod, which
// a GPU has no library for.
//
// SPDX-License-Identifier: Apache-2.0
#include "compiler/Dialect/MPC/MPC.h"
#include "passes/Codegen/Kernels/ElementwiseTable.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace mpc;
using namespace mpc::codegen;

/// Bits of a quotient that is rounded down right but for one unit.
static constexpr int kQuotientBits = 50;
/// Every multiplication by a power of two up to here is exact or overflows.
static constexpr int kLargestPower = 1000;

namespace {
/// Long division in f64, kQuotientBits of the quotient at a time. What is left
/// after each step is below divisor * 2^n and a multiple of its last bit, so it
/// has no more bits than a divisor, and no step rounds it.
class Remainder {
public:
  Remainder(Lanes &lanes) : b(lanes.getBuilder()), l(b, b.getF64Type()) {}

  /// Of numbers of as many lanes, whose quotient is below 2^bits.
  Value emit(Value dividend, Value divisor, int bits) {
    Value x = l.abs(dividend), y = l.abs(divisor);
    int steps = (bits + kQuotientBits - 1) / kQuotientBits;
    for (int step = steps; step-- > 0;)
      x = reduce(x, scale(y, step * kQuotientBits));
    return math::CopySignOp::create(b, x, dividend);
  }

private:
  Value scale(Value y, int power) {
    for (; power > 0; power -= kLargestPower)
      y = l.mul(y, l.constant(std::ldexp(1, std::min(power, kLargestPower))));
    return y;
  }

  /// x modulo y; x itself where y is infinite, and so above it.
  Value reduce(Value x, Value y) {
    Value quotient = math::FloorOp::create(b, l.div(x, y));
    Value rest = math::FmaOp::create(b, l.neg(quotient), y, x);
    Value zero = l.constant(0);
    using Test = arith::CmpFPredicate;
    rest = l.select(l.compare(Test::OLT, rest, zero), l.add(rest, y), rest);
    rest = l.select(l.compare(Test::OGE, rest, y), l.sub(rest, y), rest);
    Value infinity = l.constant(std::numeric_limits<double>::infinity());
    Value isBelow = arith::AndIOp::create(b, l.compare(Test::OEQ, y, infinity),
                                          l.compare(Test::OLT, x, infinity));
    return l.select(isBelow, x, rest);
  }

  ImplicitLocOpBuilder &b;
  Lanes l;
};
} // namespace

static Value emitMod(Lanes &l, ModOp, ModOp::Adaptor in) {
  FloatType type = l.getComputeType();
  Lanes wide(l.getBuilder(), l.getBuilder().getF64Type());
  Value x = wide.convert(in.getLhs(), wide.getComputeType());
  Value y = wide.convert(in.getRhs(), wide.getComputeType());
  // From the smallest subnormal number to the largest number.
  int bits = type.isF64() ? 1024 + 1074 : 128 + 149;
  Value like = isa<VectorType>(x.getType()) ? x : y;
  return l.convert(
      Remainder(l).emit(wide.broadcast(x, like), wide.broadcast(y, like), bits),
      type);
}

void codegen::addRemainderFormulas(ElementwiseTable &table) {
  table.add<ModOp>(emitMod);
}
