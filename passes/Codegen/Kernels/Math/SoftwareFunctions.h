// Functions of f64 as arithmetic: range reduction and Taylor series. The series
// are short because the ranges are, and their coefficients are exact fractions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_MATH_SOFTWAREFUNCTIONS_H
#define MPC_PASSES_CODEGEN_KERNELS_MATH_SOFTWAREFUNCTIONS_H

#include "passes/Codegen/Kernels/Loops/Lanes.h"

#include <limits>

namespace mpc::codegen {

/// The functions, on scalars or vectors of f64: each has the value of the C
/// function of its name, at the ends of its range and beyond too.
class SoftwareFunctions {
public:
  SoftwareFunctions(mlir::Location loc, mlir::OpBuilder &builder)
      : b(loc, builder), l(b, b.getF64Type()) {}

  // SoftwareMath.cpp
  mlir::Value exp(mlir::Value x);
  mlir::Value log(mlir::Value x);
  mlir::Value log1p(mlir::Value x);
  mlir::Value tanh(mlir::Value x);
  mlir::Value erf(mlir::Value x);
  /// To a few units in the last place of f64, or in half the operations to a
  /// few of y log x, which magnify: 2^-42 near the ends of the range.
  mlir::Value pow(mlir::Value x, mlir::Value y, bool isExact);
  mlir::Value sinh(mlir::Value x);
  mlir::Value cosh(mlir::Value x);
  mlir::Value asinh(mlir::Value x);
  mlir::Value acosh(mlir::Value x);
  mlir::Value atanh(mlir::Value x);

  // SoftwareAngles.cpp
  mlir::Value sin(mlir::Value x);
  mlir::Value cos(mlir::Value x);
  mlir::Value tan(mlir::Value x);
  mlir::Value asin(mlir::Value x);
  mlir::Value acos(mlir::Value x);
  mlir::Value atan(mlir::Value x);

private:
  using Test = mlir::arith::CmpFPredicate;
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

  /// An unevaluated sum, the second part below the last digit of the first.
  struct Pair {
    mlir::Value high, low;
  };
  /// An angle of at most pi / 4 either way, and how many quarter turns (i64,
  /// modulo 4) to add to it.
  struct Angle {
    Pair rest;
    mlir::Value quadrant;
  };

  mlir::Value c(double value, mlir::Value like) {
    return l.broadcast(l.constant(value), like);
  }
  mlir::Value fma(mlir::Value x, mlir::Value y, mlir::Value z) {
    return mlir::math::FmaOp::create(b, x, y, z);
  }
  mlir::Value test(Test predicate, mlir::Value x, double y) {
    return l.compare(predicate, x, l.constant(y));
  }
  mlir::Value word(int64_t value, mlir::Value like) {
    return l.broadcast(l.integer(b.getI64Type(), value), like);
  }
  mlir::Value toBits(mlir::Value x) {
    return mlir::arith::BitcastOp::create(b, Lanes::typeLike(b.getI64Type(), x),
                                          x);
  }
  mlir::Value fromBits(mlir::Value x) {
    return mlir::arith::BitcastOp::create(b, Lanes::typeLike(b.getF64Type(), x),
                                          x);
  }
  mlir::Value shiftLeft(mlir::Value x, mlir::Value amount) {
    return mlir::arith::ShLIOp::create(b, x, amount);
  }
  mlir::Value shiftRight(mlir::Value x, mlir::Value amount) {
    return mlir::arith::ShRUIOp::create(b, x, amount);
  }
  mlir::Value bitAnd(mlir::Value x, int64_t mask) {
    return mlir::arith::AndIOp::create(b, x, word(mask, x));
  }
  mlir::Value isZero(mlir::Value x) {
    return l.compare(mlir::arith::CmpIPredicate::eq, x, word(0, x));
  }
  /// coefficients[0] + coefficients[1] * x + ...
  mlir::Value series(mlir::Value x, llvm::ArrayRef<double> coefficients);
  /// 2^n, for an exponent n (i64) of a normal number.
  mlir::Value powerOfTwo(mlir::Value n);
  std::pair<mlir::Value, mlir::Value> halfExponentials(mlir::Value size);

  /// x + y, exactly.
  Pair sum(mlir::Value x, mlir::Value y);
  /// x y, to twice as many digits as a number has.
  Pair multiply(const Pair &x, const Pair &y);
  /// e and m of x = 2^e m, m from 1 / sqrt 2 up to sqrt 2.
  std::pair<mlir::Value, mlir::Value> splitExponent(mlir::Value x);
  /// log x of a positive finite x, to 2^-63 of itself.
  Pair exactLog(mlir::Value x);
  /// e^(x + low), where `low` is below the last digit of x; null for 0.
  mlir::Value exp(mlir::Value x, mlir::Value low);
  mlir::Value exactPower(mlir::Value size, mlir::Value y);
  llvm::SmallVector<mlir::Value> takeWords(mlir::Value index);
  Angle divideByQuarterTurns(mlir::Value size);
  Angle reduce(mlir::Value size);
  mlir::Value sineOf(const Pair &angle);
  mlir::Value cosineOf(const Pair &angle);
  mlir::Value sineOf(const Angle &angle);
  /// `result` with the sign of x turned round where x is negative; NaN where x
  /// is no finite number.
  mlir::Value finish(mlir::Value result, mlir::Value x, bool isOdd);

  mlir::ImplicitLocOpBuilder b;
  Lanes l;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_MATH_SOFTWAREFUNCTIONS_H
