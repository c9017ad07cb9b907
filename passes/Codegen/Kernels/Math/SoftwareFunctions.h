// Emits functions of f64 as arithmetic: range reduction and Taylor series.
// Small ranges keep the series short, and the coefficients are exact fractions.
//
// SPDX-License-Identifier: Apache-2.0
#ifndef MPC_PASSES_CODEGEN_KERNELS_MATH_SOFTWAREFUNCTIONS_H
#define MPC_PASSES_CODEGEN_KERNELS_MATH_SOFTWAREFUNCTIONS_H

#include "passes/Codegen/Kernels/Loops/Lanes.h"

#include <limits>

namespace mpc::codegen {

/// The functions, on scalars or vectors of f64. Each matches the C function of
/// its name, also at the ends of its range and beyond.
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
  /// Emits x^y. With `isExact`, the result is accurate to a few units in the
  /// last place of f64. Otherwise pow takes half the operations. The rounding
  /// error of y log x then becomes the relative error of the result, up to
  /// 2^-42 near the ends of the range.
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

  /// A number as the sum high + low. `low` is below the last digit of `high`.
  struct Pair {
    mlir::Value high, low;
  };
  /// An angle: `rest`, between -pi / 4 and pi / 4, plus `quadrant` quarter
  /// turns (i64, modulo 4).
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
  /// Emits coefficients[0] + coefficients[1] * x + ...
  mlir::Value series(mlir::Value x, llvm::ArrayRef<double> coefficients);
  /// Emits 2^n, for the exponent n (i64) of a normal number.
  mlir::Value powerOfTwo(mlir::Value n);
  std::pair<mlir::Value, mlir::Value> halfExponentials(mlir::Value size);

  /// Emits x + y exactly, as a pair.
  Pair sum(mlir::Value x, mlir::Value y);
  /// Emits the product of two pairs, with twice the digits of an f64.
  Pair multiply(const Pair &x, const Pair &y);
  /// Returns e and m of x = 2^e m, with m from 1 / sqrt 2 to sqrt 2.
  std::pair<mlir::Value, mlir::Value> splitExponent(mlir::Value x);
  /// Emits log x of a positive finite x, with a relative error of 2^-63.
  Pair exactLog(mlir::Value x);
  /// Emits e^(x + low). `low` is below the last digit of x; null means 0.
  mlir::Value exp(mlir::Value x, mlir::Value low);
  mlir::Value exactPower(mlir::Value size, mlir::Value y);
  llvm::SmallVector<mlir::Value> takeWords(mlir::Value index);
  Angle divideByQuarterTurns(mlir::Value size);
  Angle reduce(mlir::Value size);
  mlir::Value sineOf(const Pair &angle);
  mlir::Value cosineOf(const Pair &angle);
  mlir::Value sineOf(const Angle &angle);
  /// Returns `result`, the value of a function at |x|, with the right sign for
  /// x: negated if the function is odd and x negative. NaN if x is not finite.
  mlir::Value finish(mlir::Value result, mlir::Value x, bool isOdd);

  mlir::ImplicitLocOpBuilder b;
  Lanes l;
};

} // namespace mpc::codegen

#endif // MPC_PASSES_CODEGEN_KERNELS_MATH_SOFTWAREFUNCTIONS_H
